"""What a pipeline does when what it has not read is gone, and the ways on."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.audit.auditor import Auditor
from penstock.engine.pipeline import READY
from penstock.errors import SourceError
from penstock.observe.journal import reached
from penstock.preflight import Start, judge, look
from penstock.preflight.finding import Finding
from penstock.sinks.topics import ensure_topics
from tests.integration.clicks import NewRig, Rig

pytestmark = pytest.mark.integration


def delete_records(rig: Rig, before: int) -> None:
    """Delete what is in the source's topic before an offset, in every partition."""
    topic = rig.spec.source.topic
    places = [TopicPartition(topic, p, before) for p in range(rig.spec.source.partitions)]
    admin = AdminClient({"bootstrap.servers": rig.addresses.kafka})
    for asked in admin.delete_records(places).values():
        asked.result(30)


def recreate_topic(rig: Rig) -> None:
    topic = rig.spec.source.topic
    admin = AdminClient({"bootstrap.servers": rig.addresses.kafka})
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=30).topics:
        time.sleep(0.1)
    ensure_topics(rig.addresses.kafka, {topic: rig.spec.source.partitions})


def errors(rig: Rig, start: Start | None = None) -> list[Finding]:
    journal = rig.data.runs / rig.spec.name / "journal.jsonl"
    findings = judge(look(rig.spec, rig.data, rig.endpoints, journal, start or Start()))
    return [finding for finding in findings if finding.severity == "error"]


def next_offsets(rig: Rig) -> dict[int, int]:
    return {partition: end for partition, (_, end) in rig.receipts[-1].offsets.items()}


def test_records_that_are_gone_stop_a_pipeline_until_they_are_given_up(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    stood = next_offsets(rig)
    rig.send(seconds=2)
    first = max(stood.values()) + 100
    delete_records(rig, first)
    lost = sum(first - offset for offset in stood.values())

    [found] = errors(rig)
    assert f"{lost:,} records that {rig.spec.name} has not read were deleted" in found.what
    assert "--accept-loss" in found.fix
    with pytest.raises(SourceError, match="deleted before"):
        rig.run_until_quiet()

    assert not errors(rig, Start(accept_loss=True))
    rig.move_clock()
    after = rig.run_until_quiet(first=dict.fromkeys(stood, first))
    assert {partition: start for partition, (start, _) in after[0].offsets.items()} == dict.fromkeys(
        stood, first
    )
    # What was given up stays a hole, with a name.
    with Auditor(rig.spec, rig.data, rig.endpoints) as auditor:
        seen = auditor.look()
    assert seen.lost == lost
    assert f"skips offsets {stood[0]} to {first - 1} of partition 0" in " ".join(seen.problems)
    # And nothing else is: another start finds all in order.
    assert not errors(rig)
    assert rig.run_until_quiet() == []


def test_a_topic_that_was_created_anew_is_not_taken_for_the_old_one(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    recreate_topic(rig)
    # More records than before, so that the offsets look right.
    rig.send(seconds=5)
    [found] = errors(rig)
    assert "was deleted and created anew" in found.what
    assert f"--set name={rig.spec.name}-2" in found.fix
    with pytest.raises(SourceError, match="created anew"):
        rig.run_until_quiet()


def test_nothing_is_written_of_a_topic_that_is_created_anew_under_a_running_pipeline(
    new_rig: NewRig,
) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    before = len(rig.receipts)

    def anew() -> None:
        recreate_topic(rig)
        rig.send(seconds=5)

    doing = threading.Thread(target=anew)
    rig = replace(rig, say=lambda text: doing.start() if text == READY else None)
    with pytest.raises(SourceError):
        rig.run_until_quiet(quiet_s=60)
    doing.join()
    assert sum(receipt.records for receipt in rig.receipts[before:]) == 0


def test_a_pipeline_with_a_new_name_goes_on_behind_another(new_rig: NewRig) -> None:
    rig = new_rig()
    rig.send()
    rig.run_until_quiet()
    stood = next_offsets(rig)
    assert reached(rig.data.runs / rig.spec.name / "journal.jsonl") == {rig.spec.name: stood}
    rig.send(seconds=1)
    successor = replace(rig, spec=rig.spec.model_copy(update={"name": f"{rig.spec.name}-2"}), receipts=[])
    receipts = successor.run_until_quiet(start={successor.spec.name: stood})
    starts = {partition: start for partition, (start, _) in receipts[0].offsets.items()}
    assert starts == stood
    assert sum(receipt.records for receipt in receipts) > 0
