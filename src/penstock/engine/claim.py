"""One driver a batch: whoever writes it has said before, for all to see, which records it is of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.errors import Fenced, ReplayDiffers, SinkError, first_line
from penstock.sinks.kafka import (
    CONTROL_TOPIC,
    TransactionalKafkaSink,
    committed,
    position_in,
    positions_group,
)
from penstock.sinks.producer import CALL_TIMEOUT_S, Message
from penstock.sinks.protocol import Batch
from penstock.sinks.topics import QUIET

_NAME = ":claims"
_NO_ROWS = pa.table({})


class BatchClaim:
    """What keeps two drivers on copies of one checkpoint apart.

    Each plans the batches behind the copy by itself, of other records. A sink takes one of them and refuses
    the other; but of several sinks some might take the one and some the other, and then neither driver could
    go on. So a batch is claimed before any sink is given it: a sink's protocol, without rows, on Kafka, which
    fences. It is done while the batch is computed.
    """

    def __init__(self, bootstrap: str, query: str) -> None:
        self._query = query
        # Nothing is lost with the position: a batch that nobody has claimed is for whoever comes.
        self._sink = TransactionalKafkaSink(_NAME, bootstrap, CONTROL_TOPIC, query, _nothing, adopt=True)

    def take(self, batch: int, offsets: Mapping[int, tuple[int, int]]) -> None:
        """Raise if another driver has claimed the batch for other records, or a later one."""
        # Where it ends: where it starts is where the one before ended, or behind what a person has given up.
        ends = sorted((partition, end) for partition, (_, end) in offsets.items())
        of = blake2b(json.dumps(ends).encode(), digest_size=8).hexdigest()
        try:
            self._sink.write(Batch(self._query, batch, _NO_ROWS, of))
        except ReplayDiffers as error:
            raise Fenced(
                f"{self._query}: another driver has batch {batch} already, and of other records",
                hint="It runs on a copy of the checkpoint. Stop one of them; the other one can go on.",
            ) from error
        except SinkError as error:
            text = error.message.replace(f"sink {_NAME}", self._query)
            raise type(error)(text, hint=error.hint) from error

    def close(self) -> None:
        self._sink.close()


def check_not_overtaken(bootstrap: str, query: str, due: int) -> None:
    """Raise if another driver has claimed a later batch than the one that is due here.

    To be asked before a writer is opened: opening one fences whoever is ahead, and then neither could go on.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": positions_group(query, _NAME),
            "enable.auto.commit": False,
            # A claim that a dead driver left half done is not waited for: the next writer ends it.
            "isolation.level": "read_uncommitted",
            **QUIET,
        }
    )
    try:
        [held] = committed(consumer, [TopicPartition(CONTROL_TOPIC, 0)], CALL_TIMEOUT_S)
    except KafkaException as error:
        raise SinkError(f"{query}: cannot see which batches are claimed: {first_line(error)}") from error
    finally:
        consumer.close()
    position = position_in(held)
    if position is not None and position.batch > due:
        raise Fenced(
            f"{query}: batch {position.batch} is claimed, but batch {due} is due: another writer is ahead,"
            " or the checkpoint was rolled back",
            hint="Stop the other driver, or restore the checkpoint that goes with the sinks. Other ways on:"
            " penstock check SPEC",
        )


def _nothing(_rows: pa.Table) -> Iterator[Message]:
    return iter(())
