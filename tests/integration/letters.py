"""Dead letters in topics of a test's own."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from confluent_kafka import Message, Producer
from typer.testing import CliRunner, Result

from penstock.audit.topic import read_topic
from penstock.cli import app
from penstock.deadletters.box import LetterBox, letter_sink
from penstock.deadletters.letter import Letter, letter_of
from penstock.deadletters.marks import Marks, marks_topic
from penstock.deadletters.originals import REPLAYED_HEADER
from penstock.deadletters.reader import Reader
from penstock.deadletters.replay import Outcome, Replay
from penstock.local.services import Addresses
from penstock.sinks.encode import dead_letters
from penstock.sinks.kafka import CONTROL_TOPIC, TransactionalKafkaSink
from penstock.sinks.protocol import Batch
from penstock.sinks.topics import ensure_topics
from penstock.spec import PipelineSpec
from tests.integration.clicks import clickstream

PARTITIONS = 3
NEGATIVE = "condition: price_not_negative does not hold"


@dataclass
class Place:
    """A pipeline's topics of their own: records in the source, dead letters of some of them."""

    kafka: str
    settings: dict[str, str]
    data: Path
    batches: int = 0
    values: list[bytes] = field(default_factory=list)

    @property
    def spec(self) -> PipelineSpec:
        return clickstream(**self.settings)

    @property
    def source(self) -> str:
        return self.settings["source.topic"]

    @property
    def dead(self) -> str:
        return self.settings["sink.dead-letters.topic"]

    def command(self, *arguments: str) -> list[str]:
        name, *rest = arguments
        sets = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        return ["dead-letters", name, "clickstream", *rest, *sets, "--data", str(self.data)]

    def run(self, *arguments: str, status: int = 0) -> str:
        """What the command prints, on one line."""
        result: Result = CliRunner().invoke(app, self.command(*arguments))
        assert result.exit_code == status, (result.output, result.exception)
        return re.sub(r"\s+", " ", click.unstyle(result.output))

    def run_json(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        out = self.data / f"{uuid.uuid4()}.json"
        self.run(*arguments, "--json", str(out), status=status)
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def send(self, values: list[bytes]) -> list[Message]:
        """Records into the source's topic, each with a key and a header, as they stand there."""
        there: list[Message] = []
        producer = Producer({"bootstrap.servers": self.kafka})
        for n, value in enumerate(values):
            producer.produce(
                self.source,
                value=value,
                key=f"u{n % 7}",
                headers=[("trace", b"%d" % n)],
                on_delivery=lambda _, message: there.append(message),
            )
        assert producer.flush(30) == 0
        self.values += values
        return there

    def set_aside(
        self, records: list[Message], kind: str = "rejected", reason: str = NEGATIVE, query: str | None = None
    ) -> None:
        """Dead letters of these records, by the sink that a pipeline writes them with."""
        rows = pa.table(
            {
                "kind": pa.array([kind] * len(records), pa.string()),
                "reason": pa.array([reason] * len(records), pa.string()),
                "partition": pa.array([record.partition() for record in records], pa.int32()),
                "offset": pa.array([record.offset() for record in records], pa.int64()),
                "raw": pa.array([record.value() for record in records], pa.binary()),
                "query": pa.array([query or self.spec.name] * len(records), pa.string()),
                "batch": pa.array([self.batches] * len(records), pa.int64()),
            }
        )
        name = f"{query or self.spec.name}-dead"
        sink = TransactionalKafkaSink(
            name, self.kafka, self.dead, "test", dead_letters(self.source), adopt=True
        )
        sink.write(Batch.of("test", self.batches, rows))
        sink.close()
        self.batches += 1

    def replayed(self) -> list[Message]:
        """The records that replays have put into the source's topic, as a committed reader sees them."""
        return [
            message
            for message in read_topic(self.kafka, self.source)
            if REPLAYED_HEADER in dict(message.headers() or ())
        ]

    def letters(self) -> list[Letter]:
        return [letter for m in read_topic(self.kafka, self.dead) if (letter := letter_of(m)) is not None]


def headers(message: Message) -> list[tuple[str, bytes]]:
    return list(message.headers() or [])  # type: ignore[arg-type]


def new_place(services: Addresses, directory: Path) -> Place:
    """Topics of a test's own."""
    name = f"d{uuid.uuid4().hex[:8]}"
    settings = {
        "name": name,
        "source.topic": f"{name}-clicks",
        "source.partitions": str(PARTITIONS),
        "sink.dead-letters.topic": f"{name}-dead",
        "services.kafka": services.kafka,
    }
    topics = {CONTROL_TOPIC: 1, settings["source.topic"]: PARTITIONS}
    ensure_topics(services.kafka, {**topics, settings["sink.dead-letters.topic"]: PARTITIONS})
    return Place(services.kafka, settings, directory)


def events(count: int, start: int = 0) -> list[bytes]:
    return [b'{"user_id":"u%d","n":%d,"price":-1}' % (n % 7, n) for n in range(start, start + count)]


def replay_all(
    kafka: str, spec: PipelineSpec, on_page: Callable[[Outcome], object] = lambda _: None
) -> Outcome:
    """All letters of a pipeline, replayed without the command around it."""
    sink = letter_sink(spec)
    with Reader(kafka) as reading, Reader(kafka) as lookups:
        box, marks = LetterBox(reading, spec, sink), Marks(lookups, sink.topic)
        replay = Replay(kafka, sink.topic, marks, lookups)
        for outcome in replay.run(box.letters(box.extent())):
            on_page(outcome)
        return replay.outcome


def assert_all_replayed_once(place: Place) -> None:
    wanted = Counter(letter.value for letter in place.letters())
    assert Counter(message.value() for message in place.replayed()) == wanted
    marks = list(read_topic(place.kafka, marks_topic(place.dead)))
    assert len(marks) == len({mark.key() for mark in marks}) == wanted.total()
