"""Rows that a table does not take, through the whole pipeline: set aside once, and the rest goes on."""

from __future__ import annotations

import json

import clickhouse_connect
import pytest

from penstock.audit.auditor import Auditor
from penstock.audit.topic import read_topic
from penstock.deadletters.letter import letter_of
from tests.integration.clicks import NewRig, Rig

pytestmark = pytest.mark.integration


def refuse_long_sessions(rig: Rig) -> str:
    """Have the table of sessions refuse the few that are long; its name."""
    [table] = [sink.target for sink in rig.spec.sink if sink.name == "sessions_table"]
    client = clickhouse_connect.get_client(dsn=rig.addresses.clickhouse, autogenerate_session_id=False)
    client.command(f"ALTER TABLE {table} ADD CONSTRAINT shorter CHECK events < 6")
    client.close()
    return table


def test_rows_that_a_table_refuses_become_dead_letters_once(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send(seconds=2)
    rig.run_until_quiet()
    refuse_long_sessions(rig)
    rig.send(seconds=2)
    rig.move_clock()
    receipts = rig.run_until_quiet()
    refused = sum(receipt.refused for receipt in receipts)
    assert refused > 0

    # The batch comes again, as after a crash before Spark's commit: nothing is set aside a second time.
    rig.forget_last_commit()
    [again] = rig.run_until_quiet()
    assert all(sink.replayed for sink in again.sinks if not sink.name.endswith("_live"))
    assert again.refused == receipts[-1].refused

    topic = next(sink.target for sink in rig.spec.sink if "refused" in sink.rows)
    letters = [letter_of(message) for message in read_topic(rig.addresses.kafka, topic)]
    rows = [letter for letter in letters if letter and letter.kind == "refused"]
    assert len(rows) == refused
    assert all(letter.reason.startswith("sessions_table: ") and "shorter" in letter.reason for letter in rows)
    assert all(json.loads(letter.value or b"")["events"] >= 6 for letter in rows)
    assert not any(letter.is_record for letter in rows)
    with Auditor(rig.spec, rig.data, rig.endpoints) as auditor:
        seen = auditor.look()
    assert (seen.lost, seen.duplicated, seen.problems) == (0, 0, ())
