"""Batches, the cores that get them done in time, and the partitions for those cores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.sizing import arithmetic as sums
from penstock.sizing.figures import Figures
from penstock.sizing.sheet import Sheet, amount
from penstock.sizing.wanted import Wanted

U = f"{sums.UTILISATION * 100:.0f} %"


@dataclass(frozen=True)
class Batches:
    """What the rest of a plan needs to know of them."""

    interval_s: float
    takes_s: float
    cores: int
    largest: int
    """Events of a batch that fills its whole interval."""
    partitions: int

    @property
    def peak_eps(self) -> float:
        return self.largest / self.interval_s


def batches(sheet: Sheet, w: Wanted, known: Figures) -> Batches:
    sheet.about("batches and cores")
    interval = _interval_s(sheet, w, known)
    fixed, key_us = known.batch_s.value, known.key_us.value
    events = sheet.step(
        "events a batch",
        sums.waiting(w.rate_eps, interval),
        "",
        "rate x interval",
        f"{w.rate_eps:,.0f}/s x {interval:.2f} s",
    )
    keys = sheet.step(
        "sessions touched",
        sums.touched(events, w.alive),
        "",
        "alive x (1 - e^(-events / alive)), all as likely",
        f"{w.alive:,} x (1 - e^(-{events:,.0f} / {w.alive:,}))" if w.alive else "none is alive",
    )
    larger = max(1.0, w.size_bytes / known.record_bytes.value)
    event_us = sheet.step(
        "CPU of an event",
        known.event_us.value * larger,
        "us",
        f"as measured, x size / {known.record_bytes.value:g} B if larger",
        f"{known.event_us.value:g} us x {larger:.3g}",
    )
    cpu_s = sheet.step(
        "CPU of a batch",
        sums.batch_cpu_s(events, keys, event_us, key_us),
        "s",
        "events x CPU of an event + sessions x CPU of a session",
        f"{events:,.0f} x {event_us:.3g} us + {keys:,.0f} x {key_us:g} us",
    )
    sheet.step(
        "CPU per million events",
        cpu_s / events * 1e6,
        "s",
        "CPU of a batch / events x 1,000,000",
        f"{cpu_s:.3g} s / {events:,.0f} x 1,000,000",
    )
    cores = sums.cores(cpu_s, interval, fixed)
    sheet.step(
        "cores, each a task slot",
        cores,
        "",
        f"CPU of a batch / ({U} x interval - fixed time), rounded up",
        f"{cpu_s:.3g} s / ({sums.UTILISATION:g} x {interval:.2f} s - {fixed:g} s)",
    )
    takes = sheet.step(
        "a batch takes",
        fixed + cpu_s / cores,
        "s",
        "fixed time + CPU of a batch / cores",
        f"{fixed:g} s + {cpu_s:.3g} s / {cores}",
    )
    sheet.step(
        "utilisation",
        takes / interval * 100,
        "%",
        f"what a batch takes / interval; at most {U}",
        f"{takes:.2f} s / {interval:.2f} s",
    )
    largest = sums.largest_batch(interval, fixed, cores, cpu_s / events)
    sheet.step(
        "largest batch",
        largest,
        "",
        "(interval - fixed time) x cores / CPU of an event with its session",
        f"({interval:.2f} s - {fixed:g} s) x {cores} / {amount(cpu_s / events * 1e6, 'us')}",
    )
    partitions = _partitions(sheet, w, event_us, cores)
    sheet.settings |= {
        "source.partitions": str(partitions),
        "source.max_batch": str(largest),
        "trigger": f"{math.floor(interval * 1000)} ms",
    }
    if w.alive:
        sheet.settings["sessions.partitions"] = str(cores)
    return Batches(interval, takes, cores, largest, partitions)


def _interval_s(sheet: Sheet, w: Wanted, known: Figures) -> float:
    fixed = known.batch_s.value
    interval = sheet.step(
        "interval",
        sums.interval_s(w.p99_s),
        "s",
        f"p99 / (1 + {U}): an event waits for the next batch, and then for its end",
        f"{w.p99_s:g} s / {1 + sums.UTILISATION:g}",
    )
    shortest = sums.shortest_interval_s(fixed)
    if interval <= shortest:
        raise PenstockError(
            f"a p99 of {amount(w.p99_s, 's')} cannot be had with batches: each takes {fixed:g} s by itself",
            hint=f"Allow for more than {shortest * (1 + sums.UTILISATION):.2f} s (--p99), or let single"
            ' events leave by a Kafka sink with latency = "realtime".',
        )
    return interval


def _partitions(sheet: Sheet, w: Wanted, event_us: float, cores: int) -> int:
    one_eps = sheet.step(
        "a partition takes",
        w.partition_eps or sums.partition_eps(event_us),
        "/s",
        "as given" if w.partition_eps else f"{U} of what one task reads",
        "" if w.partition_eps else f"{sums.UTILISATION:g} x 1 s / {event_us:.3g} us",
    )
    partitions = sums.partitions(w.rate_eps, cores, one_eps)
    sheet.step(
        "partitions",
        partitions,
        "",
        "the larger of 2 x cores and rate / what a partition takes",
        f"max(2 x {cores}, {w.rate_eps:,.0f} / {one_eps:,.0f})",
    )
    return partitions
