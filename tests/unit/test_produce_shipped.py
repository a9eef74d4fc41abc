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


def test_a_schema_with_other_fields_is_refused_by_the_records_that_come_nearest() -> None:
    path = shipped("pipelines") / "behaviour.toml"
    schema = load(path, environ={}).source.ddl + ", mood string"
    spec = load(path, environ={}, overrides={"source.schema": schema})
    with pytest.raises(SpecError, match='"mood" is not a field of the generated actions'):
        plan_for(spec, seed=7)
