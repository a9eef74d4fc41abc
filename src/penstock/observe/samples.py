"""What is seen of a pipeline while it runs, beside the receipts of its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class StateWork:
    """What a batch did to the state, over all tasks."""

    rows_updated: int
    rows_removed: int
    memory_bytes: int
    disk_bytes: int
    update_ms: int
    remove_ms: int
    commit_ms: int
    checkpoint_bytes: int
    """Written to the checkpoint by this batch."""


@dataclass(frozen=True)
class StageWork:
    """One of Spark's stages: what runs between two shuffles. Times but the wall's are sums over tasks."""

    number: int
    tasks: int
    wall_ms: int
    run_ms: int
    cpu_ms: int
    gc_ms: int
    records_in: int
    """As Spark counts: records of the topic, behind the shuffle packets of them."""
    shuffle_read_bytes: int
    shuffle_wait_ms: int
    shuffle_write_bytes: int
    shuffle_write_ms: int
    spill_bytes: int


@dataclass(frozen=True)
class Work:
    """How Spark spent a batch, told after its commit."""

    at_ms: int
    query: str
    batch: int
    offsets_ms: int
    """Asking the topic how far it reaches."""
    planning_ms: int
    log_ms: int
    """Writing down, before the batch runs, what it will read."""
    run_ms: int
    """Compute and sinks."""
    commit_ms: int
    total_ms: int
    watermark_ms: int
    """0 where there is none."""
    state: StateWork | None
    stages: tuple[StageWork, ...]
    what: Literal["work"] = "work"


@dataclass(frozen=True)
class ProcessLoad:
    """One process, since its start."""

    name: str
    """driver, jvm, or an executor's id."""
    cpu_s: float
    rss_bytes: int
    heap_used_bytes: int = 0
    heap_max_bytes: int = 0
    gc_ms: int = 0
    gc_count: int = 0


@dataclass(frozen=True)
class Load:
    """What the processes of a pipeline use."""

    at_ms: int
    processes: tuple[ProcessLoad, ...]
    what: Literal["load"] = "load"


@dataclass(frozen=True)
class BrokerHealth:
    """One broker; what cannot be asked is None."""

    id: int
    alive: bool
    disk_bytes: int | None = None
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    produce_p99_ms: float | None = None
    fetch_p99_ms: float | None = None
    isr_shrinks: int | None = None
    """Since it started."""


@dataclass(frozen=True)
class KafkaHealth:
    """How Kafka itself is."""

    at_ms: int
    brokers: tuple[BrokerHealth, ...]
    under_replicated: int
    offline: int
    controller: int
    what: Literal["health"] = "health"


@dataclass(frozen=True)
class SinkVerdict:
    """What an audit found at one sink."""

    name: str
    lost: int
    duplicated: int


@dataclass(frozen=True)
class AuditVerdict:
    """What an audit found."""

    at_ms: int
    lost: int
    duplicated: int
    batches: int
    sinks: tuple[SinkVerdict, ...]
    problems: tuple[str, ...]
    what: Literal["verdict"] = "verdict"


Sample = Work | Load | KafkaHealth | AuditVerdict
