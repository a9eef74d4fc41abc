"""All rules, in the order in which a person asks: is it there, is it right, will it last."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.preflight.facts import Away, Facts
from penstock.preflight.finding import Finding
from penstock.preflight.rules import (
    checkpoint,
    clickhouse,
    durability,
    machine,
    positions,
    postgres,
    price,
    source,
    transactions,
    unread,
)

Rule = Callable[[Facts], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    durability.reachable,
    clickhouse.reachable,
    postgres.reachable,
    source.topic,
    source.timestamps,
    source.compaction,
    unread.recreated,
    unread.beyond_the_end,
    unread.gone,
    unread.age,
    unread.room,
    unread.lag,
    durability.sink_topics,
    durability.replication,
    durability.in_sync,
    durability.elections,
    durability.kept_results,
    transactions.timeout,
    transactions.expiry,
    transactions.readers,
    clickhouse.tables,
    clickhouse.engines,
    postgres.server,
    postgres.connections,
    postgres.tables,
    checkpoint.one_writer,
    checkpoint.readable,
    checkpoint.layout,
    positions.positions,
    machine.reference,
    machine.slots,
    machine.realtime,
    machine.cores,
    machine.disk,
    price.price,
)


def judge(facts: Facts) -> list[Finding]:
    """What the facts mean."""
    return [finding for rule in RULES for finding in rule(facts)]


def could_look(facts: Facts) -> bool:
    """Whether every service that the pipeline needs was seen; if not, no finding is no promise."""
    return not any(isinstance(seen, Away) for seen in (facts.kafka, facts.clickhouse, facts.postgres))
