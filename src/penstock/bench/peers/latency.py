"""How long an event takes through Flink, read as `penstock.bench.realtime` reads Penstock's own."""

from __future__ import annotations

from penstock.bench.peers.child import running
from penstock.bench.peers.job import Guarantee, write_lookups
from penstock.bench.peers.jvm import PARTITIONS, Say, java_command
from penstock.bench.realtime import Outcome, measure_topic
from penstock.local.services import Services
from penstock.paths import DataDir
from penstock.produce.reference import write_reference
from penstock.sinks.topics import ensure_source_topic

_CLICKS = "clicks"
_ENRICHED = "enriched"


def flink_latency(
    data: DataDir, guarantee: Guarantee, *, rate_eps: float, seconds: float, warm_up_s: float, say: Say
) -> Outcome:
    """Of events that are decoded, cleansed, enriched and written to Kafka; checkpoints every second."""
    services = Services(data, tie_to_parent=True, say=say, only=("kafka",))
    try:
        kafka = services.start().kafka
        write_reference(data.reference)
        write_lookups(data.reference, data.root / "lookups")
        ensure_source_topic(kafka, _CLICKS, PARTITIONS)
        ensure_source_topic(kafka, _ENRICHED, PARTITIONS)
        settings = {
            "bootstrap": kafka,
            "topic": _CLICKS,
            "reference": data.root / "lookups",
            "output": _ENRICHED,
            "guarantee": guarantee,
            "work": data.root / "flink",
        }
        command = java_command("flink", "FlinkEvents", settings, say)
        with running(command, data.logs / "flink.log"):
            return measure_topic(
                data, kafka, _ENRICHED, guarantee, rate_eps=rate_eps, seconds=seconds, warm_up_s=warm_up_s
            )
    finally:
        services.stop()
