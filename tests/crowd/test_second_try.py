"""A test that fails beside others runs once more alone; any other failure counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crowd import __main__ as crowd
from tests.crowd.outcome import Outcome

ROOT = Path(__file__).parents[2]

# What fails in a worker of xdist and passes in a process of its own, and what kills the worker.
UPSET = "import os\ndef test_upset():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n"
CRASHING = UPSET.replace("    assert", "    alone =") + "    alone or os.kill(os.getpid(), 9)\n"
FAILING_ONCE = (
    "from pathlib import Path\nmark = Path(__file__ + '.mark')\n"
    "def test_first():\n    seen = mark.exists()\n    mark.touch()\n    assert seen\n"
    "def test_second():\n    pass\n"
)


def run(
    directory: Path, text: str, *, more: Sequence[str] = ("-n", "1")
) -> subprocess.CompletedProcess[str]:
    """Runs the crowd over a file of tests with ``text``."""
    (directory / "test_file.py").write_text(text)
    flags = [*more, "-p", "no:cacheprovider", "--rootdir", str(directory), str(directory)]
    return subprocess.run(
        [sys.executable, "-m", "tests.crowd", *flags],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if "PYTEST" not in name},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_test_that_passes_alone_is_named_and_forgiven(tmp_path: Path) -> None:
    ended = run(tmp_path, UPSET)
    assert ended.returncode == 0, ended.stdout
    assert "Passed alone, failed beside others: 1 test: test_file.py::test_upset" in ended.stdout


def test_a_test_that_ends_its_process_is_not_tried_again(tmp_path: Path) -> None:
    ended = run(tmp_path, CRASHING)
    assert ended.returncode == 1, ended.stdout
    assert "1 test ended the process: test_file.py::test_upset" in ended.stdout
    assert "Once more" not in ended.stdout


def test_tests_that_were_never_run_are_not_forgiven(tmp_path: Path) -> None:
    ended = run(tmp_path, FAILING_ONCE, more=("-n", "0", "-x"))
    assert ended.returncode == 1, ended.stdout
    assert "some tests were not run" in ended.stdout


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """The outcomes that the next runs of pytest have."""
    outcomes: list[Outcome] = []

    def next_outcome(flags: Sequence[str], outcome: Path, only: Path | None = None) -> Outcome:
        return outcomes.pop(0)

    monkeypatch.setattr(crowd, "_run", next_outcome)
    return outcomes


@pytest.mark.parametrize("status", [0, 3])
def test_an_internal_error_of_pytest_repeats_all_tests_once(
    runs: list[Outcome], status: int
) -> None:
    runs += [Outcome(3, failed=["a"]), Outcome(status)]
    assert crowd.main([]) == status
    assert not runs


@pytest.mark.parametrize("again", [Outcome(1, failed=["a"]), Outcome(5), Outcome(0), Outcome(3)])
def test_a_test_that_fails_alone_fails_the_run(runs: list[Outcome], again: Outcome) -> None:
    runs += [Outcome(1, failed=["a"]), again]
    assert crowd.main([]) != 0


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(1, failed=list("abcdef")),
        Outcome(1),
        Outcome(2, failed=["a"]),
        Outcome(-9),
    ],
    ids=["many", "unnamed", "interrupted or not collected", "killed"],
)
def test_failures_that_load_does_not_explain_are_not_retried(
    runs: list[Outcome], outcome: Outcome
) -> None:
    runs.append(outcome)
    assert crowd.main([]) == outcome.status
