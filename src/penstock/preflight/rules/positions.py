"""What the sinks hold against what the checkpoints will write next: the rules of sinks/protocol.py, ahead."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import (
    Away,
    CheckpointFacts,
    Facts,
    Held,
    KafkaFacts,
    NoPosition,
    Unreadable,
)
from penstock.preflight.finding import Finding, error, note, ok
from penstock.preflight.words import behind, time_text
from penstock.sinks.protocol import Position
from penstock.spec import Sink


def positions(facts: Facts) -> Iterator[Finding]:
    """Each sink that is exactly once holds the batch before the one that is due, or that one already."""
    for sink in facts.exactly_once:
        checkpoint = facts.checkpoint_of(sink.name)
        # Where a pipeline runs, positions move on while they are looked at.
        if checkpoint is None or checkpoint.locked or checkpoint.damage:
            continue
        for slot, held in enumerate(_held(facts, sink)):
            about = f"sink {sink.name}" + (f", slot {slot}" if sink.writers > 1 else "")
            yield from _position(facts, sink, checkpoint, held, about)


def _held(facts: Facts, sink: Sink) -> tuple[Held, ...]:
    store = {"kafka": facts.kafka, "clickhouse": facts.clickhouse, "postgres": facts.postgres}[sink.kind]
    return () if store is None or isinstance(store, Away) else store.positions.get(sink.name, ())


def _position(
    facts: Facts, sink: Sink, checkpoint: CheckpointFacts, held: Held, about: str
) -> Iterator[Finding]:
    due = checkpoint.due
    match held:
        case Unreadable(why):
            yield note(about, f"its position cannot be read: {why}", why="The first batch reads it again.")
        case Position(batch) if batch > due:
            yield error(
                about,
                f"holds batch {batch}, but batch {due} is due",
                why="Another writer is ahead, or the checkpoint was deleted or rolled back: batches would"
                " come a second time, with other content.",
                fix=f"Restore the checkpoint {checkpoint.path} that goes with the sink. Or go on behind the"
                f" last batch that the journal tells of: {behind(facts.spec.name)}",
            )
        case Position(batch) if batch < due - 1 and not _is_adopted(facts, sink, checkpoint):
            yield error(
                about,
                f"holds batch {batch}, but batch {due} is due: {batch + 1} to {due - 1} are not there",
                why="Rows would be missing for good.",
                fix=_recovery(sink),
            )
        case NoPosition() if due > 0 and not _is_adopted(facts, sink, checkpoint):
            yield error(
                about,
                f"holds no position, but batch {due} is due{_forgotten(facts, sink)}",
                why="Nobody knows which batch it holds: going on could double or drop rows.",
                fix=_recovery(sink),
            )
        case Position(batch):
            yield ok(about, f"holds batch {batch}; batch {due} is due")


def _is_adopted(facts: Facts, sink: Sink, checkpoint: CheckpointFacts) -> bool:
    """Whether the sink begins where the checkpoint is: by a person's decision, or because it is new to it."""
    is_new = checkpoint.layout is not None and sink.name not in checkpoint.layout.sinks
    return is_new or sink.name in facts.start.adopt


def _forgotten(facts: Facts, sink: Sink) -> str:
    """Why a position is gone, where the time says so."""
    last_ms = facts.journal.last_at_ms
    if sink.kind != "kafka" or last_ms is None or not isinstance(facts.kafka, KafkaFacts):
        return ""
    kept_ms, stopped_ms = facts.kafka.offsets_retention_ms, facts.now_ms - last_ms
    if kept_ms is None or stopped_ms <= kept_ms:
        return ""
    return f": the pipeline stood for {time_text(stopped_ms)}, the cluster forgets after {time_text(kept_ms)}"


def _recovery(sink: Sink) -> str:
    return (
        f"If the sink is right as it is, go on with: penstock run SPEC --adopt {sink.name}. Otherwise restore"
        " the sink or the checkpoint, whichever is older."
    )
