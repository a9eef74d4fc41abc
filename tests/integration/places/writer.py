"""A writer in a process of its own, to be stopped or killed. It says what becomes of each batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.errors import Fenced, PositionLost, ReplayDiffers, SinkError
from tests.integration.places.place import Place
from tests.integration.places.stores import STORES


def start_writer(place: Place, first: int) -> subprocess.Popen[str]:
    """One that writes all batches from the first on. It needs a place with the settings of its store."""
    [store] = [name for name, kind in STORES.items() if isinstance(place, kind)]
    where = [store, place.address, place.target, place.query]
    command = [sys.executable, "-m", "tests.integration.places.writer", *where, str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def write_on(place: Place, number: int) -> None:
    """As a pipeline does: throw the writer away after an error, and stop where going on would do harm."""
    while True:
        sink = place.writer()
        try:
            while True:
                print(number, sink.write(place.batch(number)).replayed, flush=True)  # noqa: T201
                number += 1
        except SinkError as error:
            print(type(error).__name__, flush=True)  # noqa: T201
            if isinstance(error, Fenced | PositionLost | ReplayDiffers):
                return


if __name__ == "__main__":
    _, store, address, target, query, first = sys.argv
    write_on(STORES[store](address, target, query), int(first))
