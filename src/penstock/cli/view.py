"""The live view: what a pipeline does now, on a terminal, or as plain lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.observe.summary import Summary
from penstock.produce.producer import ProduceStats

_BAR = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Moment:
    """All that is shown at one moment."""

    title: str
    elapsed_s: float
    total_s: float | None
    summary: Summary
    producer: ProduceStats | None
    notes: tuple[str, ...]


def render(moment: Moment) -> RenderableType:
    summary, recent = moment.summary, moment.summary.recent_latency
    grid = Table.grid(padding=(0, 3))
    for _ in range(4):
        grid.add_column(justify="right", style="dim")
        grid.add_column(justify="left")
    whole = summary.latency.percentiles()
    lag = summary.lag.total if summary.lag else 0
    grid.add_row("rate in", _rate(summary.rate_in_eps), "lag", _count(lag),
                 "p50 now", _ms(recent.p50), "sessions open", _count(summary.sessions_open))  # fmt: skip
    grid.add_row("rate out", _rate(summary.rate_out_eps), "batch", _ms(summary.last_batch_ms),
                 "p99 now", _ms(recent.p99), "closed", _count(summary.closed))  # fmt: skip
    grid.add_row("decoded", _count(summary.decoded), "batches", _count(summary.batches),
                 "p99 whole run", _ms(whole.p99), "corrected", _count(summary.corrected))  # fmt: skip
    grid.add_row("rejected", _count(summary.rejected), "late", _count(summary.late),
                 "max", _ms(whole.max), "", "")  # fmt: skip
    lines: list[RenderableType] = [grid, Text(), _lag_line(summary)]
    if moment.producer is not None:
        lines.append(_producer_line(moment.producer))
    lines += [Text(note, style="yellow", no_wrap=True, overflow="ellipsis") for note in moment.notes[-3:]]
    clock = f"{moment.elapsed_s:.0f} s" + (f" of {moment.total_s:.0f}" if moment.total_s else "")
    return Panel(Group(*lines), title=f"[bold]{moment.title}[/bold]", subtitle=clock, border_style="blue")


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
        f"sessions open {summary.sessions_open:,} closed {summary.closed:,}",
        f"late {summary.late:,}",
        f"rejected {summary.rejected:,}",
    ]
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
    summary, start_ms = Summary(), None
    for entry in JournalReader(Path(journal)).new():
        start_ms = start_ms or entry.at_ms
        if entry.at_ms - start_ms <= float(seconds) * 1000:
            summary.feed(entry)
    console = Console(record=bool(picture), width=100)
    console.print(render(Moment("clickstream", float(seconds), None, summary, None, ())))
    if picture:
        svg = console.export_svg(title="penstock")
        # A picture in a repository asks nobody for fonts.
        Path(picture[0]).write_text(re.sub(r"@font-face {.*?}\s*", "", svg, flags=re.S))


if __name__ == "__main__":
    _main()
