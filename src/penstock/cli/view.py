"""The live view: what a pipeline does now, on a terminal, or as plain lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.observe.summary import Summary
from penstock.produce.producer import ProduceStats
from penstock.spec import PipelineSpec

_BAR = "▁▂▃▄▅▆▇█"
STORES = {"kafka": "Kafka", "clickhouse": "ClickHouse", "postgres": "PostgreSQL"}


@dataclass(frozen=True)
class Moment:
    """All that is shown at one moment."""

    title: str
    elapsed_s: float
    total_s: float | None
    summary: Summary
    producer: ProduceStats | None
    notes: tuple[str, ...]
    spans: str
    """What opens and closes: sessions or windows; empty where nothing does."""


def spans_of(spec: PipelineSpec) -> str:
    return "sessions" if spec.sessions else "windows" if spec.windows else ""


def flow(spec: PipelineSpec) -> str:
    """The way of the data, without that of what is set aside."""
    kinds = dict.fromkeys(sink.kind for sink in spec.sink if {"live", "final", "events"} & set(sink.rows))
    return f"Kafka → Spark → {', '.join(STORES[kind] for kind in kinds)}"


def seen_in(spec: PipelineSpec) -> str:
    """Where fresh rows are seen first: in the stores of live rows, or in all where there are none."""
    rows = {"live"} if any("live" in sink.rows for sink in spec.sink) else {"final", "events"}
    return " and ".join(dict.fromkeys(STORES[sink.kind] for sink in spec.sink if rows & set(sink.rows)))


def render(moment: Moment) -> RenderableType:
    summary, recent = moment.summary, moment.summary.recent_latency
    grid = Table.grid(padding=(0, 3))
    for _ in range(4):
        grid.add_column(justify="right", style="dim")
        grid.add_column(justify="left")
    whole = summary.latency.percentiles()
    lag = summary.lag.total if summary.lag else 0
    results = _results(moment)
    grid.add_row("rate in", _rate(summary.rate_in_eps), "lag", _count(lag),
                 "p50 now", _ms(recent.p50), *results[0])  # fmt: skip
    grid.add_row("rate out", _rate(summary.rate_out_eps), "batch", _ms(summary.last_batch_ms),
                 "p99 now", _ms(recent.p99), *results[1])  # fmt: skip
    grid.add_row("decoded", _count(summary.decoded), "batches", _count(summary.batches),
                 "p99 whole run", _ms(whole.p99), *results[2])  # fmt: skip
    grid.add_row("rejected", _count(summary.rejected), "records a batch", _count(_batch_size(summary)),
                 "max", _ms(whole.max), *results[3])  # fmt: skip
    lines: list[RenderableType] = [grid, Text(), _lag_line(summary)]
    if moment.producer is not None:
        lines.append(_producer_line(moment.producer))
    lines += [Text(note, style="yellow", no_wrap=True, overflow="ellipsis") for note in moment.notes[-3:]]
    clock = f"{moment.elapsed_s:.0f} s" + (f" of {moment.total_s:.0f}" if moment.total_s else "")
    return Panel(Group(*lines), title=f"[bold]{moment.title}[/bold]", subtitle=clock, border_style="blue")


def _results(moment: Moment) -> list[tuple[str | Text, str | Text]]:
    """What there is to say of sessions or windows, in four lines."""
    summary = moment.summary
    if not moment.spans:
        return [("", "")] * 4
    return [
        (f"{moment.spans} open", _count(summary.sessions_open)),
        ("closed", _count(summary.closed)),
        ("corrected", _count(summary.corrected)),
        ("late", _count(summary.late)),
    ]


def _batch_size(summary: Summary) -> int:
    return (summary.decoded + summary.rejected) // max(1, summary.batches)


def plain_line(moment: Moment) -> str:
    summary, recent = moment.summary, moment.summary.recent_latency
    parts = [
        f"{moment.elapsed_s:5.0f} s",
        f"in {summary.rate_in_eps:,.0f}/s",
        f"out {summary.rate_out_eps:,.0f}/s",
        f"lag {summary.lag.total if summary.lag else 0:,}",
        f"batch {summary.last_batch_ms:,.0f} ms",
        f"p50 {recent.p50:,} ms",
        f"p99 {recent.p99:,} ms",
        f"rejected {summary.rejected:,}",
    ]
    if moment.spans:
        parts.append(f"{moment.spans} open {summary.sessions_open:,} closed {summary.closed:,}")
        parts.append(f"late {summary.late:,}")
    else:
        parts.append(f"records a batch {_batch_size(summary):,}")
    if moment.producer is not None and moment.producer.behind_ms > 50:
        parts.append(f"producer behind {moment.producer.behind_ms:,.0f} ms")
    return "  ".join(parts)


def _lag_line(summary: Summary) -> Text:
    by_partition = summary.lag.by_partition if summary.lag else {}
    most = max([*by_partition.values(), 1])
    bars = "".join(_BAR[min(7, lag * 8 // (most + 1))] for _, lag in sorted(by_partition.items()))
    return Text.assemble(
        ("lag by partition  ", "dim"), (bars, "cyan"), (f"  worst {most:,}" if by_partition else "", "dim")
    )


def _producer_line(producer: ProduceStats) -> Text:
    behind = producer.behind_ms > 50
    text = Text.assemble(
        ("producer  ", "dim"),
        f"{producer.sent:,} sent, {producer.acknowledged:,} acknowledged at {producer.achieved_eps:,.0f}/s, ",
        (f"behind {producer.behind_ms:,.0f} ms" if behind else "on time", "red" if behind else "green"),
    )
    if producer.trouble:
        text.append(f"  {producer.trouble}", style="red")
    return text


def _rate(eps: float) -> Text:
    return Text(f"{eps:,.0f}/s", style="bold")


def _count(number: int) -> Text:
    return Text(f"{number:,}", style="bold")


def _ms(milliseconds: float) -> Text:
    return Text(f"{milliseconds:,.0f} ms", style="bold")


def _main() -> None:
    """`python -m penstock.cli.view JOURNAL SECONDS [PICTURE.svg]`: a recorded run as it was at a moment."""
    import re
    import sys
    from pathlib import Path

    from rich.console import Console

    from penstock.observe.journal import JournalReader

    journal, seconds, *picture = sys.argv[1:]
    summary, start_ms = Summary("clickstream"), None
    for entry in JournalReader(Path(journal)).new():
        start_ms = start_ms or entry.at_ms
        if entry.at_ms - start_ms <= float(seconds) * 1000:
            summary.feed(entry)
    console = Console(record=bool(picture), width=100)
    console.print(render(Moment("clickstream", float(seconds), None, summary, None, (), "sessions")))
    if picture:
        svg = console.export_svg(title="penstock")
        # A picture in a repository asks nobody for fonts.
        Path(picture[0]).write_text(re.sub(r"@font-face {.*?}\s*", "", svg, flags=re.S))


if __name__ == "__main__":
    _main()
