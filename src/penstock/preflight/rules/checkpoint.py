"""Checkpoints that a start can go on from."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.layout import StateLayout
from penstock.errors import StateMismatch
from penstock.preflight.facts import CheckpointFacts, Facts
from penstock.preflight.finding import Finding, error, note, ok
from penstock.preflight.words import anew, behind
from penstock.spec import Measure, PipelineSpec

_ANY_TYPE = "a type that only Spark can tell"


def one_writer(facts: Facts) -> Iterator[Finding]:
    for checkpoint in facts.checkpoints:
        if checkpoint.locked:
            yield error(
                _about(checkpoint),
                f"another process runs on {checkpoint.path}",
                why="Two writers on one checkpoint would write everything twice; the second is refused.",
                fix="Stop it first, or leave it alone: the pipeline runs.",
            )


def readable(facts: Facts) -> Iterator[Finding]:
    """Its files can be read, and tell of batches one after the other."""
    for checkpoint in facts.checkpoints:
        for damage in checkpoint.damage:
            yield error(
                _about(checkpoint),
                damage,
                why="Where to go on from cannot be known.",
                fix=_ways_on(facts, checkpoint),
            )
        # Where a pipeline runs, it moves on while it is looked at.
        if checkpoint.damage or checkpoint.locked:
            continue
        # Spark writes the offsets of a batch, runs it, commits it, and only then begins the next.
        if not checkpoint.committed <= checkpoint.planned <= checkpoint.committed + 1:
            yield error(
                _about(checkpoint),
                f"the newest batch with offsets is {checkpoint.planned}, the newest that is done is"
                f" {checkpoint.committed}",
                why="Part of it was deleted, or comes from another copy: batches would be lost or doubled.",
                fix=_ways_on(facts, checkpoint),
            )
        elif checkpoint.planned < 0:
            yield ok(
                _about(checkpoint), f"none yet: reads {facts.spec.source.topic} from the {_start(facts)}"
            )
        else:
            yield ok(_about(checkpoint), f"goes on with batch {checkpoint.due}")


def layout(facts: Facts) -> Iterator[Finding]:
    """Its state fits the spec."""
    for checkpoint in facts.checkpoints:
        if checkpoint.layout is None:
            continue
        try:
            _, news = checkpoint.layout.changed_to(_wanted(facts.spec, checkpoint))
        except StateMismatch as mismatch:
            yield error(
                _about(checkpoint),
                mismatch.message,
                why="State would be misread, or rows written twice.",
                fix=mismatch.hint,
            )
        else:
            for text in news:
                yield note(_about(checkpoint), text)


def _wanted(spec: PipelineSpec, checkpoint: CheckpointFacts) -> StateLayout:
    """The layout that the spec asks for, as far as it can be known without Spark.

    Only Spark knows the type of a measure's expression. One that the state knows is taken to have kept its
    type; a start compares the types too, and writes nothing before it has.
    """
    if checkpoint.realtime:
        return StateLayout({"source.topic": spec.source.topic}, [[]], {}, list(checkpoint.sinks))
    is_groups = spec.grouping is not None and checkpoint.query == spec.name
    measures = spec.grouping.measures if spec.grouping and is_groups else ()
    have = checkpoint.layout.layouts if checkpoint.layout else []
    types = {(name, function): type_ for layout in have for name, function, type_ in layout}
    return StateLayout.of(spec, [_measure(measure, types) for measure in measures])


def _measure(measure: Measure, types: dict[tuple[str, str], str]) -> list[str]:
    type_ = types.get((measure.name, measure.function), _ANY_TYPE)
    return [measure.name, measure.function, "bigint" if measure.function == "count" else type_]


def _ways_on(facts: Facts, checkpoint: CheckpointFacts) -> str:
    name = facts.spec.name
    lost = ", without what was open then" if facts.spec.grouping else ""
    return (
        f"Restore {checkpoint.path} from a copy. Or go on behind its last batch{lost}: {behind(name)}. Or"
        f" read the topic anew, so that all of it comes again: {anew(name)}"
    )


def _about(checkpoint: CheckpointFacts) -> str:
    return f"checkpoint {checkpoint.query}"


def _start(facts: Facts) -> str:
    return "beginning" if facts.spec.source.starting == "earliest" else "end"
