"""What ran, by its spec: in a few words, and as it was kept, without addresses and secrets."""

from __future__ import annotations

from penstock.observe.board.board import without_addresses
from penstock.spec import PipelineSpec, to_toml
from penstock.spec.sections import Sessions, Windows

GUARANTEES = {"exactly_once": "exactly once", "at_least_once": "at least once"}


def in_words(spec: PipelineSpec) -> list[tuple[str, str]]:
    """A name and what it is, line by line."""
    source = spec.source
    told = [("reads", f"topic {source.topic}, {source.partitions} partitions, {source.format}")]
    match spec.grouping:
        case Sessions() as sessions:
            told.append(
                ("makes", f"sessions by {sessions.key}, gap {sessions.gap}, lateness {sessions.lateness}")
            )
        case Windows() as windows:
            slides = f" every {windows.slide}" if windows.slide else ""
            told.append(
                ("makes", f"windows by {windows.key} of {windows.size}{slides}, lateness {windows.lateness}")
            )
        case _:
            told.append(("makes", "single events, without state"))
    if spec.enrich:
        told.append(("looks up", ", ".join(table.name for table in spec.enrich)))
    told += [
        ("writes", f"{sink.name}: {', '.join(sink.rows)} to {sink.kind}, {GUARANTEES[sink.guarantee]}")
        for sink in spec.sink
    ]
    trigger = (
        f"a batch every {spec.trigger}" if spec.trigger.ms else "a batch as soon as the one before is over"
    )
    told.append(("runs", f"{trigger}; {source.max_batch:,} records at most; engine {spec.engine}"))
    return told


def as_kept(spec: PipelineSpec) -> str:
    """TOML, without the section of addresses, and with nothing else that looks like one or like a secret."""
    whole, _, _ = to_toml(spec).partition("\n[services]")
    return "\n".join(without_addresses(line) for line in whole.splitlines()).strip()
