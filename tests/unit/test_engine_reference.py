"""The form that reference data is brought into, its versions, and which of them a batch uses."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.reference import KEY, Source, Version, conform
from penstock.engine.refresh import Reference
from penstock.engine.unusable import Unusable
from penstock.engine.versions import Versions
from penstock.spec import Enrich

USERS: Any = {"name": "users", "path": "users.parquet", "on": "id", "take": ["segment"], "refresh": "1 hour"}
ENRICH = Enrich(**USERS)

rows = st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.text(max_size=5)), max_size=20)


def users(segments: dict[str, str | None]) -> pa.Table:
    columns = {"id": list(segments), "segment": list(segments.values())}
    return pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})


@settings(deadline=None)
@given(rows, st.randoms())
def test_a_version_depends_on_the_content_alone(segments: dict[str, str | None], random: Random) -> None:
    shuffled = sorted(segments.items(), key=lambda _: random.random())
    one = Version.of(conform(users(segments), ENRICH))
    other = Version.of(conform(users(dict(shuffled)), ENRICH))
    assert one.id == other.id
    found = one.table(ENRICH).to_pylist()
    assert {row[KEY]: row["segment"] for row in found} == segments


@settings(deadline=None)
@given(rows, rows)
def test_other_content_is_another_version(one: dict[str, str | None], other: dict[str, str | None]) -> None:
    versions = {Version.of(conform(users(segments), ENRICH)).id for segments in (one, other)}
    assert len(versions) == (1 if one == other else 2)


def test_a_type_that_changed_is_kept_where_nothing_is_lost_and_refused_where_it_is() -> None:
    schema = conform(pa.table({"id": ["a"], "segment": pa.array([1], pa.int32())}), ENRICH).schema
    wider = conform(pa.table({"id": ["a"], "segment": pa.array([2.0])}), ENRICH, schema)
    assert wider.schema == schema
    with pytest.raises(Unusable, match='"segment" was int32, is double'):
        conform(pa.table({"id": ["a"], "segment": pa.array([2.5])}), ENRICH, schema)


def test_two_columns_of_one_name_are_refused() -> None:
    doubled = pa.table(
        [pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], names=["id", "segment", "segment"]
    )
    with pytest.raises(Unusable, match='"segment": 2 columns of that name'):
        conform(doubled, ENRICH)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("abcd")), max_size=12))
def test_what_a_batch_uses_stays_so_after_a_restart_until_three_versions_later(
    steps: list[tuple[int, str]],
) -> None:
    with TemporaryDirectory() as directory:
        checkpoint, batch = Path(directory), 0
        used: dict[int, str] = {}
        changes: list[int] = []
        for step, version in steps:
            batch += step
            if not used or used[max(used)] != version:
                changes.append(batch)
            Versions(checkpoint).begin(batch, {"users": version})
            used[batch] = version
        oldest_kept = changes[-3:][:1]
        for batch, version in used.items():
            if batch >= oldest_kept[0]:
                assert Versions(checkpoint).used("users", batch) == version


def test_a_version_that_could_not_be_taken_is_offered_again(tmp_path: Path) -> None:
    said: list[str] = []
    reference = Reference(ENRICH, Source(ENRICH, tmp_path, ""), said.append)
    pq.write_table(users({"a": "old"}), tmp_path / "users.parquet")
    reference.start(None)
    failures = [OSError("disk full")]
    taken: list[str] = []

    def take(version: Version) -> None:
        if failures:
            raise failures.pop()
        taken.append(version.id)

    reference.offer_to(take)
    pq.write_table(users({"a": "new"}), tmp_path / "users.parquet")
    reference.look()
    assert "refresh failed, still on version" in said[0]
    assert reference.stale_since_ms is not None
    reference.look()
    assert taken == [reference.newest.id]
    assert reference.stale_since_ms is None


def test_a_file_that_comes_back_unchanged_ends_the_alarm(tmp_path: Path) -> None:
    said: list[str] = []
    reference = Reference(ENRICH, Source(ENRICH, tmp_path, ""), said.append)
    path = tmp_path / "users.parquet"
    pq.write_table(users({"a": "old"}), path)
    reference.start(None)
    path.rename(tmp_path / "aside")
    reference.look()
    (tmp_path / "aside").rename(path)
    reference.look()
    assert [line.split(",")[0] for line in said] == [
        "lookup users: refresh failed",
        "lookup users: refresh works again",
    ]
