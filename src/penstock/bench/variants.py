"""What `baseline` compares: the shipped pipelines with defaults everywhere, and as they are.

By default means: plain PySpark, every setting of Kafka, Spark, the JVMs and the stores as its system has it
(PENSTOCK_UNTUNED), a topic of one partition, batches as small as they come, rows written one by one, Spark's
200 partitions of state. What is about correctness stays, and so does the most that a batch may read. Rows one
by one still go the sink's way (a savepoint, COPY, a merge), which is dearer than an INSERT each. A third
variant of each work is the defaults without the dearest of them, to see how much rests on that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.bench.stages import reference_spec
from penstock.paths import shipped
from penstock.spec import PipelineSpec, load

PAYMENTS, SESSIONS = "payments", "sessions"
DEFAULTS, STRATEGY = "defaults", "strategy"


@dataclass(frozen=True)
class Variant:
    """One way to do a work."""

    name: str
    untuned: str = ""
    """As PENSTOCK_UNTUNED has it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the shipped pipeline."""
    share: float = 1.0
    """Of all events: a slow one gets fewer, so that it is done in time."""
    is_rated: bool = False
    """Whether a steady rate and a surge are tried as well."""

    @property
    def slug(self) -> str:
        return self.name.replace(",", "").replace(" ", "-")


_PLAIN = {"engine": "plain", "source.partitions": "1"}
# All timestamps are text; plain Spark would take a number for seconds, and so has to be told.
_PLAIN_PAYMENTS = {**_PLAIN, "source.min_batch": "1", "source.epoch": "s"}
VARIANTS: Mapping[str, Sequence[Variant]] = {
    PAYMENTS: (
        Variant(DEFAULTS, "*", {**_PLAIN_PAYMENTS, "sink.0.max_rows": "1"}, share=0.1, is_rated=True),
        Variant("defaults, large writes", "*", _PLAIN_PAYMENTS, share=0.5),
        Variant(STRATEGY, is_rated=True),
    ),
    SESSIONS: (
        Variant(DEFAULTS, "*", {**_PLAIN, "sessions.partitions": "200"}, share=0.4),
        Variant("defaults, 4 state partitions", "*", _PLAIN),
        Variant(STRATEGY),
    ),
}


def described(work: str, variant: Variant, run: str) -> PipelineSpec:
    """The shipped pipeline with a name and targets of its own; of the clickstream the sessions alone."""
    if work == PAYMENTS:
        targets = {"sink.0.table": run.replace("-", "_"), "sink.1.topic": f"{run}-refused"}
        own = {"name": run, "source.topic": f"{run}-payments", **targets, **variant.settings}
        return load(shipped("pipelines") / "transactions.toml", environ={}, overrides=own)
    topics = {"source.topic": f"clicks-{variant.slug}", "sink.0.topic": f"{run}-out"}
    own = {**topics, "source.max_batch": "200,000"}
    spec = reference_spec(run, **own, **variant.settings)
    return spec.model_copy(update={"sink": spec.sink[:1]})
