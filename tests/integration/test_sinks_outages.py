"""Stores that are killed while they are written to. Numbers in brackets are the invariants of protocol.py."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer

import psutil
import pytest

from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from penstock.local.services import Services
from penstock.paths import DataDir
from penstock.sinks.clickhouse import clickhouse_answers
from penstock.sinks.postgres import postgres_answers
from penstock.sinks.protocol import Batch
from penstock.sinks.topics import kafka_answers
from tests.integration.places.place import Place, eventually, new_place
from tests.integration.places.stores import STORES

pytestmark = pytest.mark.integration

ANSWERS: dict[str, Callable[[str], bool]] = {
    "kafka": kafka_answers,
    "clickhouse": clickhouse_answers,
    "postgres": postgres_answers,
}


class Mortal:
    """A store of the test's own, to be killed."""

    def __init__(self, store: str, services: Services, place: Place) -> None:
        self.place = place
        self._store = store
        self._services = services

    def answers(self) -> bool:
        return ANSWERS[self._store](self.place.address)

    def kill(self) -> None:
        [status] = self._services.status()
        assert status.pid is not None
        server = psutil.Process(status.pid)
        family = [server, *server.children()]
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=30)

    def revive(self) -> None:
        assert self._services.revive()


@pytest.fixture(params=STORES)
def mortal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mortal]:
    store: str = request.param
    # Kafka's client waits that long for a broker to come back.
    monkeypatch.setattr("penstock.sinks.kafka.CALL_TIMEOUT_S", 5.0)
    monkeypatch.setattr("penstock.sinks.producer.CALL_TIMEOUT_S", 5.0)
    monkeypatch.setattr("penstock.sinks.topics._CALL_TIMEOUT_S", 5.0)
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as directory:
        services = Services(DataDir.at(Path(directory)), tie_to_parent=True, only=(store,))
        try:
            address = getattr(services.start(), store)
            with new_place(STORES[store], address) as place:
                yield Mortal(store, services, place)
        finally:
            services.stop()


def comes_through(place: Place, batch: Batch) -> bool:
    """Whether the batch is there now: a store that has just come back may still be busy with itself."""
    try:
        place.write(batch)
    except SinkError as error:
        if isinstance(error, Fenced | PositionLost | ReplayDiffers):
            raise
        logging.getLogger(__name__).warning("not yet: %s", error)
        return False
    return True


def test_a_batch_that_failed_because_the_server_was_killed_goes_through_once_it_is_back(
    mortal: Mortal,
) -> None:
    # [4]
    place = mortal.place
    sink = place.writer()
    sink.write(place.batch(0))
    assert mortal.answers()
    mortal.kill()
    assert not mortal.answers()
    with pytest.raises(SinkError):
        sink.write(place.batch(1))
    with pytest.raises(SinkError):
        place.write(place.batch(1))
    mortal.revive()
    with closing(place.beside()) as after:
        eventually(partial(comes_through, after, place.batch(1)))
        after.write(place.batch(2))
        assert after.holds(place.batch(0), place.batch(1), place.batch(2))


# Not ClickHouse: a server that is killed may forget what it acknowledged last (3 in 754). Not Kafka, which
# takes 12 s to come back: the faults kill brokers.
@pytest.mark.faults
@pytest.mark.parametrize(("mortal", "rounds"), [("postgres", 5)], indirect=["mortal"])
def test_a_server_killed_at_any_moment_keeps_what_it_acknowledged_and_nothing_twice(
    mortal: Mortal, rounds: int
) -> None:
    random = Random(7)
    due = 0
    for _ in range(rounds):
        eventually(partial(comes_through, mortal.place, mortal.place.batch(due)))
        killer = Timer(random.uniform(0, 0.4), mortal.kill)
        killer.start()
        with pytest.raises(SinkError), closing(mortal.place.writer()) as sink:  # noqa: PT012 - when it fails
            while True:
                due += 1
                sink.write(mortal.place.batch(due))
        killer.join()
        mortal.revive()
        with closing(mortal.place.beside()) as after:
            held = after.position()
            assert held in (due - 1, due)
            # A broker that is back first ends the transactions that were decided when it died.
            eventually(partial(after.holds, *(after.batch(number) for number in range(held + 1))))
