"""How many task slots a spec needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.slots import realtime_sinks, slots_held, slots_wanted
from penstock.spec import PipelineSpec


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
    assert slots_held(spec(8, 0)) == 0
    assert slots_wanted(spec(8, 0), cores=2) == 2


def test_each_realtime_sink_holds_a_slot_for_each_partition_beside_the_cores() -> None:
    assert slots_wanted(spec(8, 2), cores=4) == 8 + 8 + 4


@given(st.integers(1, 64), st.integers(0, 4), st.integers(0, 64))
def test_micro_batches_always_have_a_slot_left(partitions: int, realtime: int, cores: int) -> None:
    described = spec(partitions, realtime)
    assert len(realtime_sinks(described)) == realtime
    assert slots_wanted(described, cores) - slots_held(described) == max(1, cores)
