"""The files of a checkpoint on a local disk: whole or not at all, with a checksum that is theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Any:
    jvm: Any = spark._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return jvm.penstock.kernel.CheckpointFiles(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), hadoop)


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(str(tmp_path / "offsets" / "5"))


def names(root: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


def test_a_file_is_there_when_it_is_closed(files: Any, path: Any, tmp_path: Path) -> None:
    out = files.createAtomic(path, False)
    out.write(b"v1\n{}")
    assert "offsets/5" not in names(tmp_path)
    out.close()
    assert names(tmp_path) == ["offsets/.5.crc", "offsets/5"]
    assert (tmp_path / "offsets" / "5").read_bytes() == b"v1\n{}"
    assert files.open(path).readAllBytes() == b"v1\n{}"


def test_what_is_given_up_leaves_nothing(files: Any, path: Any, tmp_path: Path) -> None:
    out = files.createAtomic(path, False)
    out.write(b"half")
    out.cancel()
    assert names(tmp_path) == []


def test_a_file_is_replaced_only_where_that_is_asked_for(files: Any, path: Any, tmp_path: Path) -> None:
    files.createAtomic(path, False).close()
    second = files.createAtomic(path, False)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        second.close()
    third = files.createAtomic(path, True)
    third.write(b"new")
    third.close()
    assert (tmp_path / "offsets" / "5").read_bytes() == b"new"


def test_the_checksum_is_that_of_the_newest(files: Any, path: Any, tmp_path: Path) -> None:
    for text in (b"old", b"new and longer"):
        out = files.createAtomic(path, True)
        out.write(text)
        out.close()
        assert names(tmp_path) == ["offsets/.5.crc", "offsets/5"]
        assert files.open(path).readAllBytes() == text


def test_damage_is_told(files: Any, path: Any, tmp_path: Path) -> None:
    out = files.createAtomic(path, True)
    out.write(b"offset 7")
    out.close()
    (tmp_path / "offsets" / "5").write_bytes(b"offset 9")
    with pytest.raises(Py4JJavaError, match="ChecksumException"):
        files.open(path).readAllBytes()


def test_a_directory_that_cannot_be_made_is_told(files: Any, path: Any, tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("a file")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        files.createAtomic(path, False)
