"""Lag for a person: looked at once, or again and again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli.common import console, resolve_addresses, say, write_json
from penstock.errors import PenstockError, ServiceError
from penstock.observe.lag.age import Age, LagTime, NoLag, TooFewPoints
from penstock.observe.lag.ends import TopicEnds
from penstock.observe.lag.history import LagHistory
from penstock.observe.lag.report import Ends, LagReport, NotBegun, PartitionLag, lag_report
from penstock.observe.lag.retention import kept_ms
from penstock.observe.lag.skew import Nothing, Skew
from penstock.observe.lag.trend import (
    Burst,
    Draining,
    Growing,
    Sawtooth,
    Stalled,
    Steady,
    TooFewSamples,
    Trend,
)
from penstock.paths import DataDir
from penstock.spec import PipelineSpec

_EVERY_S = 2.0
_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))
_UNSURE = 0.25
"""A time that may be off by more than this share of itself is shown as a rough one."""


class Lagging:
    """Looks at one pipeline, in its journal and in Kafka."""

    def __init__(self, spec: PipelineSpec, data: DataDir, json: Path | None) -> None:
        self._spec, self._data, self._json = spec, data, json
        self._journal = data.runs / spec.name / "journal.jsonl"
        self._history = LagHistory(self._journal)
        self._topic: TopicEnds | None = None
        self._ends: Ends | None = None
        self._kept_ms: int | None = None

    def look(self) -> LagReport:
        # Positions before ends: a position that lies beyond an end asked for later is of another topic.
        lags = self._history.read()
        self._ask_kafka()
        report = lag_report(
            self._spec.name,
            lags,
            _now_ms(),
            ends=self._ends,
            kept_ms=self._kept_ms,
            trigger_ms=self._spec.trigger.ms,
        )
        if isinstance(report, NotBegun):
            raise PenstockError(
                f"{self._spec.name} has not ended a batch: {self._journal} does not tell where it is",
                hint=f"Run it, or wait for its first batch: penstock run {self._spec.name}; or name its data"
                " directory with --data.",
            )
        write_json(self._json, report.to_json())
        return report

    def _ask_kafka(self) -> None:
        """While it does not answer, what it said last stands."""
        source = self._spec.source
        try:
            kafka = resolve_addresses(self._spec, self._data, only=("kafka",)).kafka
        except ServiceError:
            return
        self._topic = self._topic or TopicEnds(kafka, source.topic, source.partitions)
        # Asked again, since one who looks once has no second look: a first question may get no answer.
        ends = self._topic.read() or self._topic.read()
        if ends is not None:
            self._ends = Ends(_now_ms(), ends)
            self._kept_ms = kept_ms(kafka, source.topic)


def watch_lag(looking: Lagging, stop: threading.Event) -> LagReport:
    """Show lag until told to stop; the last look."""
    report = looking.look()
    if console.is_terminal:
        with Live(rendered(report), console=console, auto_refresh=False) as live:
            while not stop.wait(_EVERY_S):
                report = looking.look()
                live.update(rendered(report), refresh=True)
        return report
    say(plain_line(report))
    while not stop.wait(_EVERY_S):
        report = looking.look()
        say(plain_line(report))
    return report


def show(report: LagReport) -> None:
    console.print(rendered(report))


def rendered(report: LagReport) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for name in ("partition", "position", "end", "lag", "lag in time", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("trend", no_wrap=True)
    table.add_column("status")
    for one in report.partitions:
        table.add_row(
            str(one.partition),
            f"{one.position:,}",
            f"{one.end:,}",
            f"{one.lag:,}",
            age_text(one.age),
            f"{one.share:.0%}",
            trend_text(one.trend, report.at_ms),
            _status(one),
        )
    return Group(Text(source_text(report), style="dim"), table, Text(summary_text(report)))


def source_text(report: LagReport) -> str:
    """What the figures rest on."""
    heard, ends = (_ago(report, at_ms) for at_ms in (report.heard_at_ms, report.ends_at_ms))
    silent = "" if report.ends_at_ms > report.heard_at_ms else ", from its journal: Kafka does not answer"
    return f"{report.pipeline}: last heard from {heard}; ends of {ends}{silent}"


def _ago(report: LagReport, at_ms: int) -> str:
    return f"{time_text((report.at_ms - at_ms) / 1000)} ago"


def summary_text(report: LagReport) -> str:
    lines = [
        f"total    {report.lag:,} records, {age_text(report.age)} behind;"
        f" {report.in_eps:,.0f}/s in, {report.out_eps:,.0f}/s processed",
        f"trend    {trend_text(report.trend, report.at_ms)}",
        f"skew     of the lag: {_skew_text(report.lag_skew)}; of what comes in: {_skew_text(report.in_skew)}",
    ]
    unwell = [one for one in report.partitions if not one.is_well]
    if unwell:
        lines.append(f"verdict  {len(unwell)} of {len(report.partitions)} partitions need help")
    return "\n".join(lines)


def plain_line(report: LagReport) -> str:
    worst = report.partitions[0]
    return (
        f"lag {report.lag:,}  {age_text(report.age)} behind  {report.in_eps:,.0f}/s in  "
        f"{report.out_eps:,.0f}/s processed  {trend_text(report.trend, report.at_ms)}  "
        f"worst: partition {worst.partition} {worst.health.verdict}, {worst.lag:,}"
    )


def _status(one: PartitionLag) -> Text:
    if one.is_well and one.health.verdict == "ok":
        return Text("ok", style="green")
    colour = "yellow" if one.is_well else "red"
    return Text.assemble((one.health.verdict, colour), (f": {one.health.reason}", "dim"))


def age_text(age: Age) -> str:
    match age:
        case NoLag():
            return "0 s"
        case TooFewPoints(at_least_ms):
            return f"over {time_text(at_least_ms / 1000)}"
        case LagTime(ms, at_least_ms, at_most_ms):
            off_ms = None if at_most_ms is None else max(at_most_ms - ms, ms - at_least_ms)
            # Where the end is looked at each second, half a second is as good as it gets.
            rough = off_ms is None or off_ms > max(1_000, _UNSURE * ms)
            return f"{'~ ' if rough else ''}{time_text(ms / 1000)}"


def trend_text(trend: Trend, now_ms: int) -> str:
    match trend:
        case TooFewSamples(batches):
            return f"too early to say ({batches} batches)"
        case Steady():
            return "steady"
        case Sawtooth(period_s, low, high):
            return f"sawtooth: {low:,} to {high:,} every {time_text(period_s)}"
        case Growing(slope_eps, None):
            return f"growing by {slope_eps:,.0f}/s"
        case Growing(slope_eps, loses_data_in_s):
            return f"growing by {slope_eps:,.0f}/s; loses data in {time_text(loses_data_in_s or 0)}"
        case Draining(done_in_s):
            return f"draining; done in {time_text(done_in_s)}"
        case Burst(peak, since_ms):
            return f"burst of {peak:,} {time_text((now_ms - since_ms) / 1000)} ago, being worked off"
        case Stalled(since_ms):
            return f"stalled for {time_text((now_ms - since_ms) / 1000)}"


def _skew_text(skew: Skew | Nothing) -> str:
    match skew:
        case Nothing():
            return "nothing"
        case Skew(largest, share, gini):
            return f"partition {largest} has {share:.0%} (Gini {gini:.2f})"


def time_text(seconds: float) -> str:
    """A length of time for a cell of a table: 0.8 s, 41 s, 5.2 min, 3.0 h."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
