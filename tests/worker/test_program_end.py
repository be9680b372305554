"""How a program ended is recognised, and its worker is closed at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from innet.worker import current, process_end

PRELUDE = """
import atexit, sys
from innet.worker.process_end import ProgramEnd
def ask():
    end = ProgramEnd()
    atexit.register(lambda: print(end.failure()))
ask()
"""
CAUGHT = "try: sys.exit(3)\nexcept SystemExit: pass\n"

ENDS = [
    ("", "None"),
    ("sys.exit()", "None"),
    ("sys.exit(0)", "None"),
    (CAUGHT, "None"),
    (CAUGHT + "sys.exit(0)", "None"),
    ("sys.exit(3)", "ended by sys.exit(3)"),
    ("sys.exit('no data')", "ended by sys.exit: no data"),
    ("try: sys.exit(3)\nfinally: sys.stdout.flush()", "ended by sys.exit(3)"),
    ("sys.excepthook = print\nraise ValueError('no data')", "failed with ValueError: no data"),
]
# All ends of a file, and of programs that are started otherwise one end of each kind.
STARTED = [("file", *end) for end in ENDS] + [
    (how, *ENDS[number]) for how in ("module", "text") for number in (1, 4, 5, 8)
]


@pytest.mark.parametrize(("how", "program", "failure"), STARTED)
def test_the_cause_of_a_programs_end_is_determined(
    how: str, program: str, failure: str, tmp_path: Path
) -> None:
    text = PRELUDE + program + "\n"
    (tmp_path / "job.py").write_text(text)
    options = {"file": ["job.py"], "module": ["-m", "job"], "text": ["-c", text]}[how]
    ended = subprocess.run(
        [sys.executable, *options], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.splitlines()[-1] == failure


class FakeWorker:
    def __init__(self, ended: list[str]) -> None:
        self._ended = ended

    def close(self) -> None:
        self._ended.append("worker")


def test_an_exception_in_a_hook_does_not_prevent_the_close(monkeypatch):
    ended: list[str] = []

    def raise_error() -> None:
        raise ValueError("cannot leave")

    monkeypatch.setattr(current, "_worker", FakeWorker(ended))
    monkeypatch.setattr(process_end, "_hooks", [])
    process_end.before_close(lambda: ended.append("first group"))
    process_end.before_close(raise_error)
    process_end.before_close(lambda: ended.append("last group"))
    with pytest.raises(ValueError, match="cannot leave"):
        current.close_worker()
    assert ended == ["last group", "first group", "worker"]
