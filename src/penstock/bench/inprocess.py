"""A pipeline inside this process, on the Spark of a rig: it costs no start, and its receipts are at hand."""

from __future__ import annotations

import threading
import time
from typing import Any

from penstock.bench.rig import Rig
from penstock.engine.outputs import Endpoints
from penstock.engine.pipeline import READY, Pipeline
from penstock.engine.receipt import Receipt
from penstock.errors import PenstockError
from penstock.observe.recorder import Recorder
from penstock.spec import PipelineSpec

_LOOK_S = 0.02


class Run:
    """Runs until told to stop; watched by a recorder, or by nobody."""

    def __init__(self, rig: Rig, spec: PipelineSpec, recorder: Recorder | None = None) -> None:
        at = Endpoints(rig.addresses.kafka, rig.addresses.clickhouse, rig.addresses.postgres)
        self.receipts: list[tuple[float, Receipt]] = []
        """Each with the moment it came, by the clock of time.perf_counter."""
        self.ready = threading.Event()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._recorder = recorder
        self._pipeline = Pipeline(
            spec, rig.data, at, rig.spark, on_receipt=self._keep, on_progress=self._report, say=self._say
        )
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._pipeline.run(self._stop)
        except Exception as error:
            self._failure = error

    def _keep(self, receipt: Receipt) -> None:
        self.receipts.append((time.perf_counter(), receipt))
        if self._recorder:
            self._recorder.receipt(receipt)

    def _report(self, report: dict[str, Any]) -> None:
        if self._recorder:
            self._recorder.progress(report)

    def _say(self, text: str) -> None:
        if text == READY:
            self.ready.set()

    @property
    def records(self) -> int:
        """Read and written so far."""
        return sum(receipt.records for _, receipt in self.receipts)

    @property
    def closed(self) -> int:
        """Sessions or windows so far."""
        return sum(receipt.closed for _, receipt in self.receipts)

    def wait_for(self, records: int, within_s: float, *, closed: int = 0) -> None:
        """Until so many records are written, and so many sessions closed."""
        deadline = time.monotonic() + within_s
        while self.records < records or self.closed < closed:
            if self._failure:
                raise self._failure
            if time.monotonic() > deadline:
                raise PenstockError(f"{self.records:,} of {records:,} records within {within_s:.0f} s")
            time.sleep(_LOOK_S)

    def __enter__(self) -> Run:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._pipeline.close()
