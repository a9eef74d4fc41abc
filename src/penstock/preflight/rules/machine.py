"""The machine: task slots, cores, room on disk; and reference data, which is on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.engine.realtime import batch_length
from penstock.engine.slots import readers, realtime_sinks, slots_held
from penstock.preflight.facts import Facts
from penstock.preflight.finding import Finding, error, note, ok, warning
from penstock.preflight.words import counted, listed

_ROOM_LOW_BYTES = 1_000_000_000
_ROOM_LEAST_BYTES = 200_000_000
_PARTITIONS_A_CORE = 8


def slots(facts: Facts) -> Iterator[Finding]:
    """A realtime sink has a slot for each task that reads for it, and all else has one."""
    sinks = realtime_sinks(facts.spec)
    if not sinks:
        return
    master = facts.start.master
    needed = slots_held(facts.spec, master, facts.cores) + 1
    fixed = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if fixed and int(fixed[1]) < needed:
        yield error(
            "spark",
            f"{master} has {counted(int(fixed[1]), 'task slot')}, realtime needs {needed}",
            why=f"{listed(sink.name for sink in sinks)}:"
            f" {counted(readers(facts.spec, master, facts.cores), 'task')} a sink"
            " read its topic for as long as it runs, and all else needs a slot.",
            fix=f"Leave out --master, or make it local[{needed}] or more.",
        )
    elif not master.startswith("local"):
        yield note("spark", f"realtime needs {counted(needed, 'task slot')}; {master} is asked at the start")


def realtime(facts: Facts) -> Iterator[Finding]:
    for sink in realtime_sinks(facts.spec):
        yield note(
            f"sink {sink.name}",
            "in real time, a crash or a stop repeats what left since the last batch,"
            f" at most {batch_length()}",
            why="The position is kept at the end of a batch, which lasts that long.",
            fix=f"Make sure that readers know an event that comes again by its key, {sink.key}.",
        )


def cores(facts: Facts) -> Iterator[Finding]:
    """The state is cut into parts for as many tasks as run at once."""
    grouping = facts.spec.grouping
    if grouping is None or not facts.start.master.startswith("local"):
        return
    section = "sessions" if facts.spec.sessions else "windows"
    partitions = grouping.partitions
    what = f"[{section}] partitions = {partitions}, on {counted(facts.cores, 'core')}"
    fixed = "It is fixed for a checkpoint's life: choose it before the first start."
    if partitions < facts.cores:
        why = f"State is worked on by {counted(partitions, 'task')} at once; the other cores wait."
        yield warning("spark", what, why=why, fix=f"Set it to {facts.cores} or more. {fixed}")
    elif partitions > _PARTITIONS_A_CORE * facts.cores:
        why = "Each is a task and a commit in every batch, also when little comes in."
        yield warning("spark", what, why=why, fix=f"Set it to {facts.cores} to {4 * facts.cores}. {fixed}")


def disk(facts: Facts) -> Iterator[Finding]:
    free = facts.disk_free_bytes
    what = f"{free / 1e9:,.1f} GB are free under {facts.data}"
    why = "Checkpoints, state and the journal are written there; without room every batch fails."
    fix = "Free some space, or name another directory with --data."
    if free < _ROOM_LEAST_BYTES:
        yield error("disk", f"{free / 1e6:,.0f} MB are free under {facts.data}", why=why, fix=fix)
    elif free < _ROOM_LOW_BYTES:
        yield warning("disk", what, why=why, fix=fix)
    else:
        yield ok("disk", what)


def reference(facts: Facts) -> Iterator[Finding]:
    """Reference data can be read, and have the columns."""
    for table in facts.reference:
        about = f"enrich {table.name}"
        for problem in table.problems:
            if table.kept:
                yield warning(
                    about,
                    problem,
                    why="The start goes on with the version that the checkpoint kept.",
                    fix="Mend it; it is read again after the refresh time.",
                )
            else:
                fix = "Put it there, or correct [[enrich]] in the spec."
                yield error(about, problem, why="The pipeline does not start without it.", fix=fix)
        if not table.problems:
            yield ok(about, "can be read, with the columns")
