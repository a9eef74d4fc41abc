"""Which queries a spec needs, what they are called, and which sinks each writes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine.pipeline import query_name, sinks_of, tiers
from penstock.spec import PipelineSpec, Tier
from tests.unit.test_spec_checks import EVENTS, WINDOWS
from tests.unit.test_spec_problems import CLICKSTREAM, with_values

BATCHED_EVENTS = {"sink.1.latency": "batch"}
ASIDE = {"kind": "kafka", "topic": "aside", "rows": "rejected"}


def written(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, tuple[Tier, list[str]]]:
    """The tier and the sinks of each query, by its name."""
    spec = PipelineSpec(**with_values(changes, base))
    return {query_name(spec, tier): (tier, [s.name for s in sinks_of(spec, tier)]) for tier in tiers(spec)}


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        pytest.param(
            CLICKSTREAM,
            {},
            {"clickstream": ("groups", ["sessions", "sessions_live", "sessions_table", "dead-letters"])},
            id="sessions need one query, which sets records aside too",
        ),
        pytest.param(
            WINDOWS,
            BATCHED_EVENTS,
            {"payments": ("groups", ["bank.payments", "aside"]), "payments-events": ("events", ["enriched"])},
            id="events beside windows need a query of their own",
        ),
        pytest.param(
            WINDOWS,
            {},
            {"payments": ("groups", ["bank.payments", "aside"])},
            id="a realtime sink is none of these",
        ),
        pytest.param(
            EVENTS,
            {"sink": [{**EVENTS["sink"][0], "latency": "batch"}, ASIDE]},
            {"payments": ("events", ["enriched", "aside"])},
            id="without sessions or windows the only query has the pipeline's name and sets records aside",
        ),
    ],
)
def test_each_sink_is_written_by_one_query(
    base: dict[str, Any], changes: dict[str, Any], expected: dict[str, tuple[Tier, list[str]]]
) -> None:
    assert written(base, changes) == expected
