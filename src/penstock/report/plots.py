"""Which plots a report has, and the figures beside each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.observe.board.pressure import STAGES
from penstock.report.axes import Unit
from penstock.report.facts import Facts
from penstock.report.svg import Drawn, Frame, Line, plot, summary, swatch
from penstock.report.words import text

PARTITIONS_DRAWN = 5
_PHASES = ("offsets", "planning", "log", "compute", "sinks", "commit")


@dataclass(frozen=True)
class Plan:
    """One plot."""

    title: str
    about: str
    unit: Unit
    lines: Callable[[Facts], Sequence[Line]]
    empty: str
    floor: float = 1.0
    is_stacked: bool = False
    is_log: bool = False


def _fixed(*lines: Line) -> Callable[[Facts], Sequence[Line]]:
    return lambda _: lines


def _partitions(facts: Facts) -> Sequence[Line]:
    """All together, and those with the most that ever waited."""
    worst = (
        [one.partition for one in facts.lag.partitions if one.lag_max][:PARTITIONS_DRAWN] if facts.lag else []
    )
    dashes = ("", "6 3", "2 3", "8 3 2 3", "1 4")
    return [
        Line("lag", "all partitions", "--out", 2.5, band=True),
        *(
            Line(f"lag_{partition}", f"partition {partition}", f"--l{place % 4}", 1.2, dashes[place])
            for place, partition in enumerate(worst)
        ),
    ]


_NO_SAMPLES = "Nothing is known: it comes with samples, which are not kept beside this journal."

PLANS = (
    Plan(
        "Throughput",
        "events a second; the band is from the least to the most",
        "rate",
        _fixed(
            Line("rate_in", "in", "--in", 1.5, "5 3", of="mean"),
            Line("rate_out", "out", "--out", 2, of="mean", band=True),
        ),
        "No events were seen.",
        10,
    ),
    Plan(
        "Latency",
        "event to visible, logarithmic; the worst of each moment",
        "time",
        _fixed(
            Line("max", "max", "--faint", 1),
            Line("p999", "p99.9", "--l3", 1, "2 2"),
            Line("p99", "p99", "--l2", 2.4),
            Line("p95", "p95", "--l1", 1.2, "8 3"),
            Line("p50", "p50", "--l0", 1.6, "5 3"),
        ),
        "No latencies: they need a column with the time an event was made (source.created).",
        is_log=True,
    ),
    Plan(
        "Lag",
        "records that wait, all and the worst partitions",
        "count",
        _partitions,
        "No look at the topic's ends: Kafka may have been away.",
        10,
    ),
    Plan(
        "Age of what waits",
        "the oldest record that was not processed",
        "time",
        _fixed(Line("age_ms", "oldest", "--l2", 2)),
        "No look at the topic's ends: Kafka may have been away.",
        1_000,
    ),
    Plan(
        "Batch by phase",
        "time of a batch, stacked",
        "time",
        _fixed(
            *(
                Line(f"phase_{name}", name, f"--phase-{place}", of="mean")
                for place, name in enumerate(_PHASES)
            )
        ),
        "No batch.",
        100,
        is_stacked=True,
    ),
    Plan(
        "Busy by stage",
        "share of the time, stacked",
        "share",
        _fixed(
            *(Line(f"busy_{name}", name, f"--phase-{place}", of="mean") for place, name in enumerate(STAGES))
        ),
        _NO_SAMPLES,
        1.0,
        is_stacked=True,
    ),
    Plan(
        "State",
        "what is kept between batches",
        "bytes",
        _fixed(Line("state_memory", "memory", "--out", 2), Line("state_disk", "disk", "--in", 1.5, "5 3")),
        "No state, or no samples of it.",
        1 << 20,
    ),
    Plan(
        "Checkpoint",
        "written by a batch",
        "bytes",
        _fixed(Line("checkpoint_bytes", "a batch", "--l1", 1.5, band=True)),
        "No state, or no samples of it.",
        1 << 10,
    ),
    Plan(
        "Memory",
        "of all processes",
        "bytes",
        _fixed(
            Line("heap_max", "heap limit", "--faint", 1, "2 4"),
            Line("rss", "resident", "--in", 1.5, "5 3"),
            Line("heap_used", "heap used", "--out", 2),
        ),
        _NO_SAMPLES,
        1 << 28,
    ),
    Plan(
        "Processor and garbage collection",
        "cores; the share of the time that collecting took",
        "cores",
        _fixed(Line("cpu", "cores", "--out", 2, band=True), Line("gc", "gc", "--l3", 1.5, "5 3")),
        _NO_SAMPLES,
        1.0,
    ),
    Plan(
        "Kafka",
        "what was wrong with it",
        "count",
        _fixed(
            Line("brokers_down", "brokers gone", "--l2", 2.4),
            Line("under_replicated", "partitions that lack copies", "--l0", 1.5, "5 3"),
            Line("offline", "partitions without a leader", "--l3", 1.5, "2 2"),
        ),
        _NO_SAMPLES,
        1.0,
    ),
)


def plots(facts: Facts, bands: Sequence[tuple[int, int]]) -> str:
    """All plots."""
    frame = Frame(facts.strip, facts.marks, bands)
    return "".join(_figure(plan, facts, frame, f"plot-{place}") for place, plan in enumerate(PLANS))


def _figure(plan: Plan, facts: Facts, frame: Frame, key: str) -> str:
    found = [(line, frame.strip.column(line.name)) for line in plan.lines(facts)]
    lines = [(line, column) for line, column in found if column is not None]
    head = f"<figcaption><h3>{text(plan.title)}</h3><span>{text(plan.about)}</span></figcaption>"
    if not lines:
        return f'<figure class="plot">{head}<p class="none">{text(plan.empty)}</p></figure>'
    limit = (facts.objective_ms, "objective") if plan.is_log and facts.objective_ms else None
    drawn = Drawn(lines, plan.unit, plan.floor, plan.is_stacked, plan.is_log, limit)
    told = {line.name: summary(column, plan.unit) for line, column in lines}
    about = "; ".join(
        f"{line.label}: mean {told[line.name][0]}, most {told[line.name][1]}, last {told[line.name][2]}"
        for line, _ in lines
    )
    # A stack is read from the top.
    rows = "".join(
        f'<tr><th scope="row">{swatch(line, plan.is_stacked)}{text(line.label)}</th>'
        + "".join(f'<td class="n">{text(one)}</td>' for one in told[line.name])
        + "</tr>"
        for line, _ in (reversed(lines) if plan.is_stacked else lines)
    )
    legend = (
        f'<table class="legend"><caption class="quiet">{text(plan.title)}: figures</caption><thead><tr>'
        '<th scope="col"><span class="quiet">line</span></th><th scope="col" class="n">mean</th>'
        '<th scope="col" class="n">most</th><th scope="col" class="n">last</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    return (
        f'<figure class="plot">{head}<div class="frame">{plot(drawn, frame, plan.title, about, key)}</div>'
        f"{legend}</figure>"
    )
