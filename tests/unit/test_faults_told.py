"""What is searched for a password: all that is told, in every form in which it may stand there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock.faults import told
from penstock.faults.scenario import Unmet
from penstock.faults.told import address_in, keep, keep_stream, missing, telling
from penstock.observe.board.alerts import Limits
from penstock.paths import DataDir
from penstock.web.app import Site
from penstock.web.watched import Watch
from tests.pages import served
from tests.runs import Run, write

PASSWORD = "never tell/this"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{PASSWORD}@db:5432/",
        json.dumps({"problem": f"cannot reach me:{PASSWORD}@db"}),
        f"postgresql://me:{quote(PASSWORD, safe='')}@db:5432/",
        f"postgresql://me:{quote(PASSWORD)}@db:5432/",
        "postgresql://db/?password=never+tell%2Fthis",
    ],
)
def test_a_password_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "told").mkdir()
    (tmp_path / "told" / "report.html").write_text(f"<p>{text}</p>")
    (tmp_path / "run.log").write_text("postgresql://me:***@db:5432/ away; waiting")
    assert telling(tmp_path, PASSWORD) == [tmp_path / "told" / "report.html"]


def test_where_something_is_served_is_read_from_what_it_printed() -> None:
    said = "starting Spark ...\nmetrics are at http://127.0.0.1:9109/metrics\nthe page is at http://127.0.0.1:84/\n"
    assert address_in(said) == "http://127.0.0.1:9109/"
    assert address_in("starting Spark ...\n") is None


def test_page_metrics_refusals_and_the_stream_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataDir.at(tmp_path / "data")
    write(data.runs / "clickstream", Run(60, start_ms=int(time.time() * 1000) - 60_000).entries())
    into = tmp_path / "told"
    into.mkdir()
    with served(Site(Watch(data, (), lambda _: None, Limits()))) as port:
        url = f"http://127.0.0.1:{port}/"
        keep(into, url, ("", "about", "metrics", "letters/clickstream"))
        keep_stream(into / "events", f"{url}events?pipeline=clickstream")
        monkeypatch.setattr(told, "_ANSWERS_WITHIN_S", 1.5)
        with pytest.raises(Unmet, match="0 moments"):
            keep_stream(into / "nothing", f"{url}events?pipeline=nobody")
    assert "<!doctype html>" in (into / "index").read_text().lower()
    assert json.loads((into / "about").read_text())["pipelines"] == ["clickstream"]
    assert "penstock_lag_records{" in (into / "metrics").read_text()
    assert "error" in json.loads((into / "letters-clickstream").read_text())
    events = (into / "events").read_text()
    assert "event: snapshot" in events
    assert "event: delta" in events


def test_what_was_not_written_is_missed(tmp_path: Path) -> None:
    for name in ("check.json", "audit.json", "report.html"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "spec.txt").touch()
    assert missing(tmp_path) == ["spec.txt"]
    (tmp_path / "spec.txt").write_text('name = "transactions"')
    (tmp_path / "audit.json").unlink()
    assert missing(tmp_path) == ["audit.json"]
