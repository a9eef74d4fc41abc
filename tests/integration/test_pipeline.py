"""The whole pipeline on a real broker and a real ClickHouse: what goes in comes out once."""

from __future__ import annotations

from contextlib import closing
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from penstock.audit.topic import read_topic
from penstock.engine.pipeline import Pipeline
from penstock.engine.source import check_source
from penstock.errors import PositionLost, SourceError, SpecError
from penstock.spec import Windows
from tests.integration.clicks import NewRig, clickstream

pytestmark = pytest.mark.integration


def test_what_is_sent_comes_out_once_and_equals_the_oracle_over_two_runs(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    rig.send()
    rig.move_clock()
    rig.run_until_quiet()
    outcome = rig.audit()
    assert outcome.problems == ()
    assert outcome.sent == outcome.decoded + outcome.rejected == 9_001
    assert outcome.expected > 100
    assert min(outcome.late, outcome.rejected) > 10

    letters = list(read_topic(rig.addresses.kafka, f"{rig.spec.name}-dead"))
    assert len(letters) == outcome.late + outcome.rejected
    headers: list[dict[str, Any]] = [dict(letter.headers() or []) for letter in letters]
    origins = {(h["penstock.topic"], h["penstock.partition"], h["penstock.offset"]) for h in headers}
    assert len(origins) == len(letters)
    originals = {
        (str(m.partition()).encode(), str(m.offset()).encode()): m.value()
        for m in read_topic(rig.addresses.kafka, rig.spec.source.topic)
    }
    for letter, header in zip(letters, headers, strict=True):
        assert letter.value() == originals[header["penstock.partition"], header["penstock.offset"]]


class Interrupted(Event):
    """What asks after it is interrupted, as by a signal."""

    def is_set(self) -> bool:
        raise KeyboardInterrupt


def test_a_run_that_is_interrupted_leaves_no_query_behind(new_rig: NewRig) -> None:
    rig = new_rig()
    pipeline = Pipeline(
        rig.spec, rig.data, rig.endpoints, rig.spark, on_receipt=lambda _: None, say=lambda _: None
    )
    with closing(pipeline), pytest.raises(KeyboardInterrupt):
        pipeline.run(Interrupted())
    assert rig.spec.name not in {query.name for query in rig.spark.streams.active}


def test_sessions_of_a_silent_topic_close_by_themselves(new_rig: NewRig) -> None:
    rig = new_rig(
        **{"sessions.gap": "2 seconds", "sessions.lateness": "1 second", "sessions.idle": "2 seconds"}
    )
    rig.send(seconds=1.0, rate_eps=200)
    receipts = rig.run_until_quiet(quiet_s=12.0)
    opened, closed = (sum(getattr(r, name) - r.merged for r in receipts) for name in ("opened", "closed"))
    assert closed >= opened > 100
    assert rig.state_keys() == 0


def test_windows_of_a_silent_topic_close_by_themselves(new_rig: NewRig) -> None:
    rig = new_rig()
    times = {"size": "4 seconds", "slide": "2 seconds", "lateness": "1 second", "idle": "2 seconds"}
    windows = Windows.model_validate({"key": "user_id", "measures": {"events": "count(*)"}, **times})
    rig.spec = rig.spec.model_copy(update={"sessions": None, "windows": windows})
    rig.send(seconds=1.0, rate_eps=200)
    receipts = rig.run_until_quiet(quiet_s=12.0)
    opened, closed = (sum(getattr(r, name) for r in receipts) for name in ("opened", "closed"))
    assert closed >= opened > 200
    assert rig.state_keys() == 0


def test_a_batch_whose_commit_was_lost_is_compared_not_written_again(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.move_clock()
    rig.run_until_quiet()
    lost = rig.forget_last_commit()
    [again, *_] = rig.run_until_quiet()
    assert again.batch == lost
    assert [sink.name for sink in again.sinks if not sink.replayed] == [f"{rig.spec.name}_live"]
    assert rig.audit().problems == ()


def test_a_sink_that_lost_its_position_stops_the_pipeline_until_it_is_adopted(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    admin = AdminClient({"bootstrap.servers": rig.addresses.kafka})
    sink = f"{rig.spec.name}-sessions"
    for deleted in admin.delete_consumer_groups([f"penstock-{rig.spec.name}-{sink}"]).values():
        deleted.result()
    rig.send()
    rig.move_clock()
    with pytest.raises(PositionLost, match=f"--adopt {sink}"):
        rig.run_until_quiet()
    rig.run_until_quiet(adopt=(sink,))
    assert rig.audit().problems == ()


def test_a_topic_that_is_missing_or_has_other_partitions_is_named(new_rig: NewRig) -> None:
    rig = new_rig()
    with pytest.raises(SourceError, match="4 partitions, the spec says 3"):
        check_source(
            clickstream(**{"source.topic": rig.spec.source.topic, "source.partitions": "3"}),
            rig.addresses.kafka,
        )
    with pytest.raises(SourceError, match="topic nowhere does not exist"):
        check_source(clickstream(**{"source.topic": "nowhere"}), rig.addresses.kafka)


def test_reference_data_that_is_missing_doubled_or_lacks_a_column_is_a_spec_error(new_rig: NewRig) -> None:
    rig = new_rig()
    users = rig.data.reference / "users.parquet"
    for table, problem in (
        (
            pa.table({"user_id": ["u1", "u1"], "segment": ["a", "b"], "country": ["x", "y"]}),
            "'u1' stands twice",
        ),
        (pa.table({"user_id": ["u1"], "segment": ["a"]}), '"country": no such column in users.parquet'),
        (None, "no such file"),
    ):
        users.unlink(missing_ok=True)
        if table is not None:
            pq.write_table(table, users)
        with pytest.raises(SpecError, match=problem):
            Pipeline(rig.spec, rig.data, rig.endpoints, rig.spark, on_receipt=print, say=print)
