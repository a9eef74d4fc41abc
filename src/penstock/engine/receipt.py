"""What one batch did: the record that observing, auditing and diagnosing start from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class SinkReceipt:
    """What one sink holds of a batch."""

    name: str
    rows: int
    digest: str
    replayed: bool
    write_ms: float
    visible_at_ms: int
    """Wall clock when the sink had acknowledged the rows."""
    refused: int = 0
    """Of the rows, those that the store does not take."""


@dataclass(frozen=True)
class Receipt:
    """One batch: the records it read, what became of each, what every sink holds."""

    query: str
    batch: int
    offsets: dict[int, tuple[int, int]]
    """Start and end (exclusive) by partition."""
    decoded: int
    rejected: int
    late: int
    """Of the decoded, those that left by the side door."""
    duplicates: int
    """Of the decoded, those that had come before."""
    opened: int
    closed: int
    corrected: int
    merged: int
    """Open sessions that became part of another."""
    sinks: tuple[SinkReceipt, ...]
    started_at_ms: int
    compute_ms: float
    """Read, decode, cleanse, enrich, sessions, and their result in the driver."""
    total_ms: float
    latency_ms: tuple[tuple[int, int], ...] = field(default=())
    """(milliseconds from creation to visible, events): how fresh the batch was when readers could see it."""
    versions: dict[str, str] = field(default_factory=dict)
    """The version of each lookup that the batch used."""
    stale_since_ms: dict[str, int] = field(default_factory=dict)
    """The lookups that cannot be refreshed, and since when."""

    @property
    def records(self) -> int:
        return sum(end - start for start, end in self.offsets.values())

    @property
    def refused(self) -> int:
        """Rows that one of the sinks did not take."""
        return sum(sink.refused for sink in self.sinks)

    @property
    def unaccounted(self) -> int:
        """Records read of which no row tells; above 0 only for a transactional producer's markers."""
        return self.records - self.decoded - self.rejected

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Receipt:
        return cls(
            **{
                **_known(cls, given),
                "offsets": {int(partition): tuple(span) for partition, span in given["offsets"].items()},
                "sinks": tuple(SinkReceipt(**_known(SinkReceipt, sink)) for sink in given["sinks"]),
                "latency_ms": tuple((int(ms), int(events)) for ms, events in given["latency_ms"]),
            }
        )


def _known(what: type[Receipt | SinkReceipt], given: dict[str, Any]) -> dict[str, Any]:
    """What this version knows of it: another one may have told more."""
    return {field.name: given[field.name] for field in fields(what) if field.name in given}
