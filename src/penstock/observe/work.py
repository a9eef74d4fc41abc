"""Spark's own report of a batch as a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock.observe.samples import StageWork, StateWork, Work

_NS_PER_MS = 1_000_000
_NEVER = "1970-01-01T00:00:00.000Z"


def work(report: Mapping[str, Any]) -> Work:
    """From a StreamingQueryProgress as JSON, with its stages (StageData as JSON) under `stages`."""
    spent = report["durationMs"]
    total_ms = int(spent.get("triggerExecution", 0))
    return Work(
        at_ms=_ms(report["timestamp"]) + total_ms,
        query=report["name"],
        batch=report["batchId"],
        offsets_ms=int(spent.get("latestOffset", 0)) + int(spent.get("getBatch", 0)),
        planning_ms=int(spent.get("queryPlanning", 0)),
        log_ms=int(spent.get("walCommit", 0)),
        run_ms=int(spent.get("addBatch", 0)),
        commit_ms=int(spent.get("commitOffsets", 0)) + int(spent.get("commitBatch", 0)),
        total_ms=total_ms,
        watermark_ms=_ms(report.get("eventTime", {}).get("watermark", _NEVER)),
        state=_state(report.get("stateOperators", [])),
        stages=tuple(_stage(stage) for stage in report["stages"] if stage["status"] == "COMPLETE"),
    )


def _state(operators: Sequence[Mapping[str, Any]]) -> StateWork | None:
    if not operators:
        return None
    more = [operator.get("customMetrics", {}) for operator in operators]
    return StateWork(
        rows_updated=sum(operator["numRowsUpdated"] for operator in operators),
        rows_removed=sum(operator["numRowsRemoved"] for operator in operators),
        memory_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        disk_bytes=sum(metrics.get("rocksdbSstFileSize", 0) for metrics in more),
        update_ms=sum(operator["allUpdatesTimeMs"] for operator in operators),
        remove_ms=sum(operator["allRemovalsTimeMs"] for operator in operators),
        commit_ms=sum(operator["commitTimeMs"] for operator in operators),
        checkpoint_bytes=sum(metrics.get("rocksdbBytesCopied", 0) for metrics in more),
    )


def _stage(given: Mapping[str, Any]) -> StageWork:
    return StageWork(
        number=given["stageId"],
        tasks=given["numTasks"],
        wall_ms=given["completionTime"] - given["submissionTime"],
        run_ms=given["executorRunTime"],
        cpu_ms=given["executorCpuTime"] // _NS_PER_MS,
        gc_ms=given["jvmGcTime"],
        records_in=given["inputRecords"] or given["shuffleReadRecords"],
        shuffle_read_bytes=given["shuffleReadBytes"],
        shuffle_wait_ms=given["shuffleFetchWaitTime"],
        shuffle_write_bytes=given["shuffleWriteBytes"],
        shuffle_write_ms=given["shuffleWriteTime"] // _NS_PER_MS,
        spill_bytes=given["memoryBytesSpilled"],
    )


def _ms(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)
