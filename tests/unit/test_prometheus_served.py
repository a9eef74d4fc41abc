"""Metrics as Prometheus fetches them: from the page, from a pipeline, over real sockets."""

from __future__ import annotations

import socket
import time
import urllib.request
from pathlib import Path
from ssl import CERT_NONE, create_default_context

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from penstock.cli import app
from penstock.observe.board.alerts import Limits
from penstock.observe.journal import Note
from penstock.observe.prometheus.page import registry_of, serve
from penstock.observe.run import RunReader
from penstock.observe.samples import Load, Work
from penstock.paths import DataDir
from penstock.spec import load
from penstock.web.app import Site
from penstock.web.recording import Recording
from penstock.web.watched import Watch, Watched
from tests.pages import secured_place, served
from tests.runs import Run, write
from tests.unit.test_web import TOKEN, Asked

SPEC = load(Path(__file__).parents[2] / "pipelines" / "clickstream.toml", environ={})


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir.at(tmp_path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fetched(port: int) -> dict[str, dict[str, float]]:
    """Values by metric and pipeline; of several the last."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        text = answer.read().decode()
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels["pipeline"]] = sample.value
    return found


def test_the_page_shows_all_pipelines_that_it_watches(data: DataDir) -> None:
    for name, seconds in (("clickstream", 40), ("payments", 20)):
        write(data.runs / name, Run(seconds, name=name, start_ms=now_ms() - seconds * 1000).entries())
    watch = Watch(data, (), lambda name: SPEC if name == "clickstream" else None, Limits(p99_ms=700))
    with served(Site(watch)) as port:
        first = fetched(port)
        assert set(first["penstock_heartbeat_timestamp_seconds"]) == {"clickstream", "payments"}
        assert first["penstock_latency_objective_seconds"] == {"clickstream": 0.7, "payments": 0.7}
        assert set(first["penstock_records_read_total"].values()) == {0}
        write(data.runs / "payments", Run(20, name="payments", start_ms=now_ms()).entries())
        second = fetched(port)
    assert second["penstock_records_read_total"]["payments"] > 10_000
    assert second["penstock_records_read_total"]["clickstream"] == 0


def test_the_token_guards_metrics_as_it_guards_the_page(data: DataDir, tmp_path: Path) -> None:
    unchecked = create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, CERT_NONE
    site = Site(Watch(data, (), lambda _: None, Limits()))
    with served(site, secured_place(tmp_path, TOKEN)) as port:
        page = Asked(port, unchecked)
        assert page.ask("/metrics").status == 401
        assert page.ask("/metrics", Authorization=f"Bearer {TOKEN}").status == 200


def test_a_recording_is_not_now_and_has_no_metrics(tmp_path: Path) -> None:
    write(tmp_path, Run(20).entries())
    with served(Site(Recording.read(tmp_path, None, Limits()))) as port:
        assert fetched(port) == {}


@pytest.fixture
def pipeline(data: DataDir) -> tuple[Path, int]:
    """A run that was before, and the port on which the pipeline shows its metrics itself."""
    run = data.runs / "clickstream"
    write(run, [*Run(30, start_ms=now_ms() - 60_000).entries(), Note(now_ms() - 20_000, "stopped")])
    watched = Watched("clickstream", data, SPEC, Limits(), in_pipeline=True)
    port = serve(registry_of(lambda: [watched.measured(now_ms())]), 0)
    return run, port


def test_a_pipeline_knows_from_its_journal_how_old_what_waits_is_and_counts_its_own_work_only(
    pipeline: tuple[Path, int],
) -> None:
    run, port = pipeline
    before = fetched(port)
    assert before["penstock_lag_seconds"]["clickstream"] > 20
    assert before["penstock_records_read_total"]["clickstream"] == 0
    assert "penstock_resident_memory_bytes" not in before
    write(run, Run(30, start_ms=now_ms()).entries())
    after = fetched(port)
    assert after["penstock_records_read_total"]["clickstream"] > 10_000
    assert after["penstock_resident_memory_bytes"]["clickstream"] > 0
    assert after["penstock_latency_seconds_count"]["clickstream"] > 10_000


def test_samples_can_be_read_from_now_on(tmp_path: Path) -> None:
    write(tmp_path, Run(30).entries())
    reader = RunReader(tmp_path, tail_bytes=0, past_samples=False)
    assert list(reader.new()) == []
    later = Run(30, start_ms=now_ms()).entries()
    write(tmp_path, later)
    found = list(reader.new())
    for kind in (Work, Load, Note):
        assert sum(isinstance(one, kind) for one in found) == sum(isinstance(one, kind) for one in later) > 0


def test_a_port_that_is_taken_is_said_before_anything_starts(data: DataDir) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["run", "clickstream", "--data", str(data.root), "--metrics", port]
        outcome = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert outcome.exit_code == 1
    assert f"metrics cannot be served on port {port}" in outcome.output
    assert not (data.root / "runs" / "clickstream" / "journal.jsonl").exists()


def test_a_port_of_0_is_told(data: DataDir) -> None:
    outcome = CliRunner().invoke(app, ["run", "clickstream", "--data", str(data.root), "--metrics", "0"])
    assert "metrics are at http://127.0.0.1:" in outcome.output
    assert "not running: " in outcome.output  # there are no services here
