"""A pipeline in the foreground: Spark, the journal, the view."""

from __future__ import annotations

import gc
import os
import threading
import time
import traceback
from pathlib import Path
from typing import NoReturn

import pyspark
from rich.live import Live

from penstock.cli.checking import stop_on_errors
from penstock.cli.common import (
    CRASHED,
    console,
    resolve_addresses,
    say,
)
from penstock.cli.view import Moment, plain_line, render, spans_of
from penstock.engine.checkpoint import last_offsets
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import READY, Pipeline, query_name, tiers
from penstock.engine.spark import open_spark
from penstock.errors import PenstockError, SourceError, SpecError, first_line
from penstock.local.kafka import exporters
from penstock.observe.board.alerts import LIMITS
from penstock.observe.brokers import BrokerMeter
from penstock.observe.journal import reached
from penstock.observe.lag.ends import TopicEnds
from penstock.observe.lag.group import GroupOffsets
from penstock.observe.machine import starting
from penstock.observe.prometheus.page import registry_of, serve
from penstock.observe.recorder import Recorder
from penstock.observe.run import journal_file, spec_file
from penstock.paths import DataDir
from penstock.preflight import KafkaFacts, Start, look, queries
from penstock.sinks.topics import ensure_source_topic
from penstock.spec import PipelineSpec, ServiceAddresses, to_toml
from penstock.toolchain import ensure_jars, ensure_java, ensure_kernel
from penstock.tuning import UNTUNED, untuned
from penstock.web.watched import Watched

_VIEW_EVERY_S = 1.0
_STOP_WITHIN_S = 10.0


def run_pipeline(
    spec: PipelineSpec,
    data: DataDir,
    stop: threading.Event,
    seconds: float | None,
    start: Start,
    metrics: int | None = None,
) -> Recorder:
    """`metrics` is the port on which Prometheus can ask for them, if it can."""
    if metrics is not None:
        serve_metrics(spec, data, metrics)
    addresses = resolve_addresses(spec, data)
    endpoints = Endpoints(addresses.kafka, addresses.clickhouse, addresses.postgres)
    behind = _behind(start.after, spec, data) if start.after else {}
    seen = look(spec, data, endpoints, journal_path(data, spec), start)
    stop_on_errors(seen)
    if start.create_topics:
        ensure_source_topic(addresses.kafka, spec.source.topic, spec.source.partitions)
    names = [query_name(spec, tier) for tier in tiers(spec)]
    done = {name: last_offsets(data.checkpoints / name, spec.source.topic) for name in names}
    ends = TopicEnds(addresses.kafka, spec.source.topic, spec.source.partitions)
    keep_spec(spec, data)
    group = GroupOffsets(addresses.kafka, spec.source.topic)
    brokers = BrokerMeter(addresses.kafka, exporters(data) if spec.services.kafka == "embedded" else None)
    with Recorder(journal_path(data, spec), ends, group, brokers, spec.name, done) as recorder:

        def tell(text: str) -> None:
            recorder.note(text)
            say(text)

        java, jars = ensure_java(say), ensure_jars("spark", say)
        kernel = ensure_kernel(jars, say) if spec.engine == "kernel" else None
        for sink in spec.sink if spec.engine == "plain" else ():
            if "final" not in sink.rows:
                tell(f"engine = plain makes final rows only: nothing will go to {sink.name}")
        recorder.note(starting(pyspark.__version__, java.version))
        if back := untuned():
            # As it was asked for: all names of a pattern would fill the page.
            recorder.note(f'{len(back)} settings turned back by {UNTUNED}="{os.environ[UNTUNED]}"')
        say("starting Spark ...")
        spark = open_spark(spec, data, kernel=kernel, jars=jars, java=java, master=start.master)
        recorder.watch(spark)
        pipeline = Pipeline(
            spec,
            data,
            endpoints,
            spark,
            on_receipt=recorder.receipt,
            on_progress=recorder.progress,
            say=tell,
            adopt=start.adopt,
            start=behind,
            first=seen.kafka.first if start.accept_loss and isinstance(seen.kafka, KafkaFacts) else None,
        )
        # All that is there now stays. Looking through it for garbage stops a batch for 50 ms and more.
        gc.freeze()
        failures: list[BaseException] = []
        worker = threading.Thread(
            target=_guarded, args=(pipeline, stop, failures), name="pipeline", daemon=True
        )
        worker.start()
        _watch(spec, recorder, worker, stop, seconds)
        # A stuck JVM must not keep a person waiting: a batch that is cut off comes again at the next start.
        worker.join(timeout=_STOP_WITHIN_S)
        recorder.note(f"failed: {first_line(failures[0])}" if failures else "stopped")
        if failures:
            _raise(failures[0])
    if worker.is_alive():
        os._exit(1)
    spark.stop()
    pipeline.close()
    return recorder


def serve_metrics(spec: PipelineSpec, data: DataDir, port: int) -> None:
    watched = Watched(spec.name, data, spec, LIMITS, in_pipeline=True)
    at = serve(registry_of(lambda: [watched.measured(time.time_ns() // 1_000_000)]), port)
    say(f"metrics are at http://127.0.0.1:{at}/metrics")


def _behind(pipeline: str, spec: PipelineSpec, data: DataDir) -> dict[str, dict[int, int]]:
    """Where the queries of a pipeline begin that takes over from another, by name and partition."""
    if pipeline == spec.name:
        raise SpecError(
            "--after", [f"{pipeline} goes on from its checkpoint; for a new one: --set name={pipeline}-2"]
        )
    journal = data.runs / pipeline / "journal.jsonl"
    done = reached(journal)
    found = {name: done.get(pipeline + name.removeprefix(spec.name), {}) for name in queries(spec)}
    if not all(found.values()):
        raise SourceError(
            f"{journal} does not tell how far {pipeline} has come",
            hint="Name its data directory with --data, or read all of the topic, without --after.",
        )
    return found


def _raise(failure: BaseException) -> NoReturn:
    if isinstance(failure, PenstockError):
        raise failure
    # Spark's JVM died, or a bug: the log has the whole of it, and another start may go further.
    traceback.print_exception(failure)
    os._exit(CRASHED)


def keep_spec(spec: PipelineSpec, data: DataDir) -> None:
    """Leave the description beside the journal, for the page and for reports."""
    file = spec_file(data.runs / spec.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    shown = spec.model_copy(update={"services": ServiceAddresses(kafka=spec.services.kafka)})
    fresh = file.with_suffix(".new")
    fresh.write_text(to_toml(shown))
    fresh.replace(file)


def journal_path(data: DataDir, spec: PipelineSpec) -> Path:
    return journal_file(data.runs / spec.name)


def _guarded(pipeline: Pipeline, stop: threading.Event, failures: list[BaseException]) -> None:
    try:
        pipeline.run(stop)
    except BaseException as error:  # carried to the main thread, which shows it
        failures.append(error)


def _watch(
    spec: PipelineSpec,
    recorder: Recorder,
    worker: threading.Thread,
    stop: threading.Event,
    seconds: float | None,
) -> None:
    """Show the run until it ends or its time is up."""
    began = time.monotonic()

    def moment() -> Moment:
        note = recorder.summary.last_note
        notes = () if note == READY else (note,)
        elapsed_s = time.monotonic() - began
        return Moment(spec.name, elapsed_s, seconds, recorder.summary, None, notes, spans_of(spec))

    def over() -> bool:
        if seconds is not None and time.monotonic() - began >= seconds:
            stop.set()
        return stop.wait(_VIEW_EVERY_S) or not worker.is_alive()

    if console.is_terminal:
        with Live(render(moment()), console=console, auto_refresh=False) as live:
            while not over():
                live.update(render(moment()), refresh=True)
    else:
        while not over():
            say(plain_line(moment()))


def report(recorder: Recorder) -> dict[str, object]:
    summary = recorder.summary
    latency = summary.latency.percentiles()
    return {
        "batches": summary.batches,
        "decoded": summary.decoded,
        "rejected": summary.rejected,
        "late": summary.late,
        "sessions": {"opened": summary.opened, "closed": summary.closed, "corrected": summary.corrected},
        "latency_ms": {"p50": latency.p50, "p99": latency.p99, "max": latency.max},
        "lag_end": summary.lag.total if summary.lag else None,
    }
