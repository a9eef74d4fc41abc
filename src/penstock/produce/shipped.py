"""The workloads that are shipped, and which of them fits a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.errors import SpecError
from penstock.produce.behaviour import BehaviourPlan
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.transactions import TransactionsPlan
from penstock.produce.workload import Workload
from penstock.spec import PipelineSpec

_ALL: tuple[type[Workload[Any]], ...] = (ClickstreamPlan, TransactionsPlan, BehaviourPlan)
WORKLOADS: Mapping[str, type[Workload[Any]]] = MappingProxyType({each.name: each for each in _ALL})


def plan_for(spec: PipelineSpec, seed: int) -> Workload[Any]:
    """Records with all the fields that the pipeline's schema names, and delays that fit its idea of late."""
    found = min(_ALL, key=lambda each: len(_unknown(spec, each)))
    if unknown := _unknown(spec, found):
        what = f"is not a field of the generated {found.records_are}"
        raise SpecError(spec.name, [f'source.schema: "{name}" {what}' for name in unknown])
    return found.fitting(spec, seed)


def _unknown(spec: PipelineSpec, workload: type[Workload[Any]]) -> list[str]:
    return [column.name for column in spec.source.columns if column.name not in workload.fields]
