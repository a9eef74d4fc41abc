"""The tables of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.observe.lag.report import LagReport, PartitionLag
from penstock.report.facts import Facts, SinkFigures, SlowBatch
from penstock.report.ran import GUARANTEES
from penstock.report.svg import WORDS
from penstock.report.words import NONE, count, day, length, number, percent, size, text

_PARTITIONS_MAX = 64
_PHASES = ("offsets", "planning", "log", "compute", "sinks", "commit")


@dataclass(frozen=True)
class Cell:
    """What stands in a table."""

    shown: str
    """HTML."""
    kind: str = ""
    """n: a number. free: text that may take several lines."""
    mark: str = ""


def n(shown: str, mark: str = "") -> Cell:
    return Cell(text(shown), "n", mark)


def free(shown: str) -> Cell:
    return Cell(text(shown), "free")


def table(
    caption: str, heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], kind: str = ""
) -> str:
    """The first cell of a row names it. A head is its text and its kind."""
    head = "".join(f'<th scope="col"{_class(how)}>{text(name)}</th>' for name, how in heads)
    body = "".join(
        f'<tr><th scope="row">{first.shown}</th>'
        + "".join(f"<td{_class(cell.kind)}{_mark(cell.mark)}>{cell.shown}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{text(caption)}"><table{_class(kind)}>'
        f'<caption class="quiet">{text(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _mark(mark: str) -> str:
    return f' data-mark="{mark}"' if mark else ""


def latencies(facts: Facts) -> str:
    """How fresh results were, by sink."""
    names = ("p50", "p95", "p99", "p99.9", "max")
    heads = [("sink", ""), *((name, "n") for name in names), ("guarantee", "")]
    return table("Latency by sink", heads, [_latency(sink, facts.objective_ms) for sink in facts.sinks])


def _latency(sink: SinkFigures, objective_ms: int | None) -> list[Cell]:
    q = sink.quantiles
    late = q is not None and objective_ms is not None and q.p99 > objective_ms
    values = (q.p50, q.p95, q.p99, q.p999, q.max) if q else (None,) * 5
    cells = [n(length(value), "warning" if late and place == 2 else "") for place, value in enumerate(values)]
    return [Cell(text(sink.name)), *cells, Cell(text(_guarantee(sink)))]


def _guarantee(sink: SinkFigures) -> str:
    return GUARANTEES[sink.facts.guarantee] if sink.facts else "not known"


def sinks(facts: Facts) -> str:
    audited = {sink.name: sink for sink in facts.glance.audit.sinks} if facts.glance.audit else {}

    def found(name: str, what: str) -> Cell:
        if name not in audited:
            return n(NONE)
        many = getattr(audited[name], what)
        return n(count(many), "critical" if many else "good")

    heads = [
        ("sink", ""),
        ("query", ""),
        ("rows", ""),
        ("written", "n"),
        ("write, mean", "n"),
        ("write, most", "n"),
        ("replays", "n"),
        ("refused", "n"),
        ("lost", "n"),
        ("duplicated", "n"),
    ]
    rows = [
        [
            Cell(text(sink.name)),
            Cell(text(sink.query)),
            Cell(text(", ".join(sink.facts.rows) if sink.facts else NONE)),
            n(count(sink.rows)),
            n(length(sink.write_ms)),
            n(length(sink.write_max_ms)),
            n(count(sink.replays)),
            n(count(sink.refused), "warning" if sink.refused else ""),
            found(sink.name, "lost"),
            found(sink.name, "duplicated"),
        ]
        for sink in facts.sinks
    ]
    return table("Sinks", heads, rows)


def partitions(facts: Facts) -> str:
    """The one in which the most ever waited first."""
    lag = facts.lag
    if lag is None:
        return '<p class="none">No look at the topic\'s ends: Kafka may have been away.</p>'
    ends = {one.partition: one for one in lag.end.partitions} if isinstance(lag.end, LagReport) else {}
    total = sum(one.records for one in lag.partitions) or 1
    heads = [
        ("partition", ""),
        ("read", "n"),
        ("share", "n"),
        ("most waiting", "n"),
        ("at", ""),
        ("waiting at the end", "n"),
        ("status at the end", ""),
    ]
    rows = [
        [
            Cell(str(one.partition)),
            n(count(one.records)),
            n(percent(one.records / total, 1)),
            n(count(one.lag_max)),
            Cell(day(one.lag_max_at_ms)),
            n(count(ends[one.partition].lag) if one.partition in ends else NONE),
            _status(ends.get(one.partition)),
        ]
        for one in lag.partitions[:_PARTITIONS_MAX]
    ]
    left = len(lag.partitions) - _PARTITIONS_MAX
    more = f'<p class="said">{count(left)} more, in which less waited.</p>' if left > 0 else ""
    return table("Partitions, the worst first", heads, rows) + more


def _status(one: PartitionLag | None) -> Cell:
    if one is None:
        return Cell(NONE)
    good = one.is_well and one.health.verdict == "ok"
    return Cell(
        text(f"{one.health.verdict}: {one.health.reason}"),
        "free",
        "" if good else "warning" if one.is_well else "critical",
    )


def slowest(facts: Facts) -> str:
    heads = [
        ("batch", ""),
        ("ended", ""),
        ("records", "n"),
        ("took", "n"),
        ("where the time went", ""),
        *((name, "n") for name in _PHASES),
        ("busiest stage", ""),
        ("slowest sink", ""),
    ]
    return table("Slowest batches", heads, [_slow(one) for one in facts.batches.slowest])


def _slow(one: SlowBatch) -> list[Cell]:
    whole = sum(one.phases.values()) or 1.0
    busiest = max(one.stages, key=lambda stage: one.stages[stage], default=None)
    parts = "".join(
        f'<i style="width:{100 * one.phases[name] / whole:.1f}%;background:var(--phase-{place})"></i>'
        for place, name in enumerate(_PHASES)
        if one.phases.get(name)
    )
    return [
        Cell(text(f"{one.query} {one.batch:,}")),
        Cell(day(one.at_ms)),
        n(count(one.records)),
        n(length(one.total_ms)),
        Cell(f'<span class="split" aria-hidden="true">{parts}</span>'),
        *(n(length(one.phases.get(name))) for name in _PHASES),
        Cell(text(f"{busiest}, {length(one.stages[busiest])}" if busiest else NONE)),
        Cell(text(f"{one.slowest_sink}, {length(one.slowest_sink_ms)}" if one.slowest_sink else NONE)),
    ]


def processes(facts: Facts) -> str:
    heads = [
        ("process", ""),
        ("cores", "n"),
        ("resident", "n"),
        ("heap used", "n"),
        ("heap limit", "n"),
        ("gc", "n"),
    ]
    rows = [
        [
            Cell(text(one.name)),
            n(number(one.cpu_cores)),
            n(size(one.rss_bytes)),
            n(size(one.heap_used_bytes or None)),
            n(size(one.heap_max_bytes or None)),
            n(percent(one.gc_share)),
        ]
        for one in facts.glance.processes
    ]
    return table("Processes at the end", heads, rows)


def brokers(facts: Facts) -> str:
    health = facts.glance.health
    heads = [
        ("broker", ""),
        ("state", ""),
        ("in", "n"),
        ("out", "n"),
        ("produce p99", "n"),
        ("fetch p99", "n"),
        ("disk", "n"),
    ]
    rows = [
        [
            Cell(str(one.id)),
            Cell("● up" if one.alive else "■ gone", mark="good" if one.alive else "critical"),
            n(f"{size(one.bytes_in_per_s)}/s" if one.bytes_in_per_s is not None else NONE),
            n(f"{size(one.bytes_out_per_s)}/s" if one.bytes_out_per_s is not None else NONE),
            n(length(one.produce_p99_ms)),
            n(length(one.fetch_p99_ms)),
            n(size(one.disk_bytes)),
        ]
        for one in (health.brokers if health else ())
    ]
    return table("Brokers at the end", heads, rows)


def events(facts: Facts) -> str:
    heads = [("when", ""), ("what", ""), ("", "")]
    rows = [
        [
            Cell(day(mark.at_ms)),
            Cell(
                f'<span aria-hidden="true"'
                f' style="color:var({WORDS[mark.kind][2]})">{WORDS[mark.kind][0]}</span>'
                f" {text(WORDS[mark.kind][1])}"
            ),
            free(mark.text),
        ]
        for mark in facts.marks
    ]
    left = (
        f'<p class="said">{count(facts.marks_left_out)} of the middle are left out.</p>'
        if facts.marks_left_out
        else ""
    )
    return table("Events of the run", heads, rows, "events") + left
