"""The audit that needs no record of what was sent: it sees what is taken out of a sink or put in twice."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from penstock.audit.auditor import Auditor, Reconciled
from penstock.audit.topic import read_topic
from penstock.sinks.clickhouse import connect
from tests.integration.clicks import NewRig, Rig

pytestmark = pytest.mark.integration


def look(rig: Rig, from_batch: int = 0) -> Reconciled:
    with Auditor(rig.spec, rig.data, rig.endpoints, from_batch=from_batch) as auditor:
        return auditor.look()


def sent_in_transactions(rig: Rig) -> None:
    """A click each in two transactions, and one that is given up: markers take offsets and are no records."""
    producer = Producer(
        {"bootstrap.servers": rig.addresses.kafka, "transactional.id": f"{rig.spec.name}-clicks"}
    )
    producer.init_transactions(30)
    for user, kept in (("t1", True), ("t2", False), ("t3", True)):
        producer.begin_transaction()
        click = {"event_id": user, "user_id": user, "event_type": "view", "ts": 1_800_000_000_000}
        producer.produce(rig.spec.source.topic, json.dumps(click).encode(), partition=0)
        producer.flush()
        producer.commit_transaction(30) if kept else producer.abort_transaction(30)


def test_what_a_pipeline_wrote_is_found_and_what_is_taken_out_or_doubled_is_counted_and_named(
    new_rig: NewRig,
) -> None:
    rig = new_rig(**{"cleanse.future": "20000 days"})
    rig.send()
    rig.run_until_quiet()
    sent_in_transactions(rig)
    rig.move_clock()
    rig.run_until_quiet()
    whole = look(rig)
    assert whole.problems == ()
    assert (whole.lost, whole.duplicated, whole.unaccounted) == (0, 0, 0)
    assert whole.queries[rig.spec.name].records > 4_500 + 3
    assert {sink.name: sink.keeps for sink in whole.sinks} == {
        f"{rig.spec.name}-sessions": "all",
        f"{rig.spec.name}_live": "newest",
        "sessions_table": "all",
        f"{rig.spec.name}-dead": "all",
    }
    assert all(sink.said > 0 for sink in whole.sinks)

    table = f"{rig.spec.name}_sessions"
    clickhouse = connect(rig.addresses.clickhouse)
    [[batch, rows]] = clickhouse.query(
        f"SELECT batch, count() FROM {table} GROUP BY batch ORDER BY batch DESC LIMIT 1"  # noqa: S608
    ).result_rows
    clickhouse.command(f"ALTER TABLE {table} DELETE WHERE batch = {batch} SETTINGS mutations_sync = 1")
    missing = look(rig)
    assert (missing.lost, missing.duplicated) == (rows, 0)
    assert f"sessions_table: {rows} rows of batch {batch} are not there; made of" in missing.problems[0]
    assert look(rig, from_batch=batch + 1).problems == ()

    topic = f"{rig.spec.name}-sessions"
    first = next(iter(read_topic(rig.addresses.kafka, topic)))
    producer = Producer({"bootstrap.servers": rig.addresses.kafka})
    producer.produce(topic, first.value(), first.key())
    producer.flush()
    doubled = look(rig)
    assert (doubled.lost, doubled.duplicated) == (rows, 1)
    assert any("1 rows of batch" in line and "there too often" in line for line in doubled.problems)


def test_an_auditor_goes_on_where_it_looked_last(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send(seconds=1.0)
    rig.run_until_quiet()
    with Auditor(rig.spec, rig.data, rig.endpoints) as auditor:
        before = auditor.look()
        rig.send(seconds=1.0)
        rig.move_clock()
        rig.run_until_quiet()
        after = auditor.look()
    assert (before.problems, after.problems) == ((), ())
    assert after.batches > before.batches
    assert sum(sink.held for sink in after.sinks) > sum(sink.held for sink in before.sinks)
