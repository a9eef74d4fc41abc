"""What users do in an application, with one user who does far more than all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.produce.chunk import Chunk, Flaw, Timing
from penstock.produce.oracle import expected_windows
from penstock.produce.reference import user_ids
from penstock.produce.wire import Message, messages
from penstock.produce.workload import Expected, Records, Workload, name_numbers
from penstock.spec import PipelineSpec

ACTIONS = ("open", "scroll", "read", "share", "like", "leave")
HOT_USER = 0
NO_DURATION = -1

_MEAN_DURATION_MS = 4_000
_DURATION_MAX_MS = 600_000
_WITHOUT_DURATION = 0.2
_SPOILT = {
    Flaw.BAD_UTF8: (b'"page":"', b'"page":"\xff\xc0'),
    Flaw.WRONG_TYPE: (b'"ts":', b'"ts":"yesterday","was":'),
    Flaw.UNKNOWN_VALUE: (b'"action":"', b'"action":"un'),
    Flaw.NEGATIVE: (b'"duration_ms":', b'"duration_ms":-'),
    Flaw.NO_ID: (b'"user_id":', b'"visitor":'),
}


@dataclass(frozen=True)
class ActionChunk(Chunk):
    """Some actions in the order they are sent."""

    user: NDArray[np.int32]
    action: NDArray[np.int8]
    page: NDArray[np.int32]
    duration_ms: NDArray[np.int32]


@dataclass(frozen=True)
class BehaviourPlan(Workload[ActionChunk]):
    """Users of an application; `hot_share` of all that is done, one of them does."""

    name: ClassVar[str] = "behaviour"
    records_are: ClassVar[str] = "actions"
    results_are: ClassVar[str] = "windows"
    fields: ClassVar[tuple[str, ...]] = (
        *("event_id", "producer", "seq", "user_id", "action", "page", "duration_ms", "ts", "created_ms"),
    )
    ledger_columns: ClassVar[Mapping[str, pa.DataType]] = {
        "user": pa.int32(),
        "action": pa.int8(),
        "page": pa.int32(),
        "duration_ms": pa.int32(),
    }

    users: int = 5_000
    pages: int = 500  # a distinct is exact up to 1,024 values
    hot_share: float = 0.3

    def problems(self) -> Iterator[str]:
        if self.users < 1 or self.pages < 1:
            yield "users and pages must be at least 1"
        if not 0 <= self.hot_share <= 1:
            yield "hot_share must be a share"
        yield from super().problems()

    def user_names(self) -> pa.Array:
        """The users, and `clock`, one past the pool."""
        return pa.concat_arrays([user_ids(self.users), pa.array(["clock"])])

    def page_names(self) -> pa.Array:
        return pa.array([f"/pages/{number}" for number in range(self.pages)])

    def records(self, producer: str, _rate_eps: float) -> Actions:
        return Actions(self, producer)

    def encoder(self, producer: str) -> ActionEncoder:
        return ActionEncoder(self, producer)

    def clock_chunk(self, *, ts_ms: int, created_ms: int) -> ActionChunk:
        return ActionChunk(
            seq=np.array([0], np.int64),
            ts_ms=np.array([ts_ms], np.int64),
            created_ms=np.array([created_ms], np.int64),
            flaw=np.array([Flaw.NONE], np.int8),
            timing=np.array([Timing.PROMPT], np.int8),
            user=np.array([self.users], np.int32),
            action=np.array([0], np.int8),
            page=np.array([0], np.int32),
            duration_ms=np.array([NO_DURATION], np.int32),
        )

    def named(self, events: pa.Table, _producer: str) -> dict[str, pa.Array]:
        duration_ms = events["duration_ms"].to_numpy()
        return {
            "user_id": name_numbers(events["user"], self.user_names()),
            "action": name_numbers(events["action"], pa.array(ACTIONS)),
            "page": name_numbers(events["page"], self.page_names()),
            "duration_ms": pa.array(duration_ms, mask=duration_ms == NO_DURATION),
        }

    def expected(self, spec: PipelineSpec, events: pa.Table, clock_ms: int) -> dict[str, Expected]:
        if spec.windows is None:
            return {}
        every = expected_windows(events, spec.windows.size.ms, spec.windows.step.ms)
        final = every.filter(pc.less_equal(every["end_ms"], clock_ms))
        # In windows that overlap an event stands several times.
        weight = "events" if spec.windows.step == spec.windows.size else None
        return {
            "final": Expected(final, "window_id", weight),
            "live": Expected(every, "window_id", weight),
        }


class Actions(Records[ActionChunk]):
    """The hot user's actions among those of the others, all of whom are alike."""

    def __init__(self, plan: BehaviourPlan, producer: str) -> None:
        super().__init__(plan, producer)
        self._plan = plan

    def _fresh(self, n: int, now_ms: int) -> ActionChunk:
        rng, plan, drawn = self._rng, self._plan, self._drawn(n, now_ms)
        user = rng.integers(0, plan.users, n, dtype=np.int32)
        user[rng.random(n) < plan.hot_share] = HOT_USER
        duration_ms = np.minimum(rng.exponential(_MEAN_DURATION_MS, n), _DURATION_MAX_MS).astype(np.int32)
        negative = drawn["flaw"] == Flaw.NEGATIVE
        duration_ms[negative] += 1  # a minus before a zero would be no flaw
        duration_ms[(rng.random(n) < _WITHOUT_DURATION) & ~negative] = NO_DURATION
        return ActionChunk(
            **drawn,
            user=user,
            action=rng.integers(0, len(ACTIONS), n, dtype=np.int8),
            page=(plan.pages * rng.random(n) ** 2).astype(np.int32),  # low numbers are popular
            duration_ms=duration_ms,
        )


class ActionEncoder:
    """Encodes the chunks of one producer from tables made once for its plan."""

    def __init__(self, plan: BehaviourPlan, producer: str) -> None:
        self._pages = plan.pages
        self._user_names = plan.user_names()
        self._keys = np.array([name.encode() for name in self._user_names.to_pylist()], dtype=object)
        self._head = pa.scalar(f'{{"event_id":"{producer}-')
        self._producer = pa.scalar(f'","producer":"{producer}","seq":')
        self._deeds = pa.array(
            [
                f'","action":"{action}","page":"{page}","duration_ms":'
                for action in ACTIONS
                for page in plan.page_names().to_pylist()
            ]
        )

    def encode(self, chunk: ActionChunk) -> list[Message]:
        seq = pc.cast(pa.array(chunk.seq), pa.string())
        deed = chunk.action.astype(np.int32) * self._pages + chunk.page
        duration_ms = pa.array(chunk.duration_ms, mask=chunk.duration_ms == NO_DURATION)
        values = pc.binary_join_element_wise(
            self._head,
            seq,
            self._producer,
            seq,
            pa.scalar(',"user_id":"'),
            self._user_names.take(pa.array(chunk.user)),
            self._deeds.take(pa.array(deed)),
            pc.fill_null(pc.cast(duration_ms, pa.string()), "null"),
            pa.scalar(',"ts":'),
            pc.cast(pa.array(chunk.ts_ms), pa.string()),
            pa.scalar(',"created_ms":'),
            pc.cast(pa.array(chunk.created_ms), pa.string()),
            pa.scalar(',"app":{"version":"3.1","build":[7,2]}}'),
            pa.scalar(""),
        )
        return messages(chunk, self._keys[chunk.user].tolist(), values, _SPOILT)
