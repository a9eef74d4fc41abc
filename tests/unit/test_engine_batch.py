from __future__ import annotations

import pytest

from penstock.engine.batch import sets_aside
from penstock.spec import ClickHouseSink, KafkaSink, Sink

TABLE = ClickHouseSink(table="sessions")
REJECTED = KafkaSink(topic="rejected", rows=("rejected",))
REFUSED = KafkaSink(topic="dead-letters", rows=("rejected", "refused"))
OTHER = KafkaSink(topic="copies", rows=("refused",))


@pytest.mark.parametrize(
    ("sink", "sinks", "aside"),
    [
        (TABLE, [TABLE, REJECTED], False),
        (TABLE, [TABLE, REFUSED], True),
        (REJECTED, [TABLE, REJECTED, REFUSED], True),
        (REFUSED, [TABLE, REFUSED], False),
        (REFUSED, [TABLE, REFUSED, OTHER], False),
    ],
)
def test_rows_are_left_out_only_where_a_sink_behind_takes_them(
    sink: Sink, sinks: list[Sink], aside: bool
) -> None:
    assert sets_aside(sink, sinks) is aside
