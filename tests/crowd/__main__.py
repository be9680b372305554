"""All Python tests, several at a time; the few that failed, once more and alone.

    python -m tests.crowd -n 3 --dist loadfile [further flags of pytest]

Ends with 0 when every test passed beside the others, or alone at the second try. The second try is
for tests that a busy machine can upset; it says loudly which they were. It hides nothing else: more
than ``MAX_SECOND_TRIES`` failed tests, a test that crashed its process, tests that were not run
(``-x``), and whatever is not a test's failure (errors of collection, usage, interruption) end the
run as pytest ended it. An internal error of pytest or xdist names no test: after it, all tests run
once more.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crowd.outcome import Outcome

MAX_SECOND_TRIES = 5


def main(flags: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="innet-tests-") as directory:
        first, second = Path(directory, "beside_others.json"), Path(directory, "alone.json")
        beside_others = _run(flags, first)
        if beside_others.status == pytest.ExitCode.INTERNAL_ERROR:
            print("\nAll tests once more: pytest itself failed (INTERNALERROR above).", flush=True)
            first.unlink(missing_ok=True)
            beside_others = _run(flags, first)
        if beside_others.status != pytest.ExitCode.TESTS_FAILED:
            return beside_others.status
        obstacle = _why_not_again(beside_others)
        if obstacle:
            print(f"\nNot tried again: {obstacle}.", flush=True)
            return beside_others.status
        failed = beside_others.failed
        print(f"\nOnce more, alone: {_count(failed)} that failed beside others.", flush=True)
        return _verdict(failed, _run([*flags, "-n", "0"], second, only=first))


def _run(flags: Sequence[str], outcome: Path, only: Path | None = None) -> Outcome:
    """Runs pytest in a process of its own: a second run finds no modules of the first."""
    pytest_command = [sys.executable, "-m", "pytest", "-p", "tests.crowd.outcome"]
    selection = [] if only is None else [f"--only-failed-of={only}"]
    status = subprocess.run(
        [*pytest_command, *flags, f"--outcome={outcome}", *selection], check=False
    ).returncode
    return Outcome.read(outcome, status)


def _why_not_again(outcome: Outcome) -> str:
    if outcome.crashed:
        return f"{_count(outcome.crashed)} ended the process: {', '.join(outcome.crashed)}"
    if outcome.stopped_early:
        return "some tests were not run"
    if len(outcome.failed) > MAX_SECOND_TRIES:
        return f"{_count(outcome.failed)} failed, more than a busy machine explains"
    if not outcome.failed:
        return "pytest failed without naming a test"
    return ""


def _verdict(failed: Sequence[str], alone: Outcome) -> int:
    again = [test for test in failed if test not in alone.passed]
    if again or alone.status != pytest.ExitCode.OK:
        what = ", ".join(again) or "the run itself"
        print(f"\nFailed beside others and alone: {what}", flush=True)
        return alone.status or int(pytest.ExitCode.TESTS_FAILED)
    print(
        f"\nPassed alone, failed beside others: {_count(failed)}: {', '.join(failed)}\n"
        "These are defects of the tests or of innet: look at them.",
        flush=True,
    )
    return 0


def _count(tests: Sequence[str]) -> str:
    return f"{len(tests)} test{'' if len(tests) == 1 else 's'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
