"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spec import Duration, Rate, Size
from penstock.spec.units import parse_count


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30 minutes", 1_800_000),
        ("1 minute", 60_000),
        ("1.5 hours", 5_400_000),
        ("3s", 3_000),
        ("250 ms", 250),
        ("1,500 milliseconds", 1_500),
        ("2 d", 172_800_000),
        ("0 seconds", 0),
        (" 5 Min ", 300_000),
    ],
)
def test_a_duration_is_read(text: str, ms: int) -> None:
    assert Duration.parse(text).ms == ms


@pytest.mark.parametrize("given_", [30, 1.5, "30", "1,000"])
def test_a_duration_without_a_unit_is_refused_with_an_example(given_: object) -> None:
    with pytest.raises(ValueError, match=r'without a unit; write e\.g\. "30 minutes"'):
        Duration.parse(given_)


@pytest.mark.parametrize(
    "given_", ["soon", "", "-5 minutes", "5 lightyears", "1,5 seconds", "0.5 ms", True, None, "5 ss"]
)
def test_what_is_no_duration_is_refused(given_: object) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        Duration.parse(given_)


@given(st.integers(min_value=0, max_value=10**15))
def test_a_duration_survives_its_own_text(ms: int) -> None:
    assert Duration.parse(str(Duration(ms))) == Duration(ms)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 seconds"),
        (60_000, "1 minute"),
        (90_000, "90 seconds"),
        (1_234, "1,234 ms"),
        (1_800_000, "30 minutes"),
    ],
)
def test_a_duration_is_written_in_its_largest_whole_unit(ms: int, text: str) -> None:
    assert str(Duration(ms)) == text


def test_durations_compare_and_give_seconds() -> None:
    assert Duration.parse("1 minute") > Duration.parse("59 seconds")
    assert Duration.parse("1.5 seconds").seconds == 1.5


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5 MB", 5_000_000),
        ("512 KiB", 524_288),
        ("1.5 gib", 1_610_612_736),
        ("10 bytes", 10),
        ("1 kB", 1_000),
    ],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert Size.parse(text).bytes == size


@pytest.mark.parametrize("given_", [512, "512", "5 mugs", "0.5 B", "MB", None])
def test_what_is_no_size_is_refused(given_: object) -> None:
    with pytest.raises(ValueError, match="size"):
        Size.parse(given_)


@given(st.integers(min_value=0, max_value=10**18))
def test_a_size_survives_its_own_text(size: int) -> None:
    assert Size.parse(str(Size(size))) == Size(size)


@pytest.mark.parametrize(
    ("given_", "eps"),
    [
        ("5,000/s", 5_000),
        ("20k/s", 20_000),
        ("1.2 million/minute", 20_000),
        ("3,600 per hour", 1),
        ("100 / second", 100),
        ("20k", 20_000),
        (250, 250),
        (0.5, 0.5),
    ],
)
def test_a_rate_is_read_per_second(given_: object, eps: float) -> None:
    assert Rate.parse(given_).eps == eps


@pytest.mark.parametrize(
    "given_",
    [0, -1, "0/s", "fast", "5/mile", "5 dozen/s", True, float("inf"), float("nan"), "9" * 400, 10**400],
)
def test_what_is_no_rate_is_refused(given_: object) -> None:
    with pytest.raises(ValueError, match="expected a rate above 0"):
        Rate.parse(given_)


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_a_rate_survives_its_own_text(eps: float) -> None:
    assert Rate.parse(str(Rate(eps))) == Rate(eps)


@given(st.integers(min_value=1, max_value=10**9), st.sampled_from(["s", "minute", "hour"]))
def test_a_written_rate_keeps_its_value_through_text(count: int, unit: str) -> None:
    rate = Rate.parse(f"{count:,}/{unit}")
    assert Rate.parse(str(rate)) == rate


@pytest.mark.parametrize(
    ("given_", "count"),
    [(8, 8), ("8", 8), ("200,000", 200_000), ("200k", 200_000), ("1.5 million", 1_500_000)],
)
def test_a_count_is_read(given_: object, count: int) -> None:
    assert parse_count(given_) == count


@pytest.mark.parametrize("given_", ["eight", 0, -1, 1.5, "1.5", "", "2 dozen", True, None])
def test_what_is_no_count_is_refused(given_: object) -> None:
    with pytest.raises(ValueError, match="expected a whole number of at least 1"):
        parse_count(given_)


@given(st.integers(min_value=1))
def test_a_count_survives_its_own_text(count: int) -> None:
    assert parse_count(f"{count:,}") == count
