"""The journal, watched as it grows."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from penstock.faults.watch import Place, Watch

WITHIN_S = 20.0


def line(what: str, **content: object) -> str:
    return json.dumps({"what": what, "at_ms": 1, **content}, separators=(",", ":"))


def receipt(batch: int) -> str:
    return line("batch", receipt={"query": "q", "batch": batch})


def append(journal: Path, *texts: str) -> threading.Thread:
    def write() -> None:
        for text in texts:
            time.sleep(0.05)
            with journal.open("a") as file:
                file.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def instant(journal: Path, *texts: str) -> Place | None:
    watch = Watch(journal, "q")
    thread = append(journal, *texts)
    place = watch.instant_of_receipt(WITHIN_S)
    thread.join()
    return place


def test_the_instant_is_that_of_the_next_receipt_and_not_of_an_old_one(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(receipt(4) + "\n")
    assert instant(journal, line("note", text="x") + "\n", receipt(5) + "\n") == Place("q", 5)


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    text = receipt(3) + "\n"
    assert instant(tmp_path / "journal.jsonl", text[:40], text[40:]) == Place("q", 3)


def test_a_journal_in_which_nothing_happens_has_no_instant(tmp_path: Path) -> None:
    assert Watch(tmp_path / "journal.jsonl", "q").instant_of_receipt(0.01) is None
