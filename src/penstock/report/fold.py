"""A run, entry by entry, into what is known of it. Nothing is read here, and time is what the entries say."""

from __future__ import annotations

from dataclasses import replace

from penstock.observe.board.alerts import Limits
from penstock.observe.board.board import board_of, without_addresses
from penstock.observe.board.glance import Glance, Mark
from penstock.observe.journal import Batch, Lag, Note
from penstock.observe.machine import machine_of
from penstock.observe.run import Seen
from penstock.observe.samples import AuditVerdict, KafkaHealth, Work
from penstock.observe.samples import Load as LoadSample
from penstock.report.batches import Batches
from penstock.report.episodes import Episodes
from penstock.report.facts import End, Facts, Record, SinkFigures
from penstock.report.lives import Lives
from penstock.report.strip import Strip, Taped
from penstock.report.waits import Waits
from penstock.spec import PipelineSpec

MARKS_MAX = 400


class Fold:
    """One run, between two moments."""

    def __init__(
        self, name: str, spec: PipelineSpec | None, from_ms: int, to_ms: int, limits: Limits
    ) -> None:
        self._name, self._spec, self._objective_ms = name, spec, limits.p99_ms
        self._from_ms, self._to_ms = from_ms, to_ms
        self._strip = Strip(from_ms, to_ms)
        self._board = board_of(name, spec)
        self._board.series = Taped(self._strip)
        self._lives, self._batches, self._waits = Lives(), Batches(self._board.facts), Waits(self._strip)
        self._episodes = Episodes(self._board, from_ms, to_ms, limits)
        self._marks: list[Mark] = []
        self._marks_left_out = 0
        self._machine = ""
        self._samples_from_ms: int | None = None

    def feed(self, seen: Seen) -> None:
        if isinstance(seen, AuditVerdict):
            problems = tuple(without_addresses(problem) for problem in seen.problems)
            seen = replace(seen, problems=problems)
        else:
            self._look(seen.at_ms)
        main = self._board.main
        again = isinstance(seen, Batch) and main is not None and main.holds(seen.receipt)
        self._board.feed(seen)
        match seen:
            case Batch():
                self._feed_batch(seen, again)
            case Lag():
                self._lives.heard(seen.at_ms)
                self._waits.lag(seen)
                self._batches.lag(seen)
            case Note():
                self._feed_mark(self._board.marks[-1])
            case Work() | LoadSample() | KafkaHealth():
                self._samples_from_ms = self._samples_from_ms or seen.at_ms
                if isinstance(seen, Work):
                    self._batches.work(seen)
            case AuditVerdict():
                pass

    def _look(self, until_ms: int) -> None:
        for glance in self._episodes.until(until_ms):
            if glance.lag is not None:
                self._waits.glanced(glance.lag, glance.now_ms, self._episodes.every_ms)

    def _feed_batch(self, batch: Batch, again: bool) -> None:
        self._lives.batch(batch.at_ms)
        main = self._board.main
        is_main = main is not None and main.query == batch.receipt.query
        self._batches.batch(batch, is_main=is_main, again=again)
        if is_main and not again:
            self._waits.batch(batch.receipt)

    def _feed_mark(self, mark: Mark) -> None:
        self._machine = machine_of(mark.text) or self._machine
        self._lives.marked(mark)
        if mark.kind in ("start", "away", "stop"):
            self._batches.down()
        if len(self._marks) < MARKS_MAX:
            self._marks.append(mark)
        else:
            # The beginning and the end tell more than the middle.
            del self._marks[MARKS_MAX // 2]
            self._marks.append(mark)
            self._marks_left_out += 1

    def facts(self, alive: bool | None, now_ms: int, record: Record) -> Facts:
        """All that is known. `now_ms` is the end of the record, or the clock's where the pipeline lives."""
        self._look(now_ms)
        glance = self._board.glance(now_ms)
        end = _end(glance, alive, record)
        if end != "stopped":
            self._episodes.look(glance)
        trigger_ms = self._spec.trigger.ms if self._spec else 0
        sinks = tuple(
            SinkFigures(
                sink.name,
                sink.query,
                sink.facts,
                sink.rows,
                mean_ms,
                max_ms,
                sink.replays,
                sink.refused,
                quantiles,
            )
            for sink in glance.sinks
            for mean_ms, max_ms, quantiles in [self._batches.sink(sink.name)]
        )
        peak_eps, peak_at_ms = self._episodes.peak
        return Facts(
            name=self._name,
            from_ms=self._from_ms,
            to_ms=max(self._to_ms, now_ms) if end == "running" else self._to_ms,
            end=end,
            glance=glance,
            quantiles=self._batches.quantiles(),
            objective_ms=self._objective_ms,
            peak_eps=peak_eps,
            peak_at_ms=peak_at_ms,
            lives=self._lives.lives(end),
            outages=self._lives.outages,
            failures=self._lives.failures,
            failures_left_out=self._lives.failures_left_out,
            episodes=self._episodes.all(),
            batches=self._batches.figures(),
            lag=self._waits.figures(self._name, now_ms, trigger_ms),
            load=self._episodes.load(),
            sinks=sinks,
            marks=tuple(self._marks),
            marks_left_out=self._marks_left_out,
            machine=self._machine,
            record=replace(record, samples_from_ms=self._samples_from_ms),
            strip=self._strip,
        )


def _end(glance: Glance, alive: bool | None, record: Record) -> End:
    if not glance.last_ms:
        return "empty"
    if glance.phase in ("stopped", "failed"):
        return glance.phase
    if record.goes_on:
        return "cut"
    return "open" if alive is None else "running" if alive else "crashed"
