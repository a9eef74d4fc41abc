"""Damage to what was written: by disks that are bad or full, by a store that forgets."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.faults.kills import kill_before_commit
from penstock.faults.program import until
from penstock.faults.scenario import NotHere, Unmet
from penstock.faults.trial import RECOVERED_WITHIN_S, Trial
from penstock.sinks.clickhouse import connect

_ATTEMPTS = 5
_DISK = "96m"
_BALLAST = "ballast"
_GIVES_UP_WITHIN_S = 5.0
_FULL = "No space left on device"


def checkpoint_corrupt(trial: Trial) -> None:
    """Damage the newest file of offsets, commits or state: the start must refuse and name it; mend it."""
    trial.await_some_batches()
    trial.host.program.kill()
    trial.strike()
    file = _needed(trial, trial.chance.choice(["offsets", "commits", "state"]))
    whole = file.read_bytes()
    how = trial.chance.choice(["emptied", "cut", "overwritten"])
    trial.chose = f"{file.relative_to(trial.host.checkpoint)} {how}"
    file.write_bytes(_damaged(whole, how, trial.chance))
    trial.host.start()
    trial.await_refusal(trial.host, f"{file.parent.name}/{file.name}", within_s=RECOVERED_WITHIN_S)
    file.write_bytes(whole)
    trial.host.start()
    trial.recover()


def _needed(trial: Trial, what: str) -> Path:
    """The newest file of a kind that the next batch cannot do without."""
    host = trial.host
    planned = host.last_planned()
    due = planned + 1 if host.is_committed(planned) else planned
    if what == "offsets":
        return host.checkpoint / "offsets" / str(planned)
    if what == "commits":
        return host.checkpoint / "commits" / str(due - 1)
    # A batch begins with the version of the state that bears its number.
    partition = trial.chance.randrange(trial.spec.grouping.partitions if trial.spec.grouping else 1)
    state = host.checkpoint / "state" / "0" / str(partition)
    snapshot = state / f"{due}.zip"
    return snapshot if snapshot.exists() else state / f"{due}.changelog"


def _damaged(whole: bytes, how: str, chance: random.Random) -> bytes:
    match how:
        case "emptied":
            return b""
        case "cut":
            return whole[: chance.randrange(1, len(whole))]
        case _:
            return chance.randbytes(len(whole))


def clickhouse_forgets(trial: Trial) -> None:
    """Let ClickHouse lose the rows of a batch that is half done, not its token: the replay brings them."""
    for _ in range(_ATTEMPTS):
        trial.await_some_batches()
        met = kill_before_commit(trial) and _forget(trial)
        trial.recover()
        if met:
            return
    raise Unmet(f"no batch with final sessions was half done at the kill, {_ATTEMPTS} times")


def _forget(trial: Trial) -> bool:
    """Delete the rows of the newest batch; whether there were any."""
    client = connect(trial.at.clickhouse)
    of_batch = f"WHERE batch = {trial.host.last_planned()}"
    rows = client.query(f"SELECT count() FROM sessions {of_batch}").result_rows[0][0]  # noqa: S608
    client.command(f"ALTER TABLE sessions DELETE {of_batch} SETTINGS mutations_sync = 1")
    client.close()
    return bool(rows)


@contextmanager
def small_disk(root: Path) -> Iterator[None]:
    """A file system of some MB for the checkpoints of a trial's first host."""
    checkpoints = root / "host-1" / "checkpoints"
    checkpoints.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "penstock", str(checkpoints)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        raise NotHere(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        shutil.copytree(checkpoints, root / "checkpoints", ignore=shutil.ignore_patterns(_BALLAST))
        subprocess.run(["umount", "--lazy", str(checkpoints)], check=True)


def disk_full(trial: Trial) -> None:
    """Fill the disk of the checkpoints, and make room some seconds later: wait, or stop and say why."""
    trial.await_some_batches()
    ballast = trial.host.checkpoint.parent / _BALLAST
    trial.strike()
    full_s = trial.chance.uniform(1, 30)
    trial.chose = f"full for {full_s:.0f} s"
    deadline_s = time.monotonic() + full_s
    while until(deadline_s):
        _fill(ballast)
    ballast.unlink()
    if (status := trial.host.program.await_end(_GIVES_UP_WITHIN_S)) is not None:
        trial.check_refusal(trial.host.program, status, [_FULL])
        trial.host.start()
    trial.recover()


def _fill(ballast: Path) -> None:
    """Take all the room there is; what others let go, too."""
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while file.write(bytes(65_536)):
            pass
