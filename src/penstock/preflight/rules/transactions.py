"""What Kafka's transactions ask of a cluster and of those who read."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.preflight.facts import Facts, KafkaFacts
from penstock.preflight.finding import Finding, error, note, warning
from penstock.preflight.words import DAY_MS, counted, listed, time_text
from penstock.sinks.kafka import TRANSACTION_TIMEOUT_MS
from penstock.spec import KafkaSink

_SAFE_OFFSETS_MS = 30 * DAY_MS


def timeout(facts: Facts) -> Iterator[Finding]:
    """The cluster allows the time-out that sinks ask for, and no write comes near it."""
    sinks = _transactional(facts)
    if not isinstance(facts.kafka, KafkaFacts) or not sinks:
        return
    allowed_ms = facts.kafka.transaction_timeout_max_ms
    if allowed_ms is not None and allowed_ms < TRANSACTION_TIMEOUT_MS:
        yield error(
            "transactions",
            f"the cluster allows transactions of {time_text(allowed_ms)} (transaction.max.timeout.ms),"
            f" sinks ask for {time_text(TRANSACTION_TIMEOUT_MS)}",
            why="It refuses their first transaction.",
            fix=f"Set transaction.max.timeout.ms={TRANSACTION_TIMEOUT_MS} on all brokers.",
        )
    for sink in sinks:
        cost = facts.journal.costs.get(sink.name)
        # A transaction is open while its batch is written, not while it is computed.
        if cost is not None and cost.write_ms_max > TRANSACTION_TIMEOUT_MS / 2:
            yield warning(
                f"sink {sink.name}",
                f"its longest write took {time_text(cost.write_ms_max)}, and a transaction is ended after"
                f" {time_text(TRANSACTION_TIMEOUT_MS)}",
                why="A batch that takes longer fails, comes again, and takes as long again.",
                fix="Make batches smaller: [source] max_batch.",
            )


def expiry(facts: Facts) -> Iterator[Finding]:
    """Positions are offsets of groups, which a cluster forgets some time after the last batch."""
    if not isinstance(facts.kafka, KafkaFacts) or not _transactional(facts):
        return
    kept_ms = facts.kafka.offsets_retention_ms
    if kept_ms is None or kept_ms >= _SAFE_OFFSETS_MS:
        return
    yield warning(
        "positions",
        f"the cluster forgets them {time_text(kept_ms)} after the last batch (offsets.retention.minutes)",
        why="A pipeline that is stopped for longer, or whose topic is silent for longer, no longer knows"
        " which batch its Kafka sinks hold, and does not start without --adopt.",
        fix=f"Set offsets.retention.minutes={_SAFE_OFFSETS_MS // 60_000} or more on all brokers.",
    )


def readers(facts: Facts) -> Iterator[Finding]:
    """Who reads what is written exactly once must not read what was aborted."""
    if not isinstance(facts.kafka, KafkaFacts):
        return
    for sink in _transactional(facts):
        groups = facts.kafka.readers.get(sink.topic, ())
        left_out = facts.kafka.groups_left_out
        rest = f"; {counted(left_out, 'group')} more were not looked at" if left_out else ""
        if groups or left_out:
            yield note(
                f"sink {sink.name}",
                f"topic {sink.topic} is read by {listed(groups) or 'no group that was looked at'}{rest}",
                why="Readers see a result once if they leave out what was aborted; from here it cannot be"
                " seen whether they do.",
                fix="Make sure that they set isolation.level=read_committed.",
            )


def _transactional(facts: Facts) -> list[KafkaSink]:
    return [sink for sink in facts.exactly_once if isinstance(sink, KafkaSink)]
