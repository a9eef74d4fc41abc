"""A pipeline as it runs: the queries that its spec asks for, side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.checkpoint import Checkpoint
from penstock.engine.cleanse import clean
from penstock.engine.clock import clock_topic
from penstock.engine.decode import decode
from penstock.engine.enrich import Lookups
from penstock.engine.events import event_rows
from penstock.engine.grouping import group, measure_layout
from penstock.engine.layout import StateLayout
from penstock.engine.outputs import Endpoints
from penstock.engine.plain import plain_events, plain_groups
from penstock.engine.query import Query
from penstock.engine.realtime import RealtimeQuery, read_realtime, realtime_rows
from penstock.engine.receipt import Receipt
from penstock.engine.refresh import references, refreshing
from penstock.engine.slots import check_slots, readers, realtime_sinks
from penstock.engine.source import read_source
from penstock.errors import SpecError, first_line
from penstock.paths import DataDir
from penstock.sinks.topics import ensure_topics
from penstock.spec import KafkaSink, PipelineSpec, Sink, Tier

READY = "running"
"""What is said when records that come are taken in at once."""


class Pipeline:
    """One spec on one checkpoint directory."""

    def __init__(
        self,
        spec: PipelineSpec,
        data: DataDir,
        endpoints: Endpoints,
        spark: SparkSession,
        *,
        on_receipt: Callable[[Receipt], None],
        say: Callable[[str], None],
        adopt: Sequence[str] = (),
        start: Mapping[str, Mapping[int, int]] | None = None,
        first: Mapping[int, int] | None = None,
        on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        """Where queries begin that have no checkpoint is the spec's to say, or `start`'s, by name.

        Records before `first` are given up; otherwise a query whose records are gone does not run.
        """
        self._spec = spec
        self._start = start or {}
        self._first = first or {}
        self._data = data
        self._endpoints = endpoints
        self._spark = spark
        self._on_receipt = on_receipt
        self._on_progress = on_progress
        self._say = say
        self._adopt = adopt
        self._not_ready: set[str] = set()
        self._lock = threading.Lock()
        self._queries: list[Query] = []
        self._references = references(spec, data, endpoints.postgres, say)
        try:
            if realtime := realtime_sinks(spec):
                check_slots(spark, spec)
            for tier in tiers(spec):
                self._queries.append(self._query(tier))
            for sink in realtime:
                self._queries.append(self._realtime_query(sink))
        except BaseException:
            self.close()
            raise
        self._not_ready = {query.name for query in self._queries}

    def _query(self, tier: Tier) -> Query:
        spec, name = self._spec, query_name(self._spec, tier)
        topics = [spec.source.topic]
        if tier == "groups":
            ensure_topics(self._endpoints.kafka, {clock_topic(spec): 1})
            topics.append(clock_topic(spec))
        checkpoint = self._checkpoint(name)
        try:
            records = read_source(self._spark, spec, self._endpoints.kafka, topics, self._start.get(name))
            lookups = None
            if spec.engine == "kernel":
                lookups = Lookups(self._spark, self._references, checkpoint, self._say)
            rows, new_sinks = build(
                self._spark,
                records,
                spec,
                self._data,
                tier,
                checkpoint,
                say=self._say,
                lookups=lookups,
                postgres=self._endpoints.postgres,
                live=any("live" in sink.rows for sink in spec.sink),
            )
        except BaseException:
            checkpoint.close()
            raise
        return Query(
            name=name,
            spec=spec,
            data=self._data,
            endpoints=self._endpoints,
            rows=rows,
            sinks=list(sinks_of(spec, tier)),
            checkpoint=checkpoint,
            lookups=lookups,
            on_receipt=self._on_receipt,
            on_progress=self._on_progress,
            on_ready=lambda: self._ready(name),
            say=self._say,
            adopt=[*self._adopt, *new_sinks],
            ticks=tier == "groups",
        )

    def _realtime_query(self, sink: KafkaSink) -> RealtimeQuery:
        spec, name = self._spec, f"{self._spec.name}-{sink.name}"
        checkpoint = self._checkpoint(name)
        try:
            tasks = readers(spec, str(self._spark.sparkContext.master))
            records = read_realtime(self._spark, spec, self._endpoints.kafka, tasks, self._start.get(name))
            lookups = Lookups(self._spark, self._references, checkpoint, self._say, at_once=True)
            rows = build_realtime(self._spark, records, spec, lookups, sink)
            # There is no state; but a position is one of this topic alone.
            position = StateLayout({"source.topic": spec.source.topic}, [[]], {}, [sink.name])
            checkpoint.fit(position, self._say)
        except BaseException:
            checkpoint.close()
            raise
        return RealtimeQuery(
            name=name,
            spec=spec,
            data=self._data,
            endpoints=self._endpoints,
            rows=rows,
            sinks=[sink],
            checkpoint=checkpoint,
            on_receipt=self._on_receipt,
            on_ready=lambda: self._ready(name),
            say=self._say,
        )

    def _checkpoint(self, name: str) -> Checkpoint:
        checkpoint = Checkpoint(self._data.checkpoints / name, self._spec.source.topic)
        for partition, (at, first) in checkpoint.pass_over(self._first).items():
            self._say(f"{name}: gives up offsets {at} to {first - 1} of partition {partition}")
        return checkpoint

    def _ready(self, name: str) -> None:
        with self._lock:
            waited_for = name in self._not_ready
            self._not_ready.discard(name)
            if waited_for and not self._not_ready:
                self._say(READY)

    def run(self, stop: threading.Event) -> None:
        """Run until told to stop, or until a query fails for good: then all stop and its error is raised."""
        halt = threading.Event()
        pool = ThreadPoolExecutor(len(self._queries), thread_name_prefix="query")
        with refreshing(self._references if self._spec.engine == "kernel" else ()), pool:
            running = {pool.submit(query.run, halt) for query in self._queries}
            try:
                while running and not stop.is_set():
                    done, running = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
            finally:
                halt.set()  # also when this thread is interrupted: the pool waits for all of them

    def close(self) -> None:
        for query in self._queries:
            query.checkpoint.close()


def tiers(spec: PipelineSpec) -> Iterator[Tier]:
    """The queries that a spec needs."""
    if spec.grouping is not None:
        yield "groups"
    if any(sinks_of(spec, "events")):
        yield "events"


def sinks_of(spec: PipelineSpec, tier: Tier) -> Iterator[Sink]:
    """The sinks that a tier writes. Records set aside come from the tier with state where there is one."""
    for sink in spec.sink:
        if getattr(sink, "latency", "batch") == "realtime":
            continue
        is_events = "events" in sink.rows or spec.grouping is None
        if is_events == (tier == "events"):
            yield sink


def query_name(spec: PipelineSpec, tier: Tier) -> str:
    """The name of a tier's query, checkpoint and positions: the pipeline's, for its only or its first."""
    return spec.name if tier == "groups" or spec.grouping is None else f"{spec.name}-{tier}"


def build(
    spark: SparkSession,
    records: DataFrame,
    spec: PipelineSpec,
    data: DataDir,
    tier: Tier,
    checkpoint: Checkpoint,
    *,
    say: Callable[[str], None],
    lookups: Lookups | None = None,
    postgres: str = "",
    live: bool = True,
) -> tuple[DataFrame, list[str]]:
    """The rows that a tier makes of records, and the sinks that are new to its checkpoint.

    Lookups that are not given stay at the version they start with, and none is written down. Without `live`
    rows of that kind are only counted.
    What Spark cannot resolve is a SpecError, what state does not fit a StateMismatch; in either case nothing
    has been written.
    """
    try:
        if spec.engine == "plain":
            for table in spec.enrich:
                if table.refresh:
                    say(f"engine = plain reads {table.name} once a start: it is not refreshed")
            events = plain_events(spark, records, spec, data, tier, postgres)
        else:
            if lookups is None:
                lookups = Lookups(spark, references(spec, data, postgres, say), checkpoint, say)
            events = enriched(spark, records, spec, tier, lookups)
        layout = measure_layout(events, spec) if tier == "groups" else []
        state, new_sinks = checkpoint.fit(StateLayout.of(spec, layout), say)
        if tier == "events":
            return event_rows(events, spec), new_sinks
        if spec.engine == "plain":
            return plain_groups(events, spec), new_sinks
        return group(spark, events, spec, state.layouts, live=live), new_sinks
    except AnalysisException as error:
        raise SpecError(spec.name, [first_line(error)]) from error


def build_realtime(
    spark: SparkSession, records: DataFrame, spec: PipelineSpec, lookups: Lookups, sink: KafkaSink
) -> DataFrame:
    """The Kafka records that a realtime sink gets of records; what Spark cannot resolve is a SpecError."""
    try:
        return realtime_rows(enriched(spark, records, spec, "events", lookups), spec, sink)
    except AnalysisException as error:
        raise SpecError(spec.name, [first_line(error)]) from error


def enriched(
    spark: SparkSession, records: DataFrame, spec: PipelineSpec, tier: Tier, lookups: Lookups
) -> DataFrame:
    """Decoded, cleansed and enriched events of a tier, by the kernel."""
    return lookups.enrich(clean(decode(spark, records, spec, tier), spec, tier))
