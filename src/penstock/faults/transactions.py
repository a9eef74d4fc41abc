"""Transactions that nobody ends."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from penstock.faults.program import until
from penstock.faults.rivals import FENCED
from penstock.faults.scenario import Unmet
from penstock.faults.trial import RECOVERED_WITHIN_S, Trial
from penstock.sinks.topics import QUIET
from penstock.spec import KafkaSink

_TRANSACTION_WITHIN_S = 60.0
_NOTICES_WITHIN_S = 40.0
_FOREIGN_TIMEOUT_MS = 8_000
_ANSWER_WITHIN_S = 30

Place = tuple[str, int]


def hanging_foreign(trial: Trial) -> None:
    """Leave a transaction of a stranger open in a sink's topic: readers wait until the cluster ends it."""
    trial.await_some_batches()
    [topic, *_] = _topics(trial)
    stranger = Producer(
        {
            "bootstrap.servers": trial.at.kafka,
            "transactional.id": f"stranger-{trial.chance.getrandbits(32)}",
            "transaction.timeout.ms": _FOREIGN_TIMEOUT_MS,
            **QUIET,
        }
    )
    stranger.init_transactions(_ANSWER_WITHIN_S)
    stranger.begin_transaction()
    stranger.produce(topic, b"{}", partition=trial.chance.randrange(trial.spec.source.partitions))
    stranger.flush(_ANSWER_WITHIN_S)
    trial.strike()
    _await_readable(trial, [topic])
    trial.recover()


def hanging_own(trial: Trial) -> None:
    """Freeze a driver inside a transaction until the cluster ends it, and thaw: the batch comes again."""
    trial.await_some_batches()
    trial.hit(trial.host.await_transaction(_TRANSACTION_WITHIN_S))
    trial.host.program.freeze()
    trial.strike()
    _await_readable(trial, _topics(trial))
    trial.host.program.thaw()
    # It cannot tell the cluster's doing from a newer writer's, so it may stop.
    if (status := trial.host.program.await_end(_NOTICES_WITHIN_S)) is not None:
        trial.check_refusal(trial.host.program, status, FENCED)
        trial.host.start()
    trial.recover()


def _topics(trial: Trial) -> list[str]:
    return [s.topic for s in trial.spec.sink if isinstance(s, KafkaSink) and s.guarantee == "exactly_once"]


def _await_readable(trial: Trial, topics: Sequence[str]) -> None:
    """Wait until readers with read_committed get to what is the end of the topics now."""
    admin = AdminClient({"bootstrap.servers": trial.at.kafka, **QUIET})
    places = [(topic, partition) for topic in topics for partition in range(trial.spec.source.partitions)]
    ends = _ends(admin, places, IsolationLevel.READ_UNCOMMITTED)
    began_s = time.monotonic()
    while any(
        end < ends[place] for place, end in _ends(admin, places, IsolationLevel.READ_COMMITTED).items()
    ):
        if not until(began_s + RECOVERED_WITHIN_S):
            raise Unmet(f"readers of {', '.join(topics)} are held up for {RECOVERED_WITHIN_S:.0f} s")
    trial.chose = f"readers waited for {time.monotonic() - began_s:.0f} s"


def _ends(admin: AdminClient, places: Sequence[Place], level: IsolationLevel) -> dict[Place, int]:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    told = admin.list_offsets({TopicPartition(*place): latest for place in places}, isolation_level=level)
    return {(at.topic, at.partition): answer.result(_ANSWER_WITHIN_S).offset for at, answer in told.items()}
