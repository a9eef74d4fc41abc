"""What a sink holds against what it must hold: pure, on Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.produce.workload import Expected

_CENT = 0.005
_EXAMPLES_MAX = 5
_WEIGHT = "_records"


@dataclass(frozen=True)
class Comparison:
    """How a sink differs from what it must hold. Lost and duplicated are records, the others rows."""

    expected: int
    held: int
    lost: int
    duplicated: int
    wrong: int = 0
    """Rows with the right number of records and a wrong value."""
    examples: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong)


def compare(expected: Expected, rows: pa.Table, *, exactly_once: bool = True) -> Comparison:
    """`rows` are all rows that the sink ever took, in order, with `version` and `kind` where they have one.

    A sink that is not `exactly_once` may hold a row several times; its readers see one.
    """
    key = expected.key
    compared = [name for name in expected.rows.column_names if name in rows.column_names and name != key]
    weight = expected.weight if expected.weight in compared else None
    held = _without_birth(newest(rows, key), key)
    both = _weighed(expected.rows.select([key, *compared]), weight).join(
        _weighed(held.select([key, *compared]), weight), key, join_type="full outer", right_suffix="_held"
    )
    want, have = pc.fill_null(both[_WEIGHT], 0), pc.fill_null(both[f"{_WEIGHT}_held"], 0)
    short = pc.subtract(want, have)
    same = agree = pc.equal(short, 0)
    for name in compared:
        agree = pc.and_(agree, _equal(both[name], both[f"{name}_held"]))
    wrong = pc.and_(same, pc.invert(agree))
    strange = both.filter(pc.or_(pc.not_equal(short, 0), wrong)).slice(0, _EXAMPLES_MAX)
    repeated = _repeats(rows, key, weight) if exactly_once else 0
    return Comparison(
        expected=expected.rows.num_rows,
        held=held.num_rows,
        lost=_sum(pc.max_element_wise(short, 0)),
        duplicated=_sum(pc.max_element_wise(pc.negate(short), 0)) + repeated,
        wrong=_sum(wrong),
        examples=tuple(_tell(row, key, compared) for row in strange.to_pylist()),
    )


def _without_birth(held: pa.Table, key: str) -> pa.Table:
    """Rows by key and start alone: an oracle does not know in which batch an old event became a start."""
    if not pa.types.is_string(held.schema.field(key).type) or "version" not in held.column_names:
        return held
    names = pc.replace_substring_regex(held[key], r"(@-?\d+)#\d+$", r"\1")
    return held.set_column(held.schema.get_field_index(key), key, names)


def newest(rows: pa.Table, key: str) -> pa.Table:
    """The row with the highest version of each key, without the retracted ones; without versions the last."""
    has_version = "version" in rows.column_names
    numbered = rows.append_column("_place", pa.array(range(rows.num_rows), pa.int64()))
    by = [(key, "ascending"), *([("version", "descending")] if has_version else []), ("_place", "descending")]
    ordered = numbered.sort_by(by).drop_columns("_place")
    if ordered.num_rows:
        keys = ordered[key].combine_chunks()
        ordered = ordered.filter(pa.concat_arrays([pa.array([True]), pc.not_equal(keys[1:], keys[:-1])]))
    if "kind" not in rows.column_names:
        return ordered
    return ordered.filter(pc.not_equal(ordered["kind"], "retracted"))


def _weighed(rows: pa.Table, weight: str | None) -> pa.Table:
    records = rows[weight] if weight else pa.array([1] * rows.num_rows, pa.int64())
    return rows.append_column(_WEIGHT, records)


def _repeats(rows: pa.Table, key: str, weight: str | None) -> int:
    """Records in rows that stand there more than once. Without versions a row may come again."""
    if "version" not in rows.column_names:
        return 0
    counted = (
        _weighed(rows, weight).group_by([key, "version"]).aggregate([(_WEIGHT, "max"), ("version", "count")])
    )
    surplus = pc.subtract(counted["version_count"], 1)
    return _sum(pc.multiply(surplus, pc.max_element_wise(pc.fill_null(counted[f"{_WEIGHT}_max"], 1), 1)))


def _equal(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.ChunkedArray:
    neither = pc.and_(pc.is_null(a), pc.is_null(b))
    alike = pc.less(pc.abs(pc.subtract(a, b)), _CENT) if pa.types.is_floating(a.type) else pc.equal(a, b)
    return pc.or_(neither, pc.fill_null(alike, False))


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _tell(row: dict[str, object], key: str, compared: list[str]) -> str:
    if row[f"{_WEIGHT}_held"] is None or row[_WEIGHT] is None:
        return f"{row[key]}: {'missing' if row[_WEIGHT] else 'not expected'}"
    differing = [
        f"{name} {row[f'{name}_held']!r} instead of {row[name]!r}"
        for name in compared
        if row[name] != row[f"{name}_held"]
    ]
    return f"{row[key]}: {', '.join(differing)}"
