"""What each stage of the clickstream costs, warm, beside Spark's own functions.

The reference work: 3,000,000 clicks of 230 bytes with 10 fields in 8 partitions, 0.5 % malformed, up to 2 s
out of order, 200,000 users and 20,000 products, about 150,000 sessions of 20 clicks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from statistics import median

from pyspark.sql import DataFrame

from penstock.bench.rig import Cost, Rig, open_rig
from penstock.engine.checkpoint import Checkpoint
from penstock.engine.cleanse import clean
from penstock.engine.decode import decode
from penstock.engine.enrich import Lookups
from penstock.engine.grouping import group, measure_layout
from penstock.engine.plain import plain_events, plain_groups
from penstock.engine.refresh import references
from penstock.engine.source import read_source
from penstock.paths import shipped
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.wire import Message
from penstock.sizing import keep
from penstock.spec import PipelineSpec, load

_CHUNK = 1_000
_EPS = 20_000
_START_MS = 1_800_000_000_000
_LOOKUP = "+ lookup"


def clicks(plan: ClickstreamPlan, events: int) -> Iterator[list[Message]]:
    """So many clicks, as if sent at 20,000 a second."""
    stream, encoder = plan.records("bench", _EPS), plan.encoder("bench")
    for sent in range(0, events, _CHUNK):
        now_ms = _START_MS + sent * 1000 // _EPS
        yield encoder.encode(stream.chunk(min(_CHUNK, events - sent), now_ms))


def reference_spec(name: str, **overrides: str) -> PipelineSpec:
    settings = {"name": name, "cleanse.future": "20000 days", "source.max_batch": "300,000", **overrides}
    return load(shipped("pipelines") / "clickstream.toml", environ={}, overrides=settings)


def stages(rig: Rig, spec: PipelineSpec, plain: PipelineSpec) -> dict[str, Callable[[], DataFrame]]:
    """Each stage with those before it."""
    spark, data = rig.spark, rig.data

    checkpoint = Checkpoint(data.checkpoints / spec.name, spec.source.topic)
    lookups = Lookups(spark, references(spec, data, "", print), checkpoint, print)
    checkpoint.close()

    def records(spec: PipelineSpec) -> DataFrame:
        return read_source(spark, spec, rig.addresses.kafka, [spec.source.topic])

    def events() -> DataFrame:
        return clean(decode(spark, records(spec), spec, "groups"), spec, "groups")

    def enriched() -> DataFrame:
        return lookups.enrich(events())

    def sessions(*, combine: bool) -> DataFrame:
        found = enriched()
        return group(spark, found, spec, [measure_layout(found, spec)], combine=combine)

    return {
        "read": lambda: records(spec),
        "+ decode": lambda: events().drop("_value"),
        _LOOKUP: lambda: enriched().drop("_value"),
        "+ sessions, live rows": lambda: sessions(combine=True),
        "  the same, not combined": lambda: sessions(combine=False),
        "plain: whole path, final rows": lambda: plain_groups(
            plain_events(spark, records(plain), plain, data, "groups", ""), plain
        ),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=3_000_000)
    options.add_argument("--rounds", type=int, default=3, help="the first is the warm-up, and not counted")
    options.add_argument("--only", help="stages whose name holds this text")
    given = options.parse_args()
    plan = ClickstreamPlan(malformed=0.005, invalid=0, delayed=0, late=0, duplicate=0)
    spec, plain = reference_spec("bench"), reference_spec("bench-plain", engine="plain")
    with open_rig(spec, print) as rig:
        plan.write_reference(rig.data.reference)
        events = rig.fill(spec.source.topic, spec.source.partitions, clicks(plan, given.events))
        costs: dict[str, list[Cost]] = {}
        for number in range(given.rounds):
            for name, frame in stages(rig, spec, plain).items():
                if given.only and given.only not in name:
                    continue
                cost = rig.measure(frame(), events)
                print(
                    f"round {number}  {name:32} {cost.per_million:6.2f} CPU-s per million  {cost.eps:9,.0f}/s"
                )
                if number:
                    costs.setdefault(name, []).append(cost)
    print(f"\n{'stage':32} CPU-s per million (each round)")
    for name, measured in costs.items():
        print(f"{name:32} " + "  ".join(f"{cost.per_million:6.2f}" for cost in measured))
    if looked_up := costs.get(_LOOKUP):
        # A microsecond an event is a second a million.
        keep("event_us", median(cost.per_million for cost in looked_up), "python -m penstock.bench.stages")


if __name__ == "__main__":
    main()
