"""What a producer sent, on disk, independent of the topic: the ground truth an oracle is computed from.

One directory a producer, `<produced>/<pipeline>/<producer>/`:
    plan.json     the plan, so that numbers can be read back as names
    events.arrow  every record in the order it was sent (an Arrow stream, one batch a chunk)
    acks.jsonl    one line now and then: how far the outcome of every record is known

Invariants
1. A record is in events.arrow before it is handed to the Kafka client.
2. Every record before `settled` was acknowledged, or stands in `failed` or `unknown` of some line.
3. A directory belongs to one run of one producer and is never continued.
So a process killed at any moment leaves records that are acknowledged, and after them some that are
uncertain; nothing is in the topic that is not in the ledger. It is safe against the death of the
process, not of the machine: nothing is fsynced.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.produce.chunk import FATE_OF_FLAW, Chunk, Fate, Flaw, Timing
from penstock.produce.shipped import WORKLOADS
from penstock.produce.workload import Workload, name_numbers

_COLUMNS = {
    "seq": pa.int64(),
    "ts_ms": pa.int64(),
    "created_ms": pa.int64(),
    "flaw": pa.int8(),
    "timing": pa.int8(),
}
_STATUSES = ("acknowledged", "failed", "uncertain")
ACKNOWLEDGED, FAILED, UNCERTAIN = range(3)


def next_producer_id(directory: Path) -> str:
    """Reserve the next of p1, p2, ... under a pipeline's directory by making its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            (directory / f"p{number}").mkdir()
        except FileExistsError:
            number += 1
        else:
            return f"p{number}"


class LedgerWriter:
    """Writes the ledger of one run; `record` before sending, `settle` when outcomes are known."""

    def __init__(self, directory: Path, plan: Workload[Any], producer: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / "events.arrow").exists():
            raise PenstockError(
                f"{directory} already holds the ledger of an earlier run",
                hint="Every run needs a producer id of its own: take one with next_producer_id().",
            )
        head = {"producer": producer, "workload": plan.name, "plan": asdict(plan)}
        (directory / "plan.json").write_text(json.dumps(head))
        self._acks = (directory / "acks.jsonl").open("a", buffering=1)
        self._file = pa.OSFile(str(directory / "events.arrow"), "wb")
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._schema = _schema(plan)
        self._events = pa.ipc.new_stream(self._file, self._schema, options=options)
        self.recorded = 0
        self._settled = -1

    def record(self, chunk: Chunk) -> int:
        """Write a chunk and return the position of its first record."""
        columns = [getattr(chunk, name) for name in self._schema.names]
        self._events.write_batch(pa.record_batch(columns, schema=self._schema))
        position, self.recorded = self.recorded, self.recorded + len(chunk)
        return position

    def settle(self, settled: int, failed: Sequence[int] = (), unknown: Sequence[int] = ()) -> None:
        """Note that the outcome of every record before `settled` is known."""
        if settled != self._settled:
            self._acks.write(json.dumps({"settled": settled, "failed": failed, "unknown": unknown}) + "\n")
            self._settled = settled

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._events.close()
        self._file.close()
        self._acks.close()


@dataclass(frozen=True)
class Ledger:
    """The records of one producer, in the order they were sent.

    Columns of `records`: seq, those of the workload's `named`, ts_ms, created_ms, fate, flaw, timing, status.
    A repeated event is two records with one seq. The fields of a flawed record are those it would have had
    without the flaw.
    """

    producer: str
    plan: Workload[Any]
    records: pa.Table

    def count(self, status: str) -> int:
        return int(pc.sum(pc.equal(self.records["status"], status)).as_py() or 0)

    @property
    def acknowledged(self) -> int:
        """Records that are in the topic."""
        return self.count("acknowledged")

    @property
    def failed(self) -> int:
        """Records that are not in the topic: the broker refused them."""
        return self.count("failed")

    @property
    def uncertain(self) -> int:
        """Records that may be in the topic: the process died, or the broker was away for too long."""
        return self.count("uncertain")

    def with_status(self, status: str) -> pa.Table:
        return self.records.filter(pc.equal(self.records["status"], status))


def read_ledgers(directory: Path) -> list[Ledger]:
    """The ledgers of all producers of a pipeline, oldest first."""
    found = [path.parent for path in directory.glob("p*/plan.json")]
    return [read_ledger(path) for path in sorted(found, key=lambda path: int(path.name[1:]))]


def read_ledger(directory: Path) -> Ledger:
    """Read a ledger, also of a run that was killed or still goes on."""
    try:
        head = json.loads((directory / "plan.json").read_text())
        plan = WORKLOADS[head["workload"]](**head["plan"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PenstockError(
            f"{directory} holds no readable ledger: {error}",
            hint="Name the directory of one producer, such as produced/clickstream/p1.",
        ) from error
    # Acks first: read the other way round, a live run could settle records this reader has not seen.
    acks = _read_acks(directory / "acks.jsonl")
    events = _read_events(directory / "events.arrow", _schema(plan))
    if acks.settled > len(events):
        raise PenstockError(
            f"{directory / 'events.arrow'} is damaged: {len(events):,} records can be read, "
            f"but {acks.settled:,} were acknowledged",
            hint="Nothing can be proved from this ledger; produce again under a new producer id.",
        )
    status = np.full(len(events), UNCERTAIN, dtype=np.int8)
    status[: acks.settled] = ACKNOWLEDGED
    status[acks.failed] = FAILED
    status[acks.unknown] = UNCERTAIN
    return Ledger(head["producer"], plan, _named(events, plan, head["producer"], status))


@dataclass
class _Acks:
    settled: int = 0
    failed: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)


def _read_acks(path: Path) -> _Acks:
    acks = _Acks()
    for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
        if line.endswith("\n"):  # a line without its end was cut off by a kill
            entry = json.loads(line)
            acks.settled = entry["settled"]
            acks.failed += entry["failed"]
            acks.unknown += entry["unknown"]
    return acks


def _schema(plan: Workload[Any]) -> pa.Schema:
    return pa.schema({**_COLUMNS, **plan.ledger_columns})


def _read_events(path: Path, schema: pa.Schema) -> pa.Table:
    """All whole batches; a kill can cut the last one (or the schema) short, never an earlier one."""
    batches: list[pa.RecordBatch] = []
    try:
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                batches.append(batch)
    except (pa.ArrowInvalid, OSError):
        pass  # what was read before stays
    # In one piece: each of thousands of chunks would get a map of its own of all users, 0.8 MB of memory.
    return pa.Table.from_batches(batches, schema=schema).combine_chunks()


def _named(events: pa.Table, plan: Workload[Any], producer: str, status: NDArray[np.int8]) -> pa.Table:
    """Numbers back to names, as dictionaries where the names are few."""

    def kinds(numbers: NDArray[np.int8], names: Iterable[str]) -> pa.Array:
        return name_numbers(pa.chunked_array([numbers]), pa.array([name.lower() for name in names]))

    flaw, timing = events["flaw"].to_numpy(), events["timing"].to_numpy()
    return pa.table(
        {
            "seq": events["seq"],
            **plan.named(events, producer),
            "ts_ms": events["ts_ms"],
            "created_ms": events["created_ms"],
            "fate": kinds(FATE_OF_FLAW[flaw], Fate.__members__),
            "flaw": kinds(flaw, Flaw.__members__),
            "timing": kinds(timing, Timing.__members__),
            "status": kinds(status, _STATUSES),
        }
    )
