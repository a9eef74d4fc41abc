"""What is told of errors that others made."""

from __future__ import annotations

import pytest

from penstock.errors import first_line

TRACE = """An error occurred while calling o799.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:56)
Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE] An error occurred during loading state.
\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:338)
\t... 16 more
"""


def test_of_several_lines_the_first_is_told() -> None:
    assert first_line(ValueError("\n  no such file\n  at line 3")) == "no such file"


def test_an_error_without_words_is_told_by_its_name() -> None:
    assert first_line(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("java.io.IOException: No space left on device", "java.io.IOException: No space left on device"),
        (
            "java.io.EOFException",
            "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE] An error occurred during loading"
            " state.: java.io.EOFException",
        ),
    ],
)
def test_of_an_error_in_java_the_root_is_told(root: str, told: str) -> None:
    assert (
        first_line(RuntimeError(f"{TRACE}Caused by: {root}\n\tat java.base/java.io.X.y(X.java:1)\n")) == told
    )


def test_of_an_error_in_java_without_a_trace_what_there_is_is_told() -> None:
    assert (
        first_line(RuntimeError("An error occurred while calling o1.f.")) == "An error occurred while calling"
    )
