"""A real Prometheus that scrapes a real pipeline: what it sees, and an alert that fires and is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.observe.board.alerts import LIMITS
from penstock.observe.prometheus.page import registry_of, serve
from penstock.web.watched import Watched
from tests.integration.clicks import NewRig, Rig
from tests.integration.recorded import eventually, has_read_all, running
from tests.prometheus import Prometheus, prometheus, tool

pytestmark = pytest.mark.integration


def served(rig: Rig) -> int:
    """The port of the pipeline's metrics, as `penstock run --metrics` has them."""
    watched = Watched(rig.spec.name, rig.data, rig.spec, LIMITS, in_pipeline=True)
    return serve(registry_of(lambda: [watched.measured(time.time_ns() // 1_000_000)]), 0)


def reaches(seen: Prometheus, expression: str, least: float) -> Callable[[], bool]:
    return lambda: (seen.value(expression) or 0) >= least


def test_a_pipeline_is_scraped_and_its_crash_is_an_alert_until_it_runs_again(
    new_rig: NewRig, tmp_path: Path
) -> None:
    tool("prometheus")  # before anything is started for nothing
    rig = new_rig()
    rig.send(seconds=2.0)
    with prometheus(tmp_path, served(rig)) as seen:
        with running(rig) as recorder:
            eventually(has_read_all(recorder), "all is read")
            eventually(reaches(seen, "penstock_records_read_total", 3_000), "all is counted")
            eventually(lambda: seen.value("penstock_lag_records") == 0, "and nothing waits")
            assert seen.value('up{job="penstock"}') == 1
            assert seen.value("penstock_records_read_total") == 3_000
            decoded = seen.value("penstock_records_decoded_total") or 0
            rejected = seen.value('penstock_records_set_aside_total{kind="rejected"}') or 0
            assert (decoded + rejected, rejected > 0) == (3_000, True)
            p99 = "histogram_quantile(0.99, sum by (le) (penstock_latency_seconds_bucket))"
            assert seen.value(f"{p99} > 0") is not None
            assert seen.value("max(penstock_latency_seconds_count)") == seen.value(
                'max(penstock_latency_seconds_bucket{le="+Inf"})'
            )
            assert seen.value("min(penstock_broker_up)") == 1
            eventually(reaches(seen, 'penstock_cpu_seconds_total{process="jvm"}', 0.01), "CPU is told")
            eventually(reaches(seen, "penstock_state_rows_updated_total", 1), "Spark's report is told")
            assert "PipelineCrashed" not in seen.firing()

        eventually(lambda: "PipelineCrashed" in seen.firing(), "its end is an alert")
        alert = seen.firing()["PipelineCrashed"]
        assert alert["labels"]["pipeline"] == rig.spec.name
        assert alert["labels"]["severity"] == "critical"
        assert alert["annotations"]["summary"] == f"{rig.spec.name} crashed"

        rig.send(seconds=1.0)
        with running(rig):
            eventually(lambda: "PipelineCrashed" not in seen.firing(), "the alert is over")
            eventually(reaches(seen, "penstock_records_read_total", 4_500), "counting goes on")
