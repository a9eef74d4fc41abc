"""Two drivers on copies of one checkpoint: for each batch one of them writes, to all sinks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

from penstock.engine.claim import BatchClaim, check_not_overtaken
from penstock.errors import Fenced
from penstock.local.services import Addresses
from penstock.sinks.control import ensure_control_topic
from penstock.sinks.protocol import Batch

pytestmark = pytest.mark.integration

OURS, THEIRS = {0: (0, 10), 1: (0, 5)}, {0: (0, 12), 1: (0, 5)}


@pytest.fixture
def driver(services: Addresses) -> Iterator[Callable[[], BatchClaim]]:
    """Opens one more driver of the same query."""
    ensure_control_topic(services.kafka, slots=1)
    query = f"claims-{uuid.uuid4().hex[:8]}"
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(BatchClaim(services.kafka, query)))


def take_and_wait(one: BatchClaim, batch: int, offsets: dict[int, tuple[int, int]]) -> None:
    """Claim a batch. A driver prepares its next claim beside, and must not fence those who come after it."""
    one.take(batch, offsets)
    one._sink._prepared.result()


def test_a_driver_takes_one_batch_after_another(driver: Callable[[], BatchClaim]) -> None:
    only = driver()
    for batch in range(4):
        only.take(batch, {0: (batch, batch + 1)})


def test_a_batch_that_another_has_of_other_records_is_refused(driver: Callable[[], BatchClaim]) -> None:
    take_and_wait(driver(), 0, OURS)
    with pytest.raises(Fenced, match=r"claims-\w+: another driver has batch 0 already") as refused:
        driver().take(0, THEIRS)
    assert "copy" in refused.value.hint


def test_a_driver_that_comes_after_a_crash_takes_its_batch_again(driver: Callable[[], BatchClaim]) -> None:
    take_and_wait(driver(), 0, OURS)
    again = driver()
    again.take(0, OURS)
    again.take(1, OURS)


def test_a_batch_whose_first_records_were_given_up_is_the_same(driver: Callable[[], BatchClaim]) -> None:
    take_and_wait(driver(), 0, OURS)
    driver().take(0, {0: (7, 10), 1: (0, 5)})


def test_a_driver_that_was_overtaken_takes_nothing_more(driver: Callable[[], BatchClaim]) -> None:
    old = driver()
    take_and_wait(old, 0, OURS)
    driver().take(1, THEIRS)
    with pytest.raises(Fenced, match=r"^claims-\w+: a newer writer has taken over"):
        old.take(1, OURS)


def test_a_driver_that_was_overtaken_can_know_it_before_it_fences_anyone(
    services: Addresses, driver: Callable[[], BatchClaim]
) -> None:
    newer = driver()
    query = newer._query
    check_not_overtaken(services.kafka, query, 0)
    for batch in range(3):
        take_and_wait(newer, batch, OURS)
        check_not_overtaken(services.kafka, query, batch)
        check_not_overtaken(services.kafka, query, batch + 1)
    with pytest.raises(Fenced, match=r"batch 2 is claimed, but batch 1 is due"):
        check_not_overtaken(services.kafka, query, 1)
    newer.take(3, THEIRS)


def test_a_claim_that_was_left_half_done_is_not_waited_for(
    services: Addresses, driver: Callable[[], BatchClaim]
) -> None:
    dead = driver()
    take_and_wait(dead, 0, OURS)
    dead._sink.stage(Batch(dead._query, 1, pa.table({}), "half done"))
    with pytest.raises(Fenced, match=r"batch 0 is claimed, but batch -1 is due"):
        check_not_overtaken(services.kafka, dead._query, -1)


def test_a_checkpoint_that_was_rolled_back_takes_nothing(driver: Callable[[], BatchClaim]) -> None:
    only = driver()
    for batch in range(3):
        take_and_wait(only, batch, OURS)
    with pytest.raises(Fenced, match=r"^claims-\w+: holds batch 2, but batch 1 is due"):
        driver().take(1, OURS)


def test_a_pipeline_that_knows_no_claims_goes_on(driver: Callable[[], BatchClaim]) -> None:
    # One that ran before there were any, or whose positions the cluster has forgotten: its sinks judge.
    first = driver()
    first.take(41, OURS)
    first.take(42, OURS)
