"""How unevenly something lies on partitions: what waits, or what comes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Nothing:
    """There is nothing that could lie unevenly."""


@dataclass(frozen=True)
class Skew:
    """The partition with the most and its share; and the Gini coefficient, 0 even, 1 all on one partition."""

    largest: int
    share: float
    gini: float


def skew(amounts: Mapping[int, float]) -> Skew | Nothing:
    """The skew of amounts by partition."""
    total, count = sum(amounts.values()), len(amounts)
    if total <= 0:
        return Nothing()
    largest = max(amounts, key=lambda partition: (amounts[partition], -partition))
    if count == 1:
        return Skew(largest, 1.0, 0.0)
    ranked = sum(rank * amount for rank, amount in enumerate(sorted(amounts.values()), start=1))
    gini = 2 * ranked / (count * total) - (count + 1) / count
    # All on one of N makes (N - 1) / N: divided by it, topics with few and with many partitions compare.
    return Skew(largest, amounts[largest] / total, max(0.0, gini * count / (count - 1)))
