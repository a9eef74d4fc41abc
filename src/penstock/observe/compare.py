"""What a sink holds against what it must hold: pure, on Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

COMPARED = ("events", "purchases", "revenue", "first_page", "last_page", "end_ms")
"""Measures that are checked one by one; the session id stands for user and start."""

_CENT = 0.005


@dataclass(frozen=True)
class Comparison:
    """How a sink's sessions differ from the expected ones. Records, where not said otherwise."""

    sessions: int
    """Sessions that the sink holds."""
    lost: int
    duplicated: int
    wrong: int
    """Sessions with the right number of events and a wrong measure."""
    examples: tuple[str, ...]


def compare(expected: pa.Table, rows: pa.Table) -> Comparison:
    """`rows` are all rows that the sink ever took, with session_id, version and kind."""
    repeated = _repeats(rows)
    held = newest(rows)
    ids = pc.binary_join_element_wise(expected["user_id"], expected["start_ms"].cast(pa.string()), "@")
    wanted = expected.select(list(COMPARED)).append_column("session_id", ids)
    both = wanted.join(
        held.select(["session_id", *COMPARED]), "session_id", join_type="full outer", right_suffix="_held"
    )
    want, have = pc.fill_null(both["events"], 0), pc.fill_null(both["events_held"], 0)
    short = pc.subtract(want, have)
    same = pc.equal(short, 0)
    agree = same
    for name in COMPARED[1:]:
        agree = pc.and_(agree, _equal(both[name], both[f"{name}_held"]))
    wrong = pc.and_(same, pc.invert(agree))
    strange = both.filter(pc.or_(pc.not_equal(short, 0), wrong)).slice(0, 5)
    return Comparison(
        sessions=held.num_rows,
        lost=_sum(pc.max_element_wise(short, 0)),
        duplicated=_sum(pc.max_element_wise(pc.negate(short), 0)) + repeated,
        wrong=_sum(wrong),
        examples=tuple(_tell(row) for row in strange.to_pylist()),
    )


def newest(rows: pa.Table) -> pa.Table:
    """The row with the highest version of each session, without the retracted ones."""
    ordered = rows.sort_by([("session_id", "ascending"), ("version", "descending")])
    if ordered.num_rows:
        ids = ordered["session_id"].combine_chunks()
        changed = pc.not_equal(ids[1:], ids[:-1])
        first = pa.concat_arrays(
            [pa.array([True]), changed.combine_chunks() if isinstance(changed, pa.ChunkedArray) else changed]
        )
        ordered = ordered.filter(first)
    return ordered.filter(pc.not_equal(ordered["kind"], "retracted"))


def _repeats(rows: pa.Table) -> int:
    """Records in rows that stand there more than once."""
    counted = rows.group_by(["session_id", "version"]).aggregate([("events", "max"), ("kind", "count")])
    surplus = pc.subtract(counted["kind_count"], 1)
    return _sum(pc.multiply(surplus, pc.max_element_wise(pc.fill_null(counted["events_max"], 1), 1)))


def _equal(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_floating(a.type):
        return pc.fill_null(pc.less(pc.abs(pc.subtract(a, b)), _CENT), False)
    return pc.fill_null(pc.equal(a, b), False)


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _tell(row: dict[str, object]) -> str:
    differing = [
        f"{name} {row[f'{name}_held']!r} instead of {row[name]!r}"
        for name in COMPARED
        if row[name] != row[f"{name}_held"]
    ]
    return f"{row['session_id']}: {', '.join(differing)}"
