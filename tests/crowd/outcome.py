"""Which tests passed, failed, or ended their process: a plugin of pytest that writes it down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest


@dataclass
class Outcome:
    """How a run of pytest ended; tests by their node ids.

    Attributes:
        stopped_early: some tests were not run, as with ``-x``.
    """

    status: int = 0
    stopped_early: bool = False
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, status: int) -> Outcome:
        """What a run with ``status`` wrote to ``path``; nothing when it did not come that far."""
        written = json.loads(path.read_text()) if path.exists() else {}
        return cls(**{**written, "status": status})


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcome = Outcome()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tests = self._outcome
        if report.failed:
            # xdist's report of a test whose process ended belongs to no phase.
            known = tests.failed if report.when in ("setup", "call", "teardown") else tests.crashed
            if report.nodeid not in known:
                known.append(report.nodeid)
        elif report.passed and report.when == "call":
            tests.passed.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._outcome.stopped_early = bool(session.shouldfail or session.shouldstop)
        self._path.write_text(json.dumps(asdict(self._outcome)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcome", type=Path, help="write the outcome of each test to this file")
    parser.addoption("--only-failed-of", type=Path, help="run what failed by this file alone")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcome")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(path))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--only-failed-of")
    if path is None:
        return
    failed = set(Outcome.read(path, 0).failed)
    others = [item for item in items if item.nodeid not in failed]
    items[:] = [item for item in items if item.nodeid in failed]
    config.hook.pytest_deselected(items=others)
