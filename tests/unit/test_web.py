"""The page's server, as a browser meets it: real sockets, a run on disk."""

from __future__ import annotations

import fcntl
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from ssl import CERT_NONE, SSLContext, create_default_context
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import PenstockError
from penstock.observe.board.alerts import Limits
from penstock.observe.run import is_held
from penstock.paths import DataDir
from penstock.spec import load
from penstock.web.app import STATIC, Site
from penstock.web.recording import Playback, Recording
from penstock.web.server import Place
from penstock.web.stream import Clock
from penstock.web.watched import Watch
from tests.pages import secured_place, served
from tests.runs import START_MS, Run, write

TOKEN = "a-token-of-sixteen-or-more"
SPEC = load(Path(__file__).parents[2] / "pipelines" / "clickstream.toml", environ={})


@dataclass
class Asked:
    """A server, asked as a browser would."""

    port: int
    tls: SSLContext | None = None

    def connect(self) -> HTTPConnection:
        if self.tls is not None:
            return HTTPSConnection("127.0.0.1", self.port, timeout=20, context=self.tls)
        return HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        connection = self.connect()
        connection.request(
            method, path, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )
        answer = connection.getresponse()
        answer.body = answer.read()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def json(self, path: str) -> Any:
        return json.loads(self.ask(path).body)  # type: ignore[attr-defined]

    def messages(self, query: str, wanted: int, last_id: str = "") -> list[tuple[str, Any, str]]:
        """The first messages of a stream: kind, content, id."""
        connection = self.connect()
        found: list[tuple[str, Any, str]] = []
        connection.request("GET", f"/events?{query}", headers={"last-event-id": last_id} if last_id else {})
        stream = connection.getresponse()
        assert stream.getheader("content-type", "").startswith("text/event-stream")
        said: dict[str, str] = {}
        while len(found) < wanted:
            line = stream.readline().decode().rstrip("\n")
            if line:
                name, _, text = line.partition(": ")
                said[name] = text
            else:
                if "data" in said:
                    found.append((said["event"], json.loads(said["data"]), said.get("id", "")))
                said = {}
        connection.close()
        return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """A run that ended just now."""
    data = DataDir.at(tmp_path_factory.mktemp("data"))
    start_ms = int(time.time() * 1000) - 60_000
    write(data.runs / "clickstream", Run(60, start_ms=start_ms).entries())
    return data


@pytest.fixture(scope="module")
def page(data: DataDir) -> Iterator[Asked]:
    watch = Watch(data, (), lambda _: SPEC, Limits())
    with served(Site(watch, lambda _: "127.0.0.1:1"), Place(port=0, names=("pipes.example",))) as port:
        yield Asked(port)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    run = tmp_path_factory.mktemp("recorded")
    write(run, Run(120).entries())
    return Recording.read(run, None, Limits())


def test_the_first_message_is_a_snapshot_with_history_then_come_small_deltas(page: Asked) -> None:
    cards, snapshot, again, delta = page.messages("pipeline=clickstream", 4)
    assert (cards[0], snapshot[0], again[0], delta[0]) == ("cards", "snapshot", "cards", "delta")
    assert [card["name"] for card in cards[1]] == ["clickstream"]
    assert len(snapshot[1]["fine"]["at_ms"]) > 40
    assert snapshot[1]["marks"]
    assert "coarse" not in delta[1]
    assert len(json.dumps(delta[1])) < len(json.dumps(snapshot[1])) / 2


def test_who_comes_back_gets_what_was_missed_and_no_second_snapshot(page: Asked) -> None:
    *_, (_, _, id_) = page.messages("pipeline=clickstream", 2)
    back = page.messages("pipeline=clickstream", 2, last_id=id_)
    other = page.messages("pipeline=clickstream", 2, last_id="of-another-process/1/clickstream")
    assert back[1][0] == "delta"
    assert other[1][0] == "snapshot"


def test_sinks_come_with_their_guarantees(page: Asked) -> None:
    _, (_, snapshot, _) = page.messages("pipeline=clickstream", 2)
    told = {sink["name"]: sink["facts"]["guarantee"] for sink in snapshot["glance"]["sinks"]}
    assert told == {sink.name: sink.guarantee for sink in SPEC.sink}


def test_no_address_and_no_password_is_sent(data: DataDir) -> None:
    secret = {"kafka": "broker.example:9092", "clickhouse": "http://me:hunter2@click.example:8123"}
    spec = SPEC.model_copy(update={"services": SPEC.services.model_copy(update=secret)})
    with served(Site(Watch(data, (), lambda _: spec, Limits()), lambda _: "127.0.0.1:1")) as port:
        sent = json.dumps(Asked(port).messages("pipeline=clickstream", 4))
    assert "clicks" in sent
    assert not [word for word in ("hunter2", "example", ":9092", "127.0.0.1") if word in sent]


def test_a_run_that_begins_later_appears_by_itself(tmp_path: Path) -> None:
    data = DataDir.at(tmp_path)
    with served(Site(Watch(data, (), lambda _: None, Limits()))) as port:
        page = Asked(port)
        assert page.messages("", 1)[0][1] == []
        write(data.runs / "later", Run(30, name="later").entries())
        assert [card["name"] for card in page.messages("", 1)[0][1]] == ["later"]


@pytest.mark.parametrize("path", ["/", "/about", "/static/main.js", "/nothing"])
def test_every_answer_says_what_a_browser_may_not_do(page: Asked, path: str) -> None:
    headers = page.ask(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_allowed(page: Asked, method: str) -> None:
    assert page.ask("/", method).status == 405


def test_asking_for_the_head_of_a_stream_does_not_begin_one(page: Asked) -> None:
    assert page.ask("/events?pipeline=clickstream", "HEAD").status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8400", 200), ("localhost:8400", 200), ("localhost", 200), ("[::1]:8400", 200),
        ("10.1.2.3", 200), ("pipes.example:8400", 200), ("PIPES.example", 200), ("evil.example:8400", 421),
        ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421), ("[evil]:8400", 421),
    ],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_refused(page: Asked, host: str, status: int) -> None:
    assert page.ask("/about", Host=host).status == status


def test_nothing_outside_the_static_directory_is_served(page: Asked) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert page.ask(path).status == 404


def test_letters_say_clearly_that_kafka_is_away(page: Asked) -> None:
    answer = page.ask("/letters/clickstream/not-a-place")
    assert answer.status == 503
    assert "expected a partition and an offset" in json.loads(answer.body)["error"]  # type: ignore[attr-defined]
    assert page.ask("/letters/unknown").status == 404


def test_all_that_the_page_loads_is_its_own() -> None:
    for file in [*STATIC.glob("*.html"), *STATIC.glob("*.js"), *STATIC.glob("*.css")]:
        text = file.read_text().replace("http://www.w3.org/", "")
        assert "http://" not in text, file
        assert "https://" not in text, file
        assert " style=" not in text, file
        assert "innerHTML" not in text, file
    assert "MIT" in (STATIC / "vendor" / "uPlot.LICENSE").read_text()


def test_a_recording_plays_from_any_moment_and_asking_changes_nothing(recording: Recording) -> None:
    with served(Site(recording)) as port:
        page = Asked(port)
        at_ms = START_MS + 60_000
        first, second = (page.messages(f"at={at_ms}&speed=0", 3) for _ in range(2))
    assert [kind for kind, _, _ in first] == ["cards", "replay", "snapshot"]
    assert first[1][1] == {"start_ms": START_MS, "end_ms": recording.end_ms, "at_ms": at_ms, "speed": 0}
    assert first[2][1]["glance"]["now_ms"] == at_ms
    assert max(first[2][1]["fine"]["at_ms"]) <= at_ms
    assert first == second


def test_a_recording_goes_on_at_its_speed_and_stops_at_its_end() -> None:
    now = 0.0
    clock = Clock(1_000, 61_000, 11_000, 10, seconds=lambda: now)
    now = 2.0
    assert clock.now_ms() == 31_000
    now = 200.0
    assert clock.now_ms() == 61_000
    assert Clock(1_000, 61_000, 99_000_000, 0, seconds=lambda: now).now_ms() == 61_000


def test_a_journal_alone_can_be_replayed_under_any_name(tmp_path: Path, recording: Recording) -> None:
    write(tmp_path, Run(120).entries())
    moved = (tmp_path / "journal.jsonl").rename(tmp_path / "friday-night.jsonl")
    alone = Recording.read(moved, None, Limits())
    assert alone.name == recording.name == "clickstream"
    assert recording.samples is not None
    assert alone.samples is None
    assert Playback(alone, alone.end_ms).picture(alone.end_ms).glance.batch is not None


def test_nothing_recorded_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="nothing is recorded"):
        Recording.read(tmp_path, None, Limits())


def test_whether_a_pipeline_lives_is_seen_by_its_lock_without_taking_it(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    assert is_held(lock) is None
    with lock.open("w") as held:
        assert is_held(lock) is False
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_held(lock) is True
    assert is_held(lock) is False


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (Place(host="0.0.0.0"), "needs --tls-cert and --tls-key and a token"),  # noqa: S104
        (Place(host="box.example", token=TOKEN), "a token needs --tls-cert"),
        (Place(host="10.0.0.1", certificate=Path("c"), key=Path("k")), "needs a token"),
        (Place(certificate=Path("c")), "belong together"),
        (Place(certificate=Path("c"), key=Path("k"), token="short"), "16 or more"),
    ],
)
def test_others_are_let_in_only_with_encryption_and_a_token(place: Place, problem: str) -> None:
    with pytest.raises(PenstockError, match=problem):
        place.check()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_this_machine_needs_neither(host: str) -> None:
    Place(host=host).check()


def test_a_taken_port_is_said_so_and_the_next_free_one_is_found() -> None:
    with Place().bind() as first:
        taken = first.getsockname()[1]
        first.listen()
        with Place().bind() as second:
            assert second.getsockname()[1] > taken
        with pytest.raises(PenstockError, match=f"port {taken}"):
            Place(port=taken).bind()


@pytest.fixture(scope="module")
def secured(data: DataDir, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    place = secured_place(tmp_path_factory.mktemp("tls"), TOKEN)
    unchecked = create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, CERT_NONE
    site = Site(Watch(data, (), lambda _: SPEC, Limits()))
    with served(site, place) as port:
        yield Asked(port, unchecked)


def test_without_the_token_there_is_only_the_page_that_asks_for_it(secured: Asked) -> None:
    for path in ("/about", "/events", "/letters/clickstream", "/session", "/static/main.js"):
        assert secured.ask(path).status == 401
    login = secured.ask("/")
    assert login.status == 401
    assert b"token" in login.body  # type: ignore[attr-defined]
    assert secured.ask("/static/login.js").status == 200
    assert secured.ask("/about", Authorization="Bearer wrong").status == 401


def test_the_token_is_given_once_and_a_cookie_stands_for_it(secured: Asked) -> None:
    answer = secured.ask("/session", Authorization=f"Bearer {TOKEN}")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert secured.ask("/about", Cookie=cookie.split(";")[0]).status == 200
    assert secured.ask("/about", Cookie="__Host-penstock=guess").status == 401


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "10.0.0.1"], "lets other machines in; that needs --tls-cert and --tls-key and a token"),
        (["--replay", "/nowhere"], "nothing is recorded in /nowhere"),
        (["--objective", "soon"], '"soon"'),
        (["--token-file", "/nowhere"], "the token file /nowhere cannot be read"),
        (["no-such-pipeline"], "no shipped pipeline of that name"),
    ],
)  # fmt: skip
def test_the_command_says_what_is_wrong_before_it_listens(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, ["web", *words], env={"COLUMNS": "200"})
    assert outcome.exit_code in (1, 2)
    assert said in outcome.output
    assert list(tmp_path.iterdir()) == []


def test_a_listener_is_on_this_machine_only() -> None:
    with Place().bind() as listener:
        assert listener.family == socket.AF_INET
        assert listener.getsockname()[0] == "127.0.0.1"
