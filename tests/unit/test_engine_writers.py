"""What the writers of a sink's slots say, and what the driver makes of it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.outputs import Endpoints, Opening
from penstock.engine.writers import Answer, SlotTask, check_answers, digest_of
from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from penstock.spec import PipelineSpec
from tests.unit.test_spec_checks import EVENTS

SPEC = PipelineSpec(
    **{
        **EVENTS,
        "sink": [
            {"kind": "postgres", "table": "t", "rows": "events", "key": "id", "columns": ["id"], "writers": 3}
        ],
    }
)
[SINK] = SPEC.sink
ROWS = pa.schema(
    [
        ("kind", pa.string()),
        ("span_id", pa.string()),
        ("version", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("event.id", pa.string()),
        ("slot", pa.int32()),
    ]
)
NOBODY = Endpoints("127.0.0.1:1", "http://127.0.0.1:1", "postgresql://127.0.0.1:1/none")
TASK = SlotTask(Opening(SPEC, "payments", SINK, NOBODY, set_aside=False), 7, adopt=False, schema=ROWS)


def row(slot: int, offset: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"kind": "event", "partition": 0, "offset": offset, "event.id": "a", "slot": slot}], ROWS
    )


def answers(*failed: Answer) -> list[Answer]:
    by_slot = {answer.slot: answer for answer in failed}
    return [by_slot.get(slot, Answer(slot, 1, "d")) for slot in range(SINK.writers)]


@pytest.mark.parametrize("error", [SinkError, Fenced, PositionLost, ReplayDiffers])
def test_an_error_of_a_slot_is_raised_as_what_it_was_with_its_slot_and_its_hint(
    error: type[SinkError],
) -> None:
    failed = Answer(1, error=error.__name__, message="sink t: trouble", hint="do this")
    with pytest.raises(SinkError) as caught:
        check_answers(SINK, answers(failed))
    assert type(caught.value) is error
    assert (caught.value.message, caught.value.hint) == ("slot 1 of 3 of sink t: trouble", "do this")


def test_an_error_that_says_that_going_on_would_do_harm_comes_before_one_that_passes() -> None:
    passes, harms = Answer(0, error="SinkError", message="away"), Answer(2, error="Fenced", message="ahead")
    with pytest.raises(Fenced, match="ahead"):
        check_answers(SINK, answers(passes, harms))


@pytest.mark.parametrize("there", [[], [0, 1], [0, 2], [0, 1, 1], [0, 1, 2, 3]])
def test_every_slot_must_answer_once(there: list[int]) -> None:
    with pytest.raises(SinkError, match="sink t: of the slots 0 to 2 these answered"):
        check_answers(SINK, [Answer(slot) for slot in there])
    check_answers(SINK, answers())


@given(st.lists(st.text("0123456789abcdef", max_size=16), min_size=2, max_size=4))
def test_the_digest_of_slots_depends_on_each_and_on_their_order(digests: list[str]) -> None:
    whole = digest_of(digests)
    assert whole == digest_of(list(digests))
    assert (digest_of(digests[::-1]) == whole) == (digests == digests[::-1])
    assert digest_of([*digests[:-1], f"{digests[-1]}0"]) != whole


def test_a_store_that_is_away_is_an_answer_and_no_exception() -> None:
    found = TASK.run(2, [row(2)])
    assert (found.slot, found.error) == (2, "SinkError")
    assert "sink t: PostgreSQL at 127.0.0.1:1 does not answer" in found.message


def test_rows_of_another_slot_are_not_written() -> None:
    found = TASK.run(2, [row(2), row(1)])
    assert (found.error, found.message) == (
        "SinkError",
        "sink t: 1 rows of other slots came; nothing was written",
    )


def test_what_nobody_thought_of_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(TASK, schema=pa.schema([("slot", pa.int32())])).run(0, [])
    assert found.error == "SinkError"
    assert found.message.startswith("sink t: ")
    assert "Traceback" in capsys.readouterr().err
