"""Records as bytes: what every workload's encoder has in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.produce.chunk import Chunk, Flaw

# A key and a value, in the form the Kafka client's produce_batch takes: nothing is copied on the way.
Message: TypeAlias = dict[str, Any]

Substitutions: TypeAlias = Mapping[Flaw, tuple[bytes, bytes]]
"""How a flaw changes a right record: the first occurrence of some bytes becomes others."""


def messages(
    chunk: Chunk, keys: list[bytes], values: pa.Array, substitutions: Substitutions
) -> list[Message]:
    """Keys and texts as messages, with the flaws that the chunk says."""
    raw = values.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    for row in np.flatnonzero(chunk.flaw).tolist():
        raw[row] = _spoil(raw[row], Flaw(chunk.flaw[row]), int(chunk.seq[row]), substitutions)
    return [{"key": key, "value": value} for key, value in zip(keys, raw, strict=True)]


def _spoil(value: bytes, flaw: Flaw, seq: int, substitutions: Substitutions) -> bytes:
    match flaw:
        case Flaw.TRUNCATED:
            return value[: 1 + seq % (len(value) - 1)]
        case Flaw.NOT_JSON:
            return b"GET /events/%d HTTP/1.1" % seq
        case Flaw.EMPTY:
            return b""
        case _:
            right, wrong = substitutions[flaw]
            return value.replace(right, wrong, 1)


def cents(amount: int) -> str:
    """Hundredths as a JSON number."""
    return f"{amount // 100}.{amount % 100:02d}"
