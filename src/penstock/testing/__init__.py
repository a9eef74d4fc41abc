"""Tests for pipelines of your own: a model in plain Python, and the rows that differ from it.

The real engine, fed with batches of your choice, is in `penstock.testing.stream`, which imports Spark.
"""

from penstock.testing.cleanse import Cleanse, decode
from penstock.testing.clock import Batch, clocked
from penstock.testing.compare import differences, differences_by_batch
from penstock.testing.dedupe import Dedupe
from penstock.testing.events import Event, Record, Row, Topic
from penstock.testing.measures import Measure, count, distinct, first, highest, last, lowest, total
from penstock.testing.model import Model
from penstock.testing.sessions import Sessions
from penstock.testing.windows import Windows

__all__ = [
    "Batch",
    "Cleanse",
    "Dedupe",
    "Event",
    "Measure",
    "Model",
    "Record",
    "Row",
    "Sessions",
    "Topic",
    "Windows",
    "clocked",
    "count",
    "decode",
    "differences",
    "differences_by_batch",
    "distinct",
    "first",
    "highest",
    "last",
    "lowest",
    "total",
]
