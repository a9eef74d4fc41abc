"""What a pipeline does and did, folded from its journal and its samples, in bounded memory.

Time is what the entries say, and an argument.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import fields

from penstock.engine.receipt import Receipt
from penstock.observe.board.backlog import Backlog
from penstock.observe.board.flow import Flow, phases
from penstock.observe.board.glance import Glance, Mark, MarkKind, Phase, ProcessGlance, SinkFacts, Totals
from penstock.observe.board.series import Series
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.run import Seen
from penstock.observe.samples import AuditVerdict, KafkaHealth, Load, ProcessLoad, Work
from penstock.spec import PipelineSpec

MARKS_MAX = 200
PARTITIONS_DRAWN = 24
"""Partitions that have a line of their own over time; the rest share one."""
RECENT_MS = 300_000
"""Shares, such as that of dead letters, are of this long."""

_NOTES: tuple[tuple[str, MarkKind, Phase | None], ...] = (
    (r"starting Spark", "start", "starting"),
    (r"running$", "ready", "running"),
    (r".* away; waiting", "away", "waiting"),
    (r".* back after ", "back", "running"),
    (r"batch failed", "failed", "failing"),
    (r"stopped", "stop", "stopped"),
    (r"failed: ", "fatal", "failed"),
)
"""How a note begins, what it is, and what the pipeline does from then on."""


class Board:
    """The fold of one pipeline."""

    def __init__(self, name: str, topic: str = "", sinks: Sequence[SinkFacts] = ()) -> None:
        self.name = name
        self.topic = topic
        self.series = Series()
        self.marks: deque[Mark] = deque(maxlen=MARKS_MAX)
        self.last_ms = 0
        self.facts = {sink.name: sink for sink in sinks}
        self._backlog = Backlog()
        self._flows: dict[str, Flow] = {}
        self._phase: Phase = "unknown"
        self._phase_since_ms = 0
        self._note = ""
        self._failures_in_row = 0
        self._totals = Totals()
        self._recent: deque[tuple[int, Totals]] = deque()
        self._processes: dict[str, tuple[int, ProcessLoad]] = {}
        self._shown_processes: tuple[ProcessGlance, ...] = ()
        self._health: KafkaHealth | None = None
        self._audit: AuditVerdict | None = None
        self._lookups: dict[str, str] = {}
        self._stale_since_ms: dict[str, int] = {}

    def feed(self, seen: Seen) -> None:
        # A verdict is of an audit, perhaps another process's: it does not tell that the pipeline lives.
        if not isinstance(seen, AuditVerdict):
            self.last_ms = max(self.last_ms, seen.at_ms)
        match seen:
            case Batch():
                self._feed_batch(seen)
            case Lag():
                self._feed_lag(seen)
            case Note():
                self._feed_note(seen)
            case Work():
                self._feed_work(seen)
            case Load():
                self._feed_load(seen)
            case KafkaHealth():
                self._health = seen
                down = sum(not broker.alive for broker in seen.brokers)
                troubles = {"under_replicated": seen.under_replicated, "offline": seen.offline}
                self.series.put(seen.at_ms, {**troubles, "brokers_down": down})
            case AuditVerdict():
                self._audit = seen

    @property
    def lags(self) -> Sequence[Lag]:
        """The looks at the topic of the last 15 minutes, the oldest first."""
        return self._backlog.recent

    @property
    def main(self) -> Flow | None:
        """The pipeline's first query: the one that bears its name, if it has begun."""
        return self._flows.get(self.name) or next(iter(self._flows.values()), None)

    def _feed_batch(self, batch: Batch) -> None:
        receipt = batch.receipt
        flow = self._flows.setdefault(receipt.query, Flow(receipt.query, self.facts))
        again = flow.holds(receipt)
        cycle = flow.feed_batch(batch)
        flow.forget(batch.at_ms)
        self._failures_in_row = 0
        if self._phase != "running":
            self._enter("running", batch.at_ms)
        self._lookups = {**self._lookups, **receipt.versions}
        self._stale_since_ms = receipt.stale_since_ms
        if flow is not self.main:
            return
        # A batch that came again after a crash has a second receipt: its records were counted.
        told = Totals() if again else _told(receipt)
        self._totals = _added(self._totals, told)
        self._recent.append((batch.at_ms, told))
        while self._recent[0][0] < batch.at_ms - RECENT_MS:
            self._recent.popleft()
        points = {f"phase_{name}": ms for name, ms in phases(receipt, None).items()}
        points |= {
            "rate_out": receipt.records * 1000 / cycle.cycle_ms,
            "batch_ms": receipt.total_ms,
            "open": self._totals.open,
            "records": receipt.records,
        }
        if (quantiles := cycle.spread.quantiles()) is not None:
            points |= {name: getattr(quantiles, name) for name in ("p50", "p95", "p99", "p999", "max")}
        self.series.put(batch.at_ms, points)

    def _feed_lag(self, lag: Lag) -> None:
        before = self._backlog.newest
        self._backlog.feed(lag)
        waits = lag.by_partition
        points: dict[str, float] = {"lag": lag.total}
        for partition in sorted(waits):
            if partition < PARTITIONS_DRAWN:
                points[f"lag_{partition}"] = waits[partition]
        if len(waits) > PARTITIONS_DRAWN:
            points["lag_rest"] = sum(waits[p] for p in waits if p >= PARTITIONS_DRAWN)
        if before is not None and lag.at_ms > before.at_ms:
            added = sum(lag.ends.values()) - sum(before.ends.values())
            points["rate_in"] = max(0.0, added * 1000 / (lag.at_ms - before.at_ms))
        points["age_ms"] = self._backlog.age_ms(lag.at_ms)
        self.series.put(lag.at_ms, points)

    def _feed_note(self, note: Note) -> None:
        self._note = text = without_addresses(note.text)
        kind, phase = note_kind(text)
        self.marks.append(Mark(note.at_ms, kind, text))
        if phase is not None:
            self._enter(phase, note.at_ms)
        if kind in ("failed", "fatal"):
            self._failures_in_row += 1

    def _enter(self, phase: Phase, at_ms: int) -> None:
        if phase != self._phase:
            self._phase, self._phase_since_ms = phase, at_ms

    def _feed_work(self, work: Work) -> None:
        flow = self._flows.get(work.query)
        if flow is None:
            return
        told = flow.feed_work(work)
        if flow is not self.main:
            return
        points: dict[str, float] = {
            "phase_offsets": work.offsets_ms,
            "phase_planning": work.planning_ms,
            "phase_log": work.log_ms,
            "phase_commit": work.commit_ms,
        }
        if told is not None:
            points["busy"] = told.busy
            points |= {f"busy_{one.stage}": one.busy for one in told.stages}
        if work.state is not None:
            points |= {
                "state_memory": work.state.memory_bytes,
                "state_disk": work.state.disk_bytes,
                "checkpoint_bytes": work.state.checkpoint_bytes,
                "checkpoint_ms": work.commit_ms,
                "state_rows": work.state.rows_updated,
            }
        self.series.put(work.at_ms, points)

    def _feed_load(self, load: Load) -> None:
        shown = []
        for process in load.processes:
            before = self._processes.get(process.name)
            self._processes[process.name] = (load.at_ms, process)
            shown.append(_since(before, load.at_ms, process))
        # Executors come and go: what is not told of any more is forgotten.
        self._processes = {process.name: self._processes[process.name] for process in load.processes}
        self._shown_processes = tuple(shown)
        self.series.put(
            load.at_ms,
            {
                "cpu": sum(process.cpu_cores for process in shown),
                "rss": sum(process.rss_bytes for process in shown),
                "heap_used": sum(process.heap_used_bytes for process in shown),
                "heap_max": sum(process.heap_max_bytes for process in shown),
                "gc": max((process.gc_share for process in shown), default=0.0),
            },
        )

    def glance(self, now_ms: int) -> Glance:
        main = self.main
        for flow in self._flows.values():
            flow.forget(now_ms)
        lag = self._backlog.glance(now_ms)
        waited_ms = lag.age_ms if lag else 0
        return Glance(
            name=self.name,
            topic=self.topic,
            now_ms=now_ms,
            last_ms=self.last_ms,
            phase=self._phase,
            phase_since_ms=self._phase_since_ms,
            note=self._note,
            failures_in_row=self._failures_in_row,
            rate_in_eps=sum(self._backlog.rates_eps(now_ms).values()),
            rate_out_eps=main.rate_eps(now_ms) if main else 0.0,
            lag=lag,
            quantiles=main.spread.quantiles() if main else None,
            batch=main.batch_glance() if main else None,
            totals=self._totals,
            recent=_sum([told for at_ms, told in self._recent if at_ms >= now_ms - RECENT_MS]),
            flows=tuple(flow.glance(now_ms, waited_ms) for flow in self._flows.values()),
            state=main.state() if main else None,
            sinks=tuple(sink for flow in self._flows.values() for sink in flow.sinks(now_ms)),
            processes=self._shown_processes,
            health=self._health,
            audit=self._audit,
            lookups=self._lookups,
            stale_since_ms=self._stale_since_ms,
        )


def note_kind(text: str) -> tuple[MarkKind, Phase | None]:
    """What a note tells of, and what the pipeline does from then on, if that changes."""
    for pattern, kind, phase in _NOTES:
        if re.match(pattern, text):
            return kind, phase
    return "news", None


def board_of(name: str, spec: PipelineSpec | None) -> Board:
    """An empty board, with what a spec says: of the sections with addresses nothing is taken."""
    return Board(name, spec.source.topic, sink_facts(spec)) if spec else Board(name)


def sink_facts(spec: PipelineSpec) -> list[SinkFacts]:
    return [SinkFacts(sink.name, sink.kind, sink.target, sink.rows, sink.guarantee) for sink in spec.sink]


_ADDRESS = re.compile(
    r"""(?:[ ](?:at|on))?(?:
        [ ]?(?<!\w)\w+://[^\s"'<>)]+  # a URL
        | (?:[ ]|(?<![^\s"'(]))[^\s"'(:]+:[^\s"'@]+@[^\s"')]+  # name:password@host
        | (?:[ ]|(?<![^\s"'(]))[^\s"'(]*(?:password|passwd|secret|token|api_?key)\w*
          (?:["']?\s*[=:]\s*["']?[^\s"']+|\S*)
        | [ ][\w.,:-]+:\d{2,5}\b(?:/\S*)?  # host:port
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def without_addresses(text: str) -> str:
    """A note without what tells where a service is, and how to log in there: it may be seen by others."""
    return _ADDRESS.sub("", text)


_COUNTED = [field.name for field in fields(Totals) if field.name != "batches"]


def _told(receipt: Receipt) -> Totals:
    return Totals(batches=1, **{name: getattr(receipt, name) for name in _COUNTED})


def _added(one: Totals, other: Totals) -> Totals:
    return Totals(
        **{field.name: getattr(one, field.name) + getattr(other, field.name) for field in fields(Totals)}
    )


def _sum(several: Sequence[Totals]) -> Totals:
    return Totals(
        **{field.name: sum(getattr(one, field.name) for one in several) for field in fields(Totals)}
    )


def _since(before: tuple[int, ProcessLoad] | None, at_ms: int, now: ProcessLoad) -> ProcessGlance:
    """What a process used between two looks; nothing where it is new, or started again."""
    cpu_cores = gc_share = 0.0
    if before is not None and at_ms > before[0] and now.cpu_s >= before[1].cpu_s:
        passed_ms = at_ms - before[0]
        cpu_cores = (now.cpu_s - before[1].cpu_s) * 1000 / passed_ms
        gc_share = max(0.0, (now.gc_ms - before[1].gc_ms) / passed_ms)
    return ProcessGlance(
        now.name, cpu_cores, now.rss_bytes, now.heap_used_bytes, now.heap_max_bytes, gc_share
    )
