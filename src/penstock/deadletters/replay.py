"""Records of dead letters back into the topic they came from, each once.

Invariants:

1. A record and its mark are in one transaction: both are there, or neither is.
2. All replays of a topic of dead letters share one transactional id. A page begins with a new producer, which
   fences every earlier one and waits until its transaction is over; only then are the marks read, to their
   end. So a record without a mark has not been replayed, and nobody else can be about to.
3. After an error or an unknown outcome the producer is thrown away; what became of the page is in the marks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.deadletters.letter import Letter
from penstock.deadletters.marks import Marks, mark_of, marks_topic
from penstock.deadletters.originals import REPLAYED_HEADER, Original, Originals
from penstock.deadletters.reader import Reader
from penstock.errors import Fenced, ServiceError
from penstock.sinks.producer import Deliveries, Message, commit, is_fenced, send, transactional_producer
from penstock.sinks.topics import ensure_compacted_topic

_PAGE_RECORDS = 500
_PAGE_BYTES = 16_000_000
_PROBLEMS_KEPT = 20

_TRANSACTION_TIMEOUT_MS = 15_000
"""An open transaction holds the topic's committed readers back, the pipeline first of all. One that a killed
replay left open ends after this long, or with the next replay."""

_ABORT_TIMEOUT_S = 5.0
_RECORD_REFUSED = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD)


@dataclass
class Outcome:
    """What a replay has done so far."""

    selected: int = 0
    replayed: int = 0
    already_replayed: int = 0
    failed: int = 0
    without_key: int = 0
    """Of the replayed, those whose original retention has taken, and its key and headers with it."""
    problems: list[str] = field(default_factory=list)
    """Why records failed, the first of them."""


class Replay:
    """Sends the records of dead letters to the source's topic again.

    Lost: nothing; what was not replayed has no mark, and the same command replays it. Duplicated: nothing,
    for readers with isolation.level=read_committed. Delayed: a page is visible as a whole.
    """

    def __init__(self, bootstrap: str, topic: str, marks: Marks, reader: Reader) -> None:
        self._bootstrap = bootstrap
        self._letters_topic = topic
        self._marks = marks
        self._reader = reader
        self.outcome = Outcome()

    def run(self, letters: Iterable[Letter]) -> Iterator[Outcome]:
        """Replay page by page, and tell after each; whoever stops asking stops the replay."""
        ensure_compacted_topic(self._bootstrap, marks_topic(self._letters_topic))
        for page in pages(letters):
            self.outcome.selected += len(page)
            # Most of a page is known to be replayed when a replay is run again: no transaction for those.
            unmarked = self._unmarked(self._records(page))
            if unmarked:
                self._send(unmarked)
            yield self.outcome

    def _records(self, letters: list[Letter]) -> list[Letter]:
        """Those that can be sent again; a row that a sink refused is no record, and half a record is none."""
        for letter in letters:
            if not letter.is_record:
                what = "a row that a sink refused" if letter.kind == "refused" else "cut: it was too large"
                self._failed(letter, f"{what}; no record to replay")
        return [letter for letter in letters if letter.is_record]

    def _failed(self, letter: Letter, why: str) -> None:
        self.outcome.failed += 1
        if len(self.outcome.problems) < _PROBLEMS_KEPT:
            self.outcome.problems.append(f"{letter.place}: {why}")

    def _unmarked(self, letters: list[Letter]) -> list[Letter]:
        """Those whose record has no mark yet; of several letters of one record, one."""
        by_mark = {letter.mark: letter for letter in letters if letter not in self._marks}
        self.outcome.already_replayed += len(letters) - len(by_mark)
        return sorted(by_mark.values(), key=lambda letter: letter.origin)

    def _send(self, letters: list[Letter]) -> None:
        """One transaction for all; where a record is refused, one for each half, down to that record."""
        try:
            producer = transactional_producer(
                self._bootstrap,
                f"penstock-replay-{self._letters_topic}",
                letters[0].source,
                timeout_ms=_TRANSACTION_TIMEOUT_MS,
            )
            self._marks.catch_up()  # [2]
            letters = self._unmarked(letters)
            if letters:
                self._transact(producer, letters)
        except KafkaException as error:
            if error.args[0].code() not in _RECORD_REFUSED:
                raise self._stopped(error) from error
            if len(letters) > 1:
                middle = len(letters) // 2
                self._send(letters[:middle])
                self._send(letters[middle:])
                return
            self._failed(letters[0], error.args[0].str())

    def _transact(self, producer: Producer, letters: list[Letter]) -> None:
        topic, now_ms = letters[0].source, time.time_ns() // 1_000_000
        originals = Originals(self._reader, topic).of(letters)
        partitions = self._reader.extent(topic) or {}
        deliveries = Deliveries()
        producer.begin_transaction()
        try:
            for letter in letters:
                # [1]
                message = message_of(letter, originals.get(letter.origin), partitions)
                send(producer, topic, message, deliveries)
                send(producer, marks_topic(self._letters_topic), mark_of(letter, now_ms), deliveries)
            commit(producer, deliveries)
        except KafkaException:
            # Only so that readers need not wait for its time-out: the next producer would end it too.
            with suppress(KafkaException):
                producer.abort_transaction(_ABORT_TIMEOUT_S)
            raise
        self.outcome.replayed += len(letters)
        self.outcome.without_key += sum(letter.origin not in originals for letter in letters)

    def _stopped(self, error: KafkaException) -> Fenced | ServiceError:
        done = f"{self.outcome.replayed:,} records were replayed before that"
        if is_fenced(error):
            return Fenced(
                f"another replay of {self._letters_topic} has taken over; {done}",
                hint="Let the other one finish. Then run this command again for what it left;"
                " no record is replayed twice.",
            )
        return ServiceError(
            f"the replay stopped: {error.args[0].str()}; {done}",
            hint="Run the same command again: it goes on where this one stopped, and replays nothing twice.",
        )


def message_of(letter: Letter, original: Original | None, partitions: Iterable[int]) -> Message:
    """The record as it was sent at first, and the letter it comes from in a header.

    It goes to the partition it stood in, so that it is where its key belongs even if the key is not known.
    """
    headers = original.headers if original else ()
    message: Message = {
        "key": original.key if original else None,
        "value": letter.value,
        "headers": [*headers, (REPLAYED_HEADER, letter.address.encode())],
    }
    if letter.origin.partition in partitions:
        message["partition"] = letter.origin.partition
    return message


def pages(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Letters in lists of bounded length and size."""
    page: list[Letter] = []
    size = 0
    for letter in letters:
        page.append(letter)
        size += len(letter.value or b"")
        if len(page) >= _PAGE_RECORDS or size >= _PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page
