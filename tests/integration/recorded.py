"""A pipeline that runs in this process and is recorded, as `penstock run` has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.engine.checkpoint import last_offsets
from penstock.engine.pipeline import Pipeline
from penstock.observe.brokers import BrokerMeter
from penstock.observe.lag.ends import TopicEnds
from penstock.observe.lag.group import GroupOffsets
from penstock.observe.recorder import Recorder
from tests.integration.clicks import Rig

_PATIENCE_S = 120.0


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {_PATIENCE_S:.0f} s: {what}"
        time.sleep(0.1)


@contextmanager
def running(rig: Rig) -> Iterator[Recorder]:
    """Until the end of the block. That it stopped is not noted: it may as well have died."""
    source, stop = rig.spec.source, threading.Event()
    kafka = rig.addresses.kafka
    journal = rig.data.runs / rig.spec.name / "journal.jsonl"
    ends = TopicEnds(kafka, source.topic, source.partitions)
    group = GroupOffsets(kafka, source.topic)
    done = {rig.spec.name: last_offsets(rig.data.checkpoints / rig.spec.name, source.topic)}
    with Recorder(journal, ends, group, BrokerMeter(kafka), rig.spec.name, done) as recorder:
        recorder.watch(rig.spark)

        def tell(text: str) -> None:
            recorder.note(text)
            rig.say(text)

        pipeline = Pipeline(
            rig.spec, rig.data, rig.endpoints, rig.spark,
            on_receipt=recorder.receipt, on_progress=recorder.progress, say=tell,
        )  # fmt: skip
        worker = threading.Thread(target=pipeline.run, args=(stop,))
        worker.start()
        try:
            yield recorder
        finally:
            stop.set()
            worker.join()
            pipeline.close()


def has_read_all(recorder: Recorder) -> Callable[[], bool]:
    def holds() -> bool:
        lag = recorder.summary.lag
        return lag is not None and bool(lag.done) and lag.total == 0

    return holds
