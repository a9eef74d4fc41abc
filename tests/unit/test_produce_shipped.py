"""Which records are made for a pipeline."""

from __future__ import annotations

import pytest

from penstock.errors import SpecError
from penstock.paths import shipped
from penstock.produce.shipped import WORKLOADS, plan_for
from penstock.spec import load


def test_every_shipped_pipeline_has_a_workload_and_every_workload_a_pipeline() -> None:
    assert {path.stem for path in shipped("pipelines").glob("*.toml")} == set(WORKLOADS)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_shipped_pipeline_gets_its_own_records(name: str) -> None:
    plan = plan_for(load(shipped("pipelines") / f"{name}.toml", environ={}), seed=5)
    assert (plan.name, plan.seed) == (name, 5)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_without_flaws_every_record_is_good_in_time_and_sent_once(name: str) -> None:
    plan = plan_for(load(shipped("pipelines") / f"{name}.toml", environ={}), seed=5)
    for wanted, made in ((False, plan), (True, plan.flawless())):
        records = made.records("p1", 1_000)
        chunks = [records.chunk(500, 1_800_000_000_000 + 100 * n) for n in range(20)]
        seqs = [seq for chunk in chunks for seq in chunk.seq.tolist()]
        is_flawless = len(set(seqs)) == len(seqs) and not any(
            chunk.flaw.any() or chunk.timing.any() for chunk in chunks
        )
        assert is_flawless == wanted


def test_a_schema_with_other_fields_is_refused_by_the_records_that_come_nearest() -> None:
    path = shipped("pipelines") / "behaviour.toml"
    schema = load(path, environ={}).source.ddl + ", mood string"
    spec = load(path, environ={}, overrides={"source.schema": schema})
    with pytest.raises(SpecError, match='"mood" is not a field of the generated actions'):
        plan_for(spec, seed=7)
