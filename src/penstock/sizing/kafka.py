"""Producers, brokers, what waits in the topic, and what an outage leaves there."""

from __future__ import annotations

import math

from penstock.sizing import arithmetic as sums
from penstock.sizing.batches import Batches, U
from penstock.sizing.sheet import Sheet, amount
from penstock.sizing.wanted import Wanted
from penstock.tuning import find


def waiting(sheet: Sheet, w: Wanted, batches: Batches) -> None:
    sheet.about("what waits (Little's law: how many come x how long they stay)")
    mean_s, takes_s = batches.interval_s / 2, batches.takes_s
    for where, time_s, formula in (
        ("in Kafka, on average", mean_s, "rate x half an interval"),
        ("in Kafka, at most", batches.interval_s, "rate x interval"),
        ("in Spark", takes_s, "rate x what a batch takes"),
    ):
        records = sums.waiting(w.rate_eps, time_s)
        size = amount(records * w.size_bytes, "B")
        sheet.step(where, records, "records", formula, f"{w.rate_eps:,.0f}/s x {time_s:.2f} s; {size}")
    sheet.step(
        "an event's way, on average",
        mean_s + takes_s,
        "s",
        "half an interval + what a batch takes",
        f"{mean_s:.2f} s + {takes_s:.2f} s",
    )


def producers(sheet: Sheet, w: Wanted, batches: Batches) -> None:
    sheet.about("each producer" if w.producers > 1 else "the producer")
    parts, each_eps = batches.partitions, w.rate_eps / w.producers
    least_s = int(find("producer.linger.ms").default) / 1000
    away_s = int(find("broker.broker.session.timeout.ms").default) / 1000
    linger_s = sums.linger_s(each_eps, parts, w.p99_s, least_s)
    sheet.step(
        "linger.ms",
        linger_s * 1000,
        "ms",
        f"{sums.WORTH_SENDING} records of each partition; from {least_s * 1000:g} ms to p99 / 100",
        f"{sums.WORTH_SENDING} x {parts} / {each_eps:,.0f}/s",
    )
    batch = sheet.step(
        "batch.size",
        sums.producer_batch_bytes(each_eps, w.size_bytes, parts, linger_s),
        "B",
        "2 x rate / partitions x linger x size; from 16 KiB to 1 MB",
        f"2 x {each_eps:,.0f}/s / {parts} x {linger_s * 1000:.3g} ms x {w.size_bytes:g} B",
    )
    queued = sheet.step(
        "queue.buffering.max.messages",
        math.ceil(sums.waiting(each_eps, away_s)),
        "",
        "rate x how long a partition may have no leader (broker.session.timeout.ms)",
        f"{each_eps:,.0f}/s x {away_s:g} s",
    )
    sheet.step(
        "buffer.memory",
        queued * w.size_bytes + parts * batch,
        "B",
        "these x size + a batch for each partition",
        f"{queued:,.0f} x {w.size_bytes:g} B + {parts} x {amount(batch, 'B')}",
    )


def brokers(sheet: Sheet, w: Wanted) -> None:
    sheet.about("brokers")
    come = sheet.step(
        "comes in",
        w.rate_eps * w.size_bytes,
        "B/s",
        "rate x size, before compression",
        f"{w.rate_eps:,.0f}/s x {w.size_bytes:g} B",
    )
    for what, copies, formula, numbers in (
        ("network in, each", w.replication, "replicas", f"{w.replication}"),
        (
            "network out, each",
            w.replication - 1 + w.readers,
            "(other replicas + readers)",
            f"({w.replication - 1} + {w.readers})",
        ),
        ("written to disk, each", w.replication, "replicas", f"{w.replication}"),
    ):
        sheet.step(
            what,
            come * copies / w.brokers,
            "B/s",
            f"what comes in x {formula} / brokers",
            f"{amount(come, 'B/s')} x {numbers} / {w.brokers}",
        )
    kept = sheet.step(
        "kept",
        come * w.retention_s * w.replication,
        "B",
        "what comes in x retention x replicas",
        f"{amount(come, 'B/s')} x {amount(w.retention_s, 's')} x {w.replication}",
    )
    sheet.step(
        "disk, each",
        kept / sums.UTILISATION / w.brokers,
        "B",
        f"kept / brokers, {U} full",
        f"{amount(kept, 'B')} / {w.brokers} / {sums.UTILISATION:g}",
    )


def outage(sheet: Sheet, w: Wanted, batches: Batches) -> None:
    sheet.about("after an outage")
    backlog = sheet.step(
        "backlog",
        sums.waiting(w.rate_eps, w.outage_s),
        "records",
        "rate x outage",
        f"{w.rate_eps:,.0f}/s x {amount(w.outage_s, 's')}",
    )
    peak = sheet.step(
        "peak rate",
        batches.peak_eps,
        "/s",
        "largest batch / interval",
        f"{batches.largest:,} / {batches.interval_s:.2f} s",
    )
    sheet.step(
        "caught up after",
        sums.catch_up_s(w.rate_eps, w.outage_s, peak),
        "s",
        "backlog / (peak rate - rate)",
        f"{backlog:,.0f} / ({peak:,.0f}/s - {w.rate_eps:,.0f}/s)",
    )
    sheet.step(
        "retention that is left",
        max(0.0, w.retention_s - w.outage_s),
        "s",
        "retention - outage: how soon the oldest record goes",
        f"{amount(w.retention_s, 's')} - {amount(w.outage_s, 's')}",
    )
    if w.outage_s >= w.retention_s:
        sheet.problems.append(
            f"an outage of {amount(w.outage_s, 's')} loses records: the topic keeps them for"
            f" {amount(w.retention_s, 's')} (--retention)"
        )
