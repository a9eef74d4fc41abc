"""The sums of a plan. Times are in seconds, sizes in bytes, costs in seconds of one core."""

from __future__ import annotations

import math

UTILISATION = 0.7
"""Nothing is planned to be busier. What is left is for bursts, garbage collection and neighbours."""

WORTH_SENDING = 10
"""Records of one partition for which a producer waits, if it need not wait long."""

KIB, MIB = 1 << 10, 1 << 20


def interval_s(p99_s: float) -> float:
    """How far apart batches start: an event waits for the next start, and then for its batch."""
    return p99_s / (1 + UTILISATION)


def touched(events: float, alive: float) -> float:
    """How many sessions get an event of a batch, if every one is as likely: the hardest case."""
    return -alive * math.expm1(-events / alive) if alive else 0.0


def batch_cpu_s(events: float, keys: float, event_us: float, key_us: float) -> float:
    return (events * event_us + keys * key_us) / 1e6


def shortest_interval_s(fixed_s: float) -> float:
    """The interval that a batch's fixed time alone fills."""
    return fixed_s / UTILISATION


def cores(cpu_s: float, interval: float, fixed_s: float) -> int:
    """So many that a batch is done within its share of the interval."""
    return max(1, math.ceil(cpu_s / (UTILISATION * interval - fixed_s)))


def partition_eps(event_us: float) -> float:
    """What one task reads of one partition, as busy as it may be."""
    return UTILISATION * 1e6 / event_us


def partitions(rate_eps: float, slots: int, one_eps: float) -> int:
    return max(2 * slots, math.ceil(rate_eps / one_eps))


def largest_batch(interval: float, fixed_s: float, slots: int, one_s: float) -> int:
    """The events that fill a whole interval, for the time after an outage."""
    return math.ceil((interval - fixed_s) * slots / one_s)


def catch_up_s(rate_eps: float, outage_s: float, peak_eps: float) -> float:
    """How long until what came meanwhile is worked off, beside what goes on coming."""
    return rate_eps * outage_s / (peak_eps - rate_eps) if peak_eps > rate_eps else math.inf


def waiting(rate_eps: float, time_s: float) -> float:
    """Little's law: what is inside is what comes in, times how long it stays."""
    return rate_eps * time_s


def linger_s(each_eps: float, parts: int, p99_s: float, least_s: float) -> float:
    """Long enough for some records of each partition, but no more than a hundredth of the objective."""
    return max(least_s, min(WORTH_SENDING * parts / each_eps, p99_s / 100))


def producer_batch_bytes(each_eps: float, size: float, parts: int, linger: float) -> int:
    """Room for twice what one partition gets within the linger."""
    return min(max(16 * KIB, math.ceil(2 * each_eps / parts * linger * size)), 1_000_000)


def heap_bytes(slots: int, slot_bytes: float, lookup: float) -> float:
    """Of an executor: its slots, and reference data in the old version and the new."""
    return slots * slot_bytes + 2 * lookup


def overhead_bytes(heap: float) -> float:
    """What Spark asks for beside the heap."""
    return max(384 * MIB, heap / 10)
