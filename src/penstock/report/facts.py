"""What is known of a run: figures, and when what happened. Times are milliseconds, shares are of 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.observe.board.alerts import Severity
from penstock.observe.board.glance import Glance, Mark, SinkFacts
from penstock.observe.board.pressure import Stage
from penstock.observe.board.spread import Quantiles
from penstock.observe.lag.report import LagReport, NotBegun
from penstock.observe.lag.skew import Nothing, Skew
from penstock.report.strip import Strip

End = Literal["running", "stopped", "failed", "crashed", "open", "cut", "empty"]
"""How the record ends. `open`: without a stop, and whether the process lives cannot be told. `cut`: the
journal goes on, but no more was asked for."""


@dataclass(frozen=True)
class Life:
    """One process of the pipeline, from its start on."""

    start_ms: int | None
    """None where the record begins later."""
    ready_ms: int | None = None
    first_batch_ms: int | None = None
    end_ms: int | None = None
    """When it stopped, or was last heard of."""
    how: End = "open"


@dataclass(frozen=True)
class Outage:
    """A service was away, and the pipeline waited for it."""

    what: str
    from_ms: int
    back_ms: int | None = None
    batch_ms: int | None = None
    """When the first batch after it was held by every sink."""


@dataclass(frozen=True)
class Failure:
    """A batch failed and came again."""

    at_ms: int
    text: str
    batch_ms: int | None = None


@dataclass(frozen=True)
class Episode:
    """An alert, from when it held until it no longer did."""

    name: str
    severity: Severity
    """The gravest it was."""
    reason: str
    """At its worst."""
    from_ms: int
    to_ms: int | None
    """None: until the end."""
    worst_ms: int


@dataclass(frozen=True)
class SlowBatch:
    """A batch that took long, and where its time went."""

    query: str
    batch: int
    at_ms: int
    records: int
    total_ms: float
    phases: dict[str, float]
    slowest_sink: str
    slowest_sink_ms: float
    stages: dict[Stage, float]
    """Milliseconds; empty where Spark has not told."""


@dataclass(frozen=True)
class Gap:
    """Records waited for a batch for longer than usual."""

    from_ms: int
    to_ms: int
    records: int
    """That waited."""


@dataclass(frozen=True)
class SinkFigures:
    """One sink over the whole run."""

    name: str
    query: str
    facts: SinkFacts | None
    rows: int
    write_ms: float
    write_max_ms: float
    replays: int
    refused: int
    quantiles: Quantiles | None


@dataclass(frozen=True)
class BatchFigures:
    """The batches of all queries."""

    median_ms: float | None
    slowest: tuple[SlowBatch, ...]
    usual_gap_ms: float | None
    gaps: tuple[Gap, ...]
    """That were longer than usual, the longest first."""
    first_ms: int | None
    """When the first batch began."""
    last_ms: int | None


@dataclass(frozen=True)
class PartitionFigures:
    """One partition over the whole run."""

    partition: int
    records: int
    """Read."""
    lag_max: int
    lag_max_at_ms: int


@dataclass(frozen=True)
class LagFigures:
    """What waited."""

    records_max: int
    records_max_at_ms: int
    age_max_ms: int
    age_max_at_ms: int
    behind_ms: int
    """How long the oldest record that waited was older than BEHIND_MS."""
    partitions: tuple[PartitionFigures, ...]
    """The one with the most that waited first."""
    added: int
    """Records that producers added while it was looked at."""
    looked_ms: int
    skew: Skew | Nothing
    """Of what came in."""
    end: LagReport | NotBegun


@dataclass(frozen=True)
class Load:
    """Where a query's time went, over the time in which that was told."""

    told_ms: int
    busy: float
    stages: dict[Stage, float]
    """The share of the time in which each worked."""
    pressed: dict[Stage, float]
    """The share of the time in which pressure started at each."""


@dataclass(frozen=True)
class Record:
    """What was read, and what was not."""

    lines: int
    unread: int
    """Lines of another version, or cut off by a crash."""
    samples_from_ms: int | None
    """Since when Spark's own samples are kept; None: there are none."""
    is_cut: bool
    """Whether the journal begins earlier."""
    goes_on: bool = False
    """Whether it ends later."""


@dataclass(frozen=True)
class Facts:
    """All of it."""

    name: str
    from_ms: int
    to_ms: int
    end: End
    glance: Glance
    """At the end."""
    quantiles: Quantiles | None
    objective_ms: int | None
    """What p99 should stay under."""
    peak_eps: float
    """Over ten seconds."""
    peak_at_ms: int
    lives: tuple[Life, ...]
    outages: tuple[Outage, ...]
    failures: tuple[Failure, ...]
    failures_left_out: int
    episodes: tuple[Episode, ...]
    batches: BatchFigures
    lag: LagFigures | None
    load: Load | None
    sinks: tuple[SinkFigures, ...]
    marks: tuple[Mark, ...]
    marks_left_out: int
    machine: str
    """What it ran on, as the newest start told; empty where none did."""
    record: Record
    strip: Strip

    @property
    def took_ms(self) -> int:
        return max(0, self.to_ms - self.from_ms)

    @property
    def mean_eps(self) -> float | None:
        """From the first batch's beginning to the last one's end."""
        first_ms, last_ms = self.batches.first_ms, self.batches.last_ms
        if first_ms is None or last_ms is None or last_ms <= first_ms:
            return None
        return self.glance.totals.records * 1000 / (last_ms - first_ms)

    @property
    def is_late(self) -> bool:
        """Whether p99 of the whole run is above the objective."""
        limit_ms = self.objective_ms
        return self.quantiles is not None and limit_ms is not None and self.quantiles.p99 > limit_ms

    @property
    def restarts(self) -> int:
        return max(0, len(self.lives) - 1)

    @property
    def crashes(self) -> tuple[Life, ...]:
        return tuple(life for life in self.lives if life.how == "crashed")
