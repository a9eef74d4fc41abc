"""A rate that is more than one process can make, shared by several."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.errors import PenstockError
from penstock.produce.producer import STATS_EVERY_S, ProduceStats

_WORST = ("elapsed_s", "behind_ms", "behind_ms_max", "stalled_ms")
"""What is the greatest of all; everything else is the sum."""


def produce_by_several(
    commands: Sequence[Sequence[str]], stop: threading.Event, on_stats: Callable[[ProduceStats], None]
) -> ProduceStats:
    """Run `penstock produce` with each of these arguments, and tell how they stand together."""
    with TemporaryDirectory(prefix="penstock-produce-") as home:
        stats = [Path(home) / f"{number}.jsonl" for number in range(len(commands))]
        finals = [Path(home) / f"{number}.json" for number in range(len(commands))]
        produce = [sys.executable, "-m", "penstock.cli", "produce", "--with-parent"]
        running = [
            subprocess.Popen(
                [*produce, *command, "--stats", str(told), "--json", str(final)],
                # Ctrl-C reaches this process, which passes it on.
                start_new_session=True,
            )
            for command, told, final in zip(commands, stats, finals, strict=True)
        ]
        asked = False
        while any(process.poll() is None for process in running):
            told_to_stop = stop.wait(STATS_EVERY_S)
            broken = any(p.poll() and not f.exists() for p, f in zip(running, finals, strict=True))
            if (told_to_stop or broken) and not asked:
                asked = True
                for process in running:
                    process.send_signal(signal.SIGINT)
            if all(told.exists() for told in stats):
                on_stats(together([_last(told) for told in stats]))
        if not all(final.exists() for final in finals):
            codes = ", ".join(str(process.returncode) for process in running)
            raise PenstockError(
                f"a producer failed: their exit codes are {codes}", hint="What it said stands above."
            )
        return together([_stats(json.loads(final.read_text())) for final in finals])


def together(parts: Sequence[ProduceStats]) -> ProduceStats:
    """How several producers stand as one."""
    figures = {
        name: (max if name in _WORST else sum)(getattr(part, name) for part in parts)
        for name in ProduceStats.__dataclass_fields__
        if name != "trouble"
    }
    return ProduceStats(**figures, trouble=next((part.trouble for part in parts if part.trouble), ""))


def _last(told: Path) -> ProduceStats:
    """The last whole line; before the first, nothing."""
    lines = told.read_text().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    return _stats(json.loads(whole[-1])) if whole else ProduceStats()


def _stats(said: dict[str, float | int | str]) -> ProduceStats:
    return ProduceStats(**{name: said[name] for name in ProduceStats.__dataclass_fields__})  # type: ignore[arg-type]
