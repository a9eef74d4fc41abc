"""Several producers told of as one."""

from __future__ import annotations

import threading

import pytest

from penstock.cli.producers import produce_by_several, together
from penstock.errors import PenstockError
from penstock.produce.producer import ProduceStats


def test_counts_are_added_and_the_worst_delay_is_told() -> None:
    one = ProduceStats(elapsed_s=2.0, achieved_eps=100, sent=200, acknowledged=190, queued=10, behind_ms=4)
    other = ProduceStats(elapsed_s=3.0, achieved_eps=50, sent=150, acknowledged=150, trouble="no leader")
    both = together([one, other])
    assert (both.elapsed_s, both.achieved_eps, both.sent, both.acknowledged) == (3.0, 150, 350, 340)
    assert (both.queued, both.behind_ms, both.trouble) == (10, 4, "no leader")


def test_a_producer_that_cannot_start_is_an_error() -> None:
    told: list[ProduceStats] = []
    # The second may hear of the first before it ends by itself.
    with pytest.raises(PenstockError, match=r"a producer failed: their exit codes are .*2"):
        produce_by_several([["--no-such-option"]] * 2, threading.Event(), told.append)
    assert told == []
