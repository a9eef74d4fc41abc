"""What a board shows of a pipeline at one moment. Times are milliseconds, shares are of 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.observe.board.pressure import Stage
from penstock.observe.board.spread import Quantiles
from penstock.observe.samples import AuditVerdict, KafkaHealth

Phase = Literal["unknown", "starting", "running", "waiting", "failing", "stopped", "failed"]
MarkKind = Literal["start", "ready", "away", "back", "failed", "fatal", "stop", "news"]


@dataclass(frozen=True)
class Mark:
    """An event of the run."""

    at_ms: int
    kind: MarkKind
    text: str


@dataclass(frozen=True)
class SinkFacts:
    """What a spec says of a sink."""

    name: str
    kind: str
    target: str
    rows: tuple[str, ...]
    guarantee: str


@dataclass(frozen=True)
class SinkGlance:
    """One sink; rates and times are of the last seconds, counts of all that was read."""

    name: str
    query: str
    facts: SinkFacts | None
    rows: int
    rate_eps: float
    write_ms: float
    write_max_ms: float
    replays: int
    refused: int
    visible_at_ms: int
    quantiles: Quantiles | None


@dataclass(frozen=True)
class StageGlance:
    """One stage of a query; what cannot be told is None."""

    stage: Stage
    rate_eps: float | None
    busy: float | None
    capacity_eps: float | None
    """What it could do if it were never kept waiting."""
    per_batch: float | None
    """Records, keys or rows of a batch that come to it at once."""


@dataclass(frozen=True)
class FlowGlance:
    """One query: where its time goes."""

    query: str
    cycle_ms: float
    busy: float
    origin: Stage | None
    stages: tuple[StageGlance, ...]
    grouped: bool
    """Whether it keeps state."""


@dataclass(frozen=True)
class BatchGlance:
    """The newest batch of the first query."""

    number: int
    at_ms: int
    records: int
    total_ms: float
    phases: dict[str, float]


@dataclass(frozen=True)
class PartitionGlance:
    """One partition of the topic."""

    partition: int
    lag: int
    end: int
    done: int
    rate_eps: float
    age_ms: int


@dataclass(frozen=True)
class LagGlance:
    """What waits in the topic."""

    at_ms: int
    records: int
    age_ms: int
    """Of the oldest record that waits: since when the topic has reached further than the pipeline."""
    partitions: tuple[PartitionGlance, ...]


@dataclass(frozen=True)
class Totals:
    """Since the journal began to be read."""

    batches: int = 0
    records: int = 0
    decoded: int = 0
    rejected: int = 0
    late: int = 0
    duplicates: int = 0
    opened: int = 0
    closed: int = 0
    corrected: int = 0
    merged: int = 0
    refused: int = 0

    @property
    def open(self) -> int:
        return max(0, self.opened - self.closed - self.merged)


@dataclass(frozen=True)
class StateGlance:
    """What is kept between batches."""

    memory_bytes: int
    disk_bytes: int
    rows_updated: int
    rows_removed: int
    commit_ms: int
    checkpoint_bytes: int
    watermark_ms: int


@dataclass(frozen=True)
class ProcessGlance:
    """One process of the pipeline."""

    name: str
    cpu_cores: float
    rss_bytes: int
    heap_used_bytes: int
    heap_max_bytes: int
    gc_share: float


@dataclass(frozen=True)
class Glance:
    """All of it."""

    name: str
    topic: str
    """Empty where no spec says."""
    now_ms: int
    last_ms: int
    """Of the newest entry; 0 where there is none."""
    phase: Phase
    phase_since_ms: int
    note: str
    failures_in_row: int
    rate_in_eps: float
    rate_out_eps: float
    lag: LagGlance | None
    quantiles: Quantiles | None
    batch: BatchGlance | None
    totals: Totals
    recent: Totals
    """Of the last minutes."""
    flows: tuple[FlowGlance, ...]
    state: StateGlance | None
    sinks: tuple[SinkGlance, ...]
    processes: tuple[ProcessGlance, ...]
    health: KafkaHealth | None
    audit: AuditVerdict | None
    lookups: dict[str, str]
    stale_since_ms: dict[str, int]
