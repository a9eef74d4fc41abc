"""Stops the services of a data directory when the process that wanted them is gone, however it went.

`python -m penstock.local.leash DATA_DIR PARENT_PID`. A process of its own, because a killed process runs no
handler. It watches the parent's pid and not a pipe, which a forked grandchild would keep open; and it does
without PR_SET_PDEATHSIG, which fires when the starting *thread* ends and exists on Linux alone.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from penstock.local.services import Services
from penstock.paths import DataDir

POLL_S = 0.2


def main() -> None:
    root, parent = Path(sys.argv[1]), int(sys.argv[2])
    while os.getppid() == parent:
        time.sleep(POLL_S)
    Services(DataDir(root)).stop()


if __name__ == "__main__":
    main()
