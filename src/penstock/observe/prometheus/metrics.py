"""Every metric that Penstock shows, once: its name, what it means and what to do with it.

All have the label `pipeline`; the others of a metric are listed with it, and each has few values: sinks and
lookups of a spec, queries, brokers, at most PARTITIONS_MAX partitions, and fixed words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram", "summary"]


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    """The first is the pipeline."""


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"penstock_{name}", "gauge", text, ("pipeline", *labels))


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"penstock_{name}_total", "counter", text, ("pipeline", *labels))


def _histogram(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"penstock_{name}", "histogram", text, ("pipeline", *labels))


def _summary(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"penstock_{name}", "summary", text, ("pipeline", *labels))


# The pipeline itself
PIPELINE_INFO = _gauge(
    "pipeline_info", "Always 1: the version of Penstock that tells of the pipeline.", "version"
)
SINK_INFO = _gauge(
    "sink_info", "Always 1: a sink's store, and what it guarantees.", "sink", "kind", "guarantee"
)
HEARTBEAT = _gauge(
    "heartbeat_timestamp_seconds",
    "When the pipeline last wrote anything down; it does each second. Older than 15 s: it is stuck or dead.",
)
PROCESS_UP = _gauge(
    "process_up",
    "Whether a process holds the pipeline's checkpoint. 0 and not told to stop: it crashed. Not there where"
    " this cannot be told.",
)
PHASE = _gauge("phase", "1 for what the pipeline does now, 0 for the other phases.", "phase")
PHASE_SINCE = _gauge("phase_timestamp_seconds", "Since when the pipeline has been in its phase.")
FAILED_IN_ROW = _gauge(
    "failed_batches_in_row",
    "Batches that failed since the last one that succeeded. Above 3 it is no hiccup: read the log.",
)
FAILED = _counter("failed_batches", "Batches that failed and were tried again.")
SERVICE_WAITS = _counter("service_waits", "How often the pipeline waited for Kafka or a store that was away.")
LOOKUP_STALE = _gauge(
    "lookup_stale_seconds", "How long reference data could not be refreshed; 0 while it can.", "lookup"
)

# Throughput
RECORDS_IN = _counter("records_in", "Records that producers added to the topic.")
RECORDS_READ = _counter("records_read", "Records of batches that every sink holds.")
RECORDS_DECODED = _counter("records_decoded", "Of the records read, those that are well-formed and valid.")
SET_ASIDE = _counter(
    "records_set_aside",
    "Records that did not become part of a result: rejected (malformed or invalid), late, duplicate, or"
    " refused by a store. See them with penstock dead-letters list.",
    "kind",
)
SPANS = _counter("spans", "Sessions or windows that were opened, closed, corrected or merged.", "kind")

# Batches
BATCHES = _counter("batches", "Batches that every sink holds.", "query")
BATCH = _histogram("batch_seconds", "How long batches took, from their start to the last sink.", "query")
BATCH_PHASE = _summary(
    "batch_phase_seconds",
    "Where the time of batches went, in order: offsets, planning, log, compute, sinks, commit.",
    "query",
    "phase",
)
CYCLE = _gauge("batch_cycle_seconds", "From a batch's end to the next one's, of the last 10 s.", "query")
TRIGGER_LAG = _gauge(
    "trigger_lag_seconds",
    "By how much the newest batch took longer than the spec's trigger interval: so late began the next one.",
)

# Sinks
SINK_ROWS = _counter("sink_rows", "Rows that a sink holds.", "sink")
SINK_REFUSED = _counter("sink_rows_refused", "Rows that a sink's store did not take.", "sink")
SINK_REPLAYS = _counter(
    "sink_replays", "Batches that came again after a failure and that the sink held already.", "sink"
)
SINK_WRITE = _histogram("sink_write_seconds", "How long a sink took to write a batch.", "sink")
SINK_VISIBLE = _gauge(
    "sink_visible_timestamp_seconds", "When the newest batch became visible in a sink.", "sink"
)
LATENCY = _histogram(
    "latency_seconds",
    "From the making of an event to its result being visible in a sink. Of percentiles ask"
    " histogram_quantile over a rate.",
    "sink",
)
OBJECTIVE = _gauge("latency_objective_seconds", "What p99 of the latency should stay under.")

# Lag
LAG_RECORDS = _gauge("lag_records", "Records in the topic that are not processed yet.")
LAG_AGE = _gauge(
    "lag_seconds",
    "The age of the oldest record in the topic that is not processed yet, 0 if none waits. Growing: the"
    " pipeline does not keep up.",
)
LAG_SEEN = _gauge(
    "lag_timestamp_seconds",
    "When Kafka last said how far the topic reaches; asked each second. Older: a broker is away.",
)
LAG_SLOPE = _gauge(
    "lag_slope_records_per_second",
    "By how much lag grows, or falls below 0, from batch to batch; 0 where it does neither. Not there while"
    " too little is known.",
)
LAG_TREND = _gauge("lag_trend", "1 for the shape that lag has now, 0 for the others.", "trend")
LAG_SKEW = _gauge(
    "lag_skew_ratio",
    "How unevenly lag lies on the partitions: 0 evenly, 1 all on one. High while lag is: look for a hot key.",
)
INPUT_SKEW = _gauge(
    "input_skew_ratio", "How unevenly producers fill the partitions: 0 evenly, 1 all into one."
)
PARTITION_END = _gauge("partition_end_offset", "How far a partition reaches.", "partition")
PARTITION_POSITION = _gauge("partition_position_offset", "How far it is processed.", "partition")
PARTITION_LAG = _gauge("partition_lag_records", "Records of it that are not processed yet.", "partition")
PARTITION_AGE = _gauge(
    "partition_lag_seconds", "The age of the oldest of them, 0 if none waits.", "partition"
)

# Event time and state
WATERMARK = _gauge("watermark_timestamp_seconds", "The clock of sessions and windows: a time of events.")
WATERMARK_DELAY = _gauge(
    "watermark_delay_seconds",
    "How far that clock is behind the wall's. Growing without lag: producers are silent, or their clocks are"
    " wrong.",
)
STATE_MEMORY = _gauge("state_memory_bytes", "Memory of the state store.")
STATE_DISK = _gauge("state_disk_bytes", "Files of the state store.")
STATE_UPDATED = _counter("state_rows_updated", "Rows of the state that batches wrote.")
STATE_REMOVED = _counter("state_rows_removed", "Rows of the state that batches removed.")
CHECKPOINT = _gauge("checkpoint_seconds", "How long the newest batch took to commit.")
CHECKPOINT_BYTES = _counter("checkpoint_bytes", "Written to the checkpoint for the state.")

# Pressure
BUSY = _gauge(
    "busy_ratio", "The share of its time in which a query works. From 0.9 on it has no room left.", "query"
)
STAGE_BUSY = _gauge(
    "stage_busy_ratio",
    "The share of the time in which a stage works. Stages work one after the other: the shares add up to"
    " busy_ratio, and the largest is where more speed helps.",
    "query",
    "stage",
)
STAGE_WAITING = _gauge(
    "stage_waiting_ratio", "The share of the time in which a stage waits for the others.", "query", "stage"
)
STAGE_RATE = _gauge("stage_records_per_second", "What comes through a stage.", "query", "stage")
STAGE_CAPACITY = _gauge(
    "stage_capacity_records_per_second", "What could, if it never had to wait.", "query", "stage"
)
PRESSURE = _gauge(
    "pressure",
    "1 for the stage that holds the others up, while the query is busy and records wait; else 0.",
    "query",
    "stage",
)

# Processes: driver (Python), jvm (Spark's driver), executors (all others together)
CPU = _counter(
    "cpu_seconds", "CPU time, of user and system; of executors, the time of their tasks.", "process"
)
RSS = _gauge("resident_memory_bytes", "Memory that is held.", "process")
HEAP_USED = _gauge("heap_used_bytes", "Heap in use, garbage included.", "process")
HEAP_MAX = _gauge("heap_max_bytes", "What the heap may grow to.", "process")
GC = _counter("gc_seconds", "Time in garbage collections. Above a tenth of the time: more heap.", "process")
EXECUTORS = _gauge("executors", "Spark's executors in other processes; 0 where the driver does the work.")

# Kafka
BROKER_UP = _gauge("broker_up", "Whether a broker accepts connections.", "broker")
UNDER_REPLICATED = _gauge(
    "kafka_under_replicated_partitions", "Partitions with fewer copies in sync than they should have."
)
OFFLINE = _gauge("kafka_offline_partitions", "Partitions without a leader: nobody can read or write them.")
BROKER_IN = _gauge("broker_in_bytes_per_second", "What producers send to a broker.", "broker")
BROKER_OUT = _gauge("broker_out_bytes_per_second", "What consumers fetch from it.", "broker")
BROKER_DISK = _gauge("broker_disk_bytes", "What its data takes on disk.", "broker")
BROKER_REQUEST = _gauge(
    "broker_request_p99_seconds", "How long it takes to answer, at p99.", "broker", "request"
)

# The audit
LOST = _gauge("records_lost", "Records lost, at the place where most are. Above 0: see penstock audit.")
DUPLICATED = _gauge("records_duplicated", "Records doubled, at the place where most are.")
AUDITED = _gauge("audited_batches", "Batches that were compared.")
AUDIT_TOOK = _gauge("audit_seconds", "How long the last look took.")
AUDIT_AT = _gauge("audit_timestamp_seconds", "When the last look ended. Old: nobody looks any more.")
SINK_LOST = _gauge("sink_rows_lost", "Rows that receipts tell of and the sink lacks.", "sink")
SINK_DUPLICATED = _gauge("sink_rows_duplicated", "Rows that the sink has too often.", "sink")

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""In the order of this file."""
