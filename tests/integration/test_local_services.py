"""The embedded services as a whole: restarts, kill -9, stale files, and who dies with whom."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import clickhouse_connect
import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.errors import ServiceError
from penstock.local.process import Child
from penstock.local.services import Addresses, Services
from penstock.paths import DataDir

pytestmark = pytest.mark.integration


@pytest.fixture
def root() -> Iterator[Path]:
    """A data directory of this test alone.

    Not pytest's: every run of pytest closes that one to other users again, and PostgreSQL, which does not run
    as root, is another user when the tests are root's.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as root:
        yield Path(root)


@pytest.fixture
def own(root: Path) -> Iterator[Services]:
    """Services of this test alone, not started."""
    services = Services(DataDir.at(root), tie_to_parent=True)
    yield services
    services.stop()


def kill(services: Services, name: str) -> None:
    for child in services._known[name].children:
        process = child.process()
        assert process is not None
        process.kill()
        child.wait_until_gone(10)


def clickhouse(address: str, sql: str) -> object:
    where = urlsplit(address)
    with clickhouse_connect.get_client(host=where.hostname or "", port=where.port or 0) as client:
        return client.command(sql)


def produce_one(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("kept", 1)])["kept"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("kept", b"one")
    assert producer.flush(30) == 0


def consume_one(bootstrap: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    return message.value() if message else None


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_postgres_keeps_what_was_committed(services: Addresses) -> None:
    with psycopg.connect(services.postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n int primary key, t timestamptz, s text)")
        with connection.cursor() as cursor, cursor.copy("COPY kept FROM STDIN") as copy:
            for n in range(1000):
                copy.write_row((n, "2026-01-02 03:04:05.678901+00", "naïve 🚰"))
    with psycopg.connect(services.postgres) as connection:
        assert connection.execute("SELECT count(*), max(s) FROM kept").fetchone() == (1000, "naïve 🚰")


def test_each_service_survives_kill_9_with_its_data_and_its_address(own: Services) -> None:
    first = own.start()
    produce_one(first.kafka)
    clickhouse(first.clickhouse, "CREATE TABLE kept (n UInt8) ENGINE = MergeTree ORDER BY n")
    clickhouse(first.clickhouse, "INSERT INTO kept VALUES (1)")
    with psycopg.connect(first.postgres) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    for name in ("kafka", "clickhouse", "postgres"):
        kill(own, name)
    assert {status.state for status in own.status()} == {"crashed"}
    assert own.revive() == ["kafka-1", "clickhouse", "postgres"]
    assert own.addresses() == first
    assert consume_one(first.kafka) == b"one"
    assert clickhouse(first.clickhouse, "SELECT sum(n) FROM kept") == 1
    with psycopg.connect(first.postgres) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)


def test_postgres_starts_again_though_a_session_outlives_the_killed_server(root: Path) -> None:
    own = Services(DataDir.at(root), tie_to_parent=True, only=["postgres"])
    with psycopg.connect(own.start().postgres) as connection:
        session = psutil.Process(connection.info.backend_pid)
        session.suspend()
        kill(own, "postgres")
        threading.Timer(2.0, session.kill).start()
        assert own.revive() == ["postgres"]
    with psycopg.connect(own.addresses().postgres) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    own.stop()


def test_a_second_start_reuses_what_runs_and_a_stop_can_be_repeated(own: Services) -> None:
    own.start()
    pids = [status.pid for status in own.status()]
    again = Services(own.data)
    again.start()
    assert [status.pid for status in again.status()] == pids
    assert all(status.data_bytes > 0 and status.since for status in again.status()[:1])
    again.stop()
    again.stop()
    assert [status.state for status in own.status()] == ["stopped"] * 3
    assert [is_gone(pid) for pid in pids if pid] == [True] * 3


def test_two_commands_that_start_at_once_start_each_service_once(root: Path) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(root), "loose"], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        pids = {starter.stdout.readline() for starter in both if starter.stdout}
        assert len(pids) == 1
    finally:
        for starter in both:
            starter.kill()
            starter.wait()
        Services(DataDir(root)).stop()


def test_a_port_taken_by_another_program_is_left_to_it(root: Path) -> None:
    services = Services(DataDir.at(root), tie_to_parent=True, only=["clickhouse"])
    port = urlsplit(services.start().clickhouse).port
    services.stop()
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", port or 0))
        foreign.listen()
        try:
            assert urlsplit(services.start().clickhouse).port != port
        finally:
            services.stop()


def test_a_service_that_ends_at_once_is_an_error_with_its_last_words(root: Path) -> None:
    services = Services(DataDir.at(root), tie_to_parent=True, only=["postgres"])
    services.start()
    services.stop()
    (root / "services" / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(ServiceError, match="incompatible with server") as raised:
        services.start()
    assert "postgres ended while starting" in raised.value.message


STARTER = """
import signal, sys, time
from pathlib import Path
from penstock.local.services import Services
from penstock.paths import DataDir
# In the background of a shell Ctrl-C is ignored, by children too.
signal.signal(signal.SIGINT, signal.default_int_handler)
services = Services(DataDir.at(Path(sys.argv[1])), tie_to_parent=sys.argv[2] == "tied", only=["clickhouse"])
services.start()
print(services.status()[0].pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("tie", ["tied", "loose"])
def test_services_tied_to_their_starter_end_when_it_is_killed_and_others_stay(root: Path, tie: str) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(root), tie], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    child = Child("clickhouse", root / "services" / "clickhouse", root / "logs" / "clickhouse.log")
    assert child.is_alive()
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    if tie == "tied":
        child.wait_until_gone(30)
        assert not child.is_alive()
    else:
        time.sleep(2)
        assert child.is_alive()
        Services(DataDir(root), only=["clickhouse"]).stop()
    assert is_gone(pid)


def test_an_interrupted_start_leaves_nothing_running(root: Path) -> None:
    script = STARTER.replace('only=["clickhouse"]', 'only=["kafka", "clickhouse"]')
    starter = subprocess.Popen([sys.executable, "-c", script, str(root), "tied"], stderr=subprocess.DEVNULL)
    child = Child("clickhouse", root / "services" / "clickhouse", root / "logs" / "clickhouse.log")
    deadline = time.monotonic() + 30
    while not child.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    starter.send_signal(signal.SIGINT)
    starter.wait(60)
    assert [status.state for status in Services(DataDir(root)).status()] == ["stopped"] * 3


def test_a_statement_that_runs_when_clickhouse_is_stopped_is_finished(root: Path) -> None:
    services = Services(DataDir.at(root), tie_to_parent=True, only=["clickhouse"])
    address = services.start().clickhouse
    clickhouse(address, "CREATE TABLE slow (n UInt64) ENGINE = MergeTree ORDER BY n")
    insert = "INSERT INTO slow SELECT number + sleepEachRow(0.5) FROM numbers(2)"
    script = f"import urllib.request as u; print(u.urlopen({address!r}, data={insert.encode()!r}).status)"
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    time.sleep(0.6)
    services.stop()
    assert client.communicate(timeout=30)[0].strip() == "200"
    try:
        assert clickhouse(services.start().clickhouse, "SELECT count() FROM slow") == 2
    finally:
        services.stop()
