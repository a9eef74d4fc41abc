"""Spark's reports as samples. The report is one that Spark 4.2.0 made, with what nobody reads left out."""

from __future__ import annotations

from typing import Any

from penstock.observe.samples import StageWork, StateWork
from penstock.observe.work import work

STAGE: dict[str, Any] = {
    "status": "COMPLETE",
    "stageId": 7,
    "numTasks": 4,
    "submissionTime": 1_794_827_697_319,
    "completionTime": 1_794_827_698_506,
    "executorRunTime": 1_856,
    "executorCpuTime": 221_473_380,
    "jvmGcTime": 3,
    "inputRecords": 0,
    "shuffleReadRecords": 1_109,
    "shuffleReadBytes": 94_524,
    "shuffleFetchWaitTime": 2,
    "shuffleWriteBytes": 0,
    "shuffleWriteTime": 0,
    "memoryBytesSpilled": 0,
}
SKIPPED = {"status": "SKIPPED", "stageId": 6, "submissionTime": None, "completionTime": None}
REPORT: dict[str, Any] = {
    "name": "clickstream",
    "timestamp": "2026-11-16T11:14:44.849Z",
    "batchId": 3,
    "numInputRows": 3_385,
    "durationMs": {
        "addBatch": 3_444,
        "commitOffsets": 27,
        "getBatch": 1,
        "latestOffset": 9,
        "queryPlanning": 604,
        "triggerExecution": 4_129,
        "walCommit": 31,
    },
    "eventTime": {"watermark": "2026-11-16T11:14:40.256Z"},
    "stateOperators": [
        {
            "operatorName": "transformWithStateExec",
            "numRowsTotal": 0,
            "numRowsUpdated": 1_075,
            "allUpdatesTimeMs": 975,
            "numRowsRemoved": 2,
            "allRemovalsTimeMs": 1,
            "commitTimeMs": 104,
            "memoryUsedBytes": 5_508_664,
            "customMetrics": {"rocksdbSstFileSize": 7_000, "rocksdbBytesCopied": 900},
        }
    ],
    "stages": [SKIPPED, STAGE],
}
TRIGGERED_MS = 1_794_827_684_849


def test_a_batch_ended_when_its_trigger_and_all_phases_were_over() -> None:
    seen = work(REPORT)
    assert (seen.query, seen.batch, seen.at_ms) == ("clickstream", 3, TRIGGERED_MS + 4_129)
    assert (seen.offsets_ms, seen.planning_ms, seen.log_ms) == (10, 604, 31)
    assert (seen.run_ms, seen.commit_ms, seen.total_ms) == (3_444, 27, 4_129)
    assert seen.watermark_ms == TRIGGERED_MS - 4_593
    assert seen.state == StateWork(1_075, 2, 5_508_664, 7_000, 975, 1, 104, 900)


def test_only_stages_that_ran_are_told_of() -> None:
    assert work(REPORT).stages == (
        StageWork(
            number=7,
            tasks=4,
            wall_ms=1_187,
            run_ms=1_856,
            cpu_ms=221,
            gc_ms=3,
            records_in=1_109,
            shuffle_read_bytes=94_524,
            shuffle_wait_ms=2,
            shuffle_write_bytes=0,
            shuffle_write_ms=0,
            spill_bytes=0,
        ),
    )


def test_a_query_without_state_or_time_has_neither() -> None:
    bare = {key: value for key, value in REPORT.items() if key not in ("eventTime", "stateOperators")}
    seen = work(bare)
    assert seen.state is None
    assert seen.watermark_ms == 0
