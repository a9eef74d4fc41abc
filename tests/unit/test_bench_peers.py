"""Peers: what they print, and their sessions against those that must come."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.bench.drain import Drained, Meter
from penstock.bench.peers.child import run_rounds
from penstock.bench.peers.job import Done, First, Job, mark, write_lookups
from penstock.bench.peers.sessions import SCHEMA, differences, expected, sent
from penstock.bench.side_by_side import Checked, ratios, row
from penstock.errors import PenstockError
from penstock.produce.clickstream import ClickstreamPlan

PLAN = ClickstreamPlan(users=40, products=30, malformed=0.02, invalid=0, delayed=0, late=0, duplicate=0)
EVENTS = 3_000
Row = dict[str, Any]


def session(user: str = "u1", start_ms: int = 1_000, **changed: object) -> Row:
    whole: Row = {
        "user_id": user,
        "start_ms": start_ms,
        "end_ms": start_ms + 500,
        "events": 2,
        "purchases": 1,
        "revenue": 12.5,
        "first_page": "/a",
        "last_page": "/b",
        "segment": "new",
        "country": "FR",
        "top_price": 12.5,
        "last_category": "books",
    }
    return {**whole, **changed}


def table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def test_the_same_sessions_in_another_order_do_not_differ() -> None:
    one, other = session(), session("u2", top_price=None)
    assert differences(table(one, other), table(other, one)) == ()


def test_a_sum_may_be_rounded_on_the_way() -> None:
    assert differences(table(session(revenue=0.3)), table(session(revenue=0.1 + 0.2))) == ()


def test_a_session_that_did_not_come_is_named() -> None:
    assert differences(table(session(), session("u2")), table(session())) == (
        "1 of 2 sessions lost",
        "u2@1000: missing",
    )


def test_a_session_that_nobody_expects_is_named() -> None:
    assert differences(table(session()), table(session(), session("u2"))) == (
        "1 of 1 sessions duplicated or not expected",
        "u2@1000: not expected",
    )


def test_a_session_that_came_twice_is_seen() -> None:
    assert differences(table(session()), table(session(), session())) == (
        "1 of 1 sessions duplicated or not expected",
    )


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("end_ms", 1_501),
        ("events", 3),
        ("purchases", 0),
        ("revenue", 12.51),
        ("first_page", "/b"),
        ("last_page", None),
        ("segment", "loyal"),
        ("country", "PE"),
        ("top_price", None),
        ("last_category", "toys"),
    ],
)
def test_a_wrong_value_is_named(column: str, value: object) -> None:
    right = session()
    count, example = differences(table(right), table({**right, column: value}))
    assert count == "1 of 1 sessions wrong"
    assert example == f"u1@1000: {column} {value!r} instead of {right[column]!r}"


def test_a_session_that_was_cut_in_two_is_wrong_and_one_too_many() -> None:
    came = table(session(events=1, end_ms=1_000), session(start_ms=1_500, events=1))
    told = differences(table(session()), came)
    assert told[:2] == ("1 of 1 sessions duplicated or not expected", "1 of 1 sessions wrong")


def test_what_must_come_is_what_a_plain_loop_makes_of_the_clicks(tmp_path: Path) -> None:
    PLAN.write_reference(tmp_path)
    users = {row["user_id"]: row for row in pq.read_table(tmp_path / "users.parquet").to_pylist()}
    products = {row["product_id"]: row for row in pq.read_table(tmp_path / "catalogue.parquet").to_pylist()}
    clicks: dict[str, list[Row]] = defaultdict(list)
    for click in sent(PLAN, EVENTS).to_pylist():
        clicks[click["user_id"]].append(click)
    # All of it is seconds long: one session a user.
    rows = []
    for user, of_user in clicks.items():
        ordered = sorted(of_user, key=lambda click: click["ts_ms"])
        bought = [click["price"] for click in ordered if click["event_type"] == "purchase"]
        rows.append(
            session(
                user,
                ordered[0]["ts_ms"],
                end_ms=ordered[-1]["ts_ms"],
                events=len(ordered),
                purchases=len(bought),
                revenue=sum(bought),
                first_page=ordered[0]["page"],
                last_page=ordered[-1]["page"],
                segment=users[user]["segment"],
                country=users[user]["country"],
                top_price=max((c["price"] for c in ordered if c["price"] is not None), default=None),
                last_category=products[ordered[-1]["product_id"]]["category"],
            )
        )
    assert len(rows) == PLAN.users
    assert 0 < EVENTS - sum(map(len, clicks.values())) < EVENTS / 10, "the malformed ones are not among them"
    assert differences(table(*rows), expected(PLAN, EVENTS, tmp_path)) == ()


def test_a_line_of_a_round_is_read() -> None:
    assert mark('{"mark":"first"}\n') == First()
    line = '{"mark":"done","events":3000000,"sessions":154500,"seconds":12.5,"committed_s":15.001}\n'
    assert mark(line) == Done(events=3_000_000, sessions=154_500, seconds=12.5, committed_s=15.001)


@pytest.mark.parametrize(
    "line", ["", "\n", "SLF4J: no provider", '{"other":1}', '{"mark":"another"}', 'a {"mark":"first"}']
)
def test_whatever_else_is_printed_is_no_mark(line: str) -> None:
    assert mark(line) is None


def test_reference_data_is_written_as_text(tmp_path: Path) -> None:
    PLAN.write_reference(tmp_path)
    write_lookups(tmp_path, tmp_path / "text")
    lines = (tmp_path / "text" / "users.tsv").read_text().splitlines()
    user = pq.read_table(tmp_path / "users.parquet").to_pylist()[3]
    assert len(lines) == PLAN.users
    assert lines[3].split("\t") == [user["user_id"], user["segment"], user["country"]]
    assert len((tmp_path / "text" / "catalogue.tsv").read_text().splitlines()) == PLAN.products


def child(*lines: str) -> list[str]:
    """A peer that works a little before each line, and then waits to be ended."""
    working = "sum(i * i for i in range(2_000_000))"
    said = "; ".join(f"{working}; print({line!r}, flush=True)" for line in lines)
    return [sys.executable, "-c", f"import time; {said}; time.sleep(600)"]


FIRST = '{"mark":"first"}'
DONE = '{"mark":"done","events":2000,"sessions":7,"seconds":0.5,"committed_s":0.75}'


def job(tmp_path: Path, rounds: int) -> Job:
    return Job("nowhere:9092", "clicks", tmp_path, "sessions", rounds, "at_least_once")


def test_every_round_of_a_child_is_metered_and_the_first_is_not_warm(tmp_path: Path) -> None:
    command = child("a banner", FIRST, DONE, "something else", FIRST, DONE)
    cold, warm = run_rounds("one", job(tmp_path, 2), command, tmp_path / "log")
    assert (cold.warm, warm.warm) == (False, True)
    for measured in (cold, warm):
        assert (measured.job, measured.guarantee) == ("one", "at_least_once")
        assert (measured.events, measured.sessions, measured.seconds) == (2_000, 7, 0.5)
        assert (measured.events_per_s, measured.committed_s) == (4_000, 0.75)
        assert measured.cpu_s_per_million > 0
        assert measured.rss_mb > 0


def test_a_child_that_ends_too_soon_is_told_with_what_it_said_last(tmp_path: Path) -> None:
    script = f"import sys; print('{FIRST}'); sys.exit('no broker there')"
    with pytest.raises(PenstockError, match=r"one has ended before its work was done:\nno broker there"):
        run_rounds("one", job(tmp_path, 1), [sys.executable, "-c", script], tmp_path / "log")


def test_a_child_and_all_that_it_started_is_ended_with_its_rounds(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        "import os, subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{other.pid}}')\n"
        f"print('{FIRST}'); print('{DONE}', flush=True); time.sleep(600)\n"
    )
    run_rounds("one", job(tmp_path, 1), [sys.executable, "-c", script], tmp_path / "log")
    ended = [psutil.Process(int(pid)) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    _, alive = psutil.wait_procs(ended, timeout=10)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def one_round(seconds: float, cpu_s: float, *problems: str) -> Checked:
    return Checked(Drained(1_000, seconds, cpu_s, rss_mb=500.0, sessions=7), problems)


def test_each_peer_is_held_against_the_rounds_of_ours_beside_it() -> None:
    """The machine becomes half as fast before the last peer, and one cannot be had."""
    ours = [one_round(10, 20), one_round(10, 20), one_round(10, 20), one_round(20, 40), one_round(20, 40)]
    peers = {
        "fast": [one_round(8, 16), one_round(8, 20), one_round(8, 30)],
        "missing": [],
        "changing": [one_round(15, 30)],
        "slow": [one_round(40, 40)],
    }
    assert list(ratios(ours, peers)) == [
        "penstock tuned / fast: 0.80 of the throughput, 1.00 of the CPU",
        "penstock tuned / changing: 1.12 of the throughput, 1.00 of the CPU",
        "penstock tuned / slow: 2.00 of the throughput, 1.00 of the CPU",
    ]


def test_a_job_is_as_checked_as_all_of_its_rounds() -> None:
    assert row("fast", "exactly_once", [one_round(8, 16)])["checked"] is True
    assert (
        row("fast", "exactly_once", [one_round(8, 16), one_round(8, 16, "u1@1: missing")])["checked"] is False
    )


def test_cpu_is_counted_between_two_moments() -> None:
    meter = Meter([], _used=[(0.0, 5.0), (1.0, 6.0), (2.0, 10.0)])
    assert meter.cpu_s(0.5, 1.5) == 2.5
