"""A few clicks through the engine, so that its JVM can record what it loads; see toolchain/archive.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.paths import DataDir, shipped
from penstock.produce.reference import write_reference
from penstock.spec import load
from penstock.testing.stream import EngineRun, open_test_spark
from penstock.toolchain.archive import recording_options

_HOUR_MS = 3_600_000
_ENDED_WITHIN_S = 120


def rehearse(archive: Path) -> None:
    """Run, and wait until the JVM has written down what it loaded."""
    options = [os.environ.get("JAVA_TOOL_OPTIONS", ""), *recording_options(archive)]
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(options)
    spec = load(shipped("pipelines") / "clickstream.toml", environ={})
    with TemporaryDirectory(prefix="penstock-rehearsal-") as home:
        data = DataDir.at(Path(home))
        write_reference(data.reference)
        with open_test_spark(spec, Path(home)) as spark:
            jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
            EngineRun(spark, spec, data).run([[_click(0), _click(_HOUR_MS), b"no click"]])
        jvm.stdin.close()
        jvm.wait(_ENDED_WITHIN_S)


def _click(at_ms: int) -> bytes:
    now = {"ts": 1_800_000_000_000 + at_ms, "created_ms": 1_800_000_000_000 + at_ms, "seq": at_ms}
    texts = {"event_id": f"e{at_ms}", "producer": "p1", "user_id": "u1", "event_type": "view", "page": "/"}
    return json.dumps(now | texts).encode()


if __name__ == "__main__":
    rehearse(Path(sys.argv[1]))
