"""What ends a program is told from what it caught, however it was started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
