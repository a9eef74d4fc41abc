"""How unevenly lag lies on partitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.observe.lag.skew import Nothing, Skew, skew

AMOUNTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=50)


# The correctness proof: amounts by partition, and the skew they must have.
CASES: dict[str, tuple[dict[int, float], Skew | Nothing]] = {
    "no partitions": ({}, Nothing()),
    "nothing anywhere": ({0: 0, 1: 0}, Nothing()),
    "one partition": ({3: 7}, Skew(3, 1.0, 0.0)),
    "even": ({0: 5, 1: 5, 2: 5, 3: 5}, Skew(0, 0.25, 0.0)),
    "all on one of two": ({0: 0, 1: 9}, Skew(1, 1.0, 1.0)),
    "all on one of a hundred": ({**dict.fromkeys(range(100), 0), 42: 9}, Skew(42, 1.0, 1.0)),
    "one, two, three": ({0: 1, 1: 2, 2: 3}, Skew(2, 0.5, 1 / 3)),
    "half on half of them": ({0: 4, 1: 4, 2: 0, 3: 0}, Skew(0, 0.5, 2 / 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_skew_is_a_share_and_a_coefficient(case: str) -> None:
    amounts, expected = CASES[case]
    found = skew(amounts)
    if isinstance(expected, Skew):
        assert isinstance(found, Skew)
        assert (found.largest, found.share) == (expected.largest, expected.share)
        assert found.gini == pytest.approx(expected.gini)
    else:
        assert found == expected


@settings(deadline=None)
@given(AMOUNTS)
def test_the_coefficient_is_half_the_mean_difference_by_the_mean(amounts: list[int]) -> None:
    found = skew(dict(enumerate(amounts)))
    if isinstance(found, Skew) and len(amounts) > 1:
        count = len(amounts)
        differences = sum(abs(a - b) for a in amounts for b in amounts)
        gini = differences / (2 * count * sum(amounts))
        assert found.gini == pytest.approx(gini * count / (count - 1), abs=1e-9)
        assert 0 <= found.gini <= 1 + 1e-9
        assert found.share == max(amounts) / sum(amounts)


@settings(deadline=None)
@given(AMOUNTS)
def test_neither_order_nor_scale_matters(amounts: list[int]) -> None:
    before = skew(dict(enumerate(amounts)))
    after = skew(dict(enumerate(10 * amount for amount in sorted(amounts))))
    if isinstance(before, Skew):
        assert isinstance(after, Skew)
        assert after.share == pytest.approx(before.share)
        assert after.gini == pytest.approx(before.gini, abs=1e-9)
