"""How many task slots a spec needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.slots import readers, realtime_sinks, slots_held, slots_wanted
from penstock.spec import PipelineSpec
from penstock.tuning import UNTUNED


def spec(partitions: int, realtime: int) -> PipelineSpec:
    def sink(topic: str, latency: str) -> dict[str, str]:
        events = {"kind": "kafka", "rows": "events", "guarantee": "at_least_once", "key": "id"}
        return {**events, "topic": topic, "latency": latency}

    source = {
        "topic": "t",
        "partitions": partitions,
        "schema": "id string, ts long",
        "key": "id",
        "event_time": "ts",
    }
    sinks = [sink("batch", "batch"), *(sink(f"realtime-{n}", "realtime") for n in range(realtime))]
    return PipelineSpec(**{"name": "p", "source": source, "sink": sinks})


def test_a_spec_without_realtime_sinks_holds_no_slot_and_wants_the_cores() -> None:
    assert slots_held(spec(8, 0), "local[*]") == 0
    assert slots_wanted(spec(8, 0), cores=2) == 2


def test_each_realtime_sink_holds_as_many_slots_as_there_are_cores_beside_those_of_all_else() -> None:
    assert slots_wanted(spec(8, 2), cores=4) == 4 + 4 + 4


def test_no_more_tasks_read_than_there_are_partitions() -> None:
    assert slots_wanted(spec(3, 1), cores=16) == 3 + 16


def test_on_a_cluster_and_untuned_each_partition_is_read_by_a_task_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert readers(spec(8, 1), "spark://there:7077", cores=2) == 8
    assert readers(spec(8, 1), "local[*]", cores=2) == 2
    monkeypatch.setenv(UNTUNED, "realtime-source.tasks")
    assert readers(spec(8, 1), "local[*]", cores=2) == 8


@given(st.integers(1, 64), st.integers(0, 4), st.integers(0, 64))
def test_micro_batches_always_have_a_slot_left(partitions: int, realtime: int, cores: int) -> None:
    described = spec(partitions, realtime)
    assert len(realtime_sinks(described)) == realtime
    assert slots_wanted(described, cores) - slots_held(described, "local[*]", cores) == max(1, cores)
