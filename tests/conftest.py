"""Jobs of real processes over an emulated network."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from innet.cluster.emulation.network import Network
from innet.cluster.launch import JobFailed, Session
from innet.errors import EmulationError
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology, load_topology
from tests.in_turn import MARK

IN_TURN = Path(__file__).with_name("in_turn.py")

# The modules that benchmarks share, as a benchmark finds them. Last, because a script there may
# have the name of a library.
sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

# As `make pytest` sets it: `innet run` says how many threads it gives only where nothing is set.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell lets programs in the background ignore Ctrl-C, and nohup the hang-up; tests send both.
for ignored, usual in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, usual)

# As `innet` sets it: imports, the tests that are collected, and simulations make many objects and
# little garbage.
gc.set_threshold(50_000)

# How long an example takes says how busy the machine is, not whether the code is right.
# Each run draws other examples, so fewer of them find the same in time.
hypothesis.settings.register_profile("innet", deadline=None, max_examples=30)
hypothesis.settings.load_profile("innet")


# The folders whose files take longest. They come first: the processes of pytest then end together.
LONGEST_FIRST = (
    *("swarm", "cluster", "cli", "torch_suite", "torch_backend", "collectives", "docs", "lab"),
    *("telemetry", "observe", "apps", "attacks", "topology", "crowd", "faults", "kv"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the tests by folder, and leaves the order within a folder alone."""
    rank = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    tests = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(tests).parts[0]
        return rank.get(folder, len(rank))

    items.sort(key=place)


@dataclass
class JobResult:
    """How a job ended, what its workers printed, and what the nodes counted after it."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    failure: str = ""
    status: dict[str, dict[str, Any]] = field(default_factory=dict)

    def said(self, node: str, script: str = "") -> str:
        """Everything that the worker on ``node`` printed, or one ``script`` of several in turn."""
        lines = [line for label, line in self.lines if label == node]
        if script:
            begin = lines.index(MARK + script) + 1
            count = (n for n, line in enumerate(lines[begin:]) if line.startswith(MARK))
            lines = lines[begin:][: next(count, len(lines))]
        return "\n".join(lines)


class _Recorder:
    def __init__(self, result: JobResult) -> None:
        self._result = result

    def __call__(self, label: str, line: str) -> None:
        self._result.lines.append((label, line))


RunJob = Callable[..., JobResult]


@pytest.fixture(scope="session")
def netns_obstacle() -> str | None:
    """Why network namespaces cannot be used here, or ``None``."""

    async def launch_smallest() -> None:
        async with Network(load_topology("star:1"), mode="netns"):
            pass

    # Short enough for the paths of sockets, whatever the directory of this test is.
    with (
        tempfile.TemporaryDirectory(prefix="innet-test-") as directory,
        pytest.MonkeyPatch.context() as patch,
        ThreadPoolExecutor(1) as thread,
    ):
        patch.setenv("XDG_RUNTIME_DIR", directory)
        try:  # this thread may have the event loop of a browser
            thread.submit(lambda: asyncio.run(launch_smallest())).result()
        except EmulationError as error:
            return str(error)
    return None


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory whose path leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def _skip_without_netns(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("netns") is not None:
        obstacle = request.getfixturevalue("netns_obstacle")
        if obstacle is not None:
            pytest.skip(obstacle)


@pytest.fixture(scope="module")
def run_job(request: pytest.FixtureRequest) -> RunJob:
    """Runs a script of the ``workers`` beside the test once per host, or several in turn in one
    process, each with its arguments behind its name; checks nothing by itself."""
    workers = request.path.parent / "workers"

    def run(
        script: str | Sequence[str],
        arguments: Sequence[str] = (),
        *,
        topology: Topology | str = "star:4",
        mode: Mode = "local",
        algorithm: str = "inc",
        settings: Sequence[str] = (),
        prepare: Callable[[Session], Any] | None = None,
        trace: Path | None = None,
    ) -> JobResult:
        if isinstance(script, str):
            command = [str(workers / script), *arguments]
        else:
            command = [str(IN_TURN), *(f"{workers}/{called}" for called in script)]
        return asyncio.run(_run(command, topology, mode, algorithm, settings, prepare, trace))

    return run


async def _run(
    command: Sequence[str],
    topology: Topology | str,
    mode: Mode,
    algorithm: str,
    settings: Sequence[str],
    prepare: Callable[[Session], Any] | None,
    trace: Path | None,
) -> JobResult:
    result = JobResult()
    loaded = load_topology(topology) if isinstance(topology, str) else topology
    session = Session(
        loaded,
        mode=mode,
        settings=Settings().with_assignments(settings),
        output=_Recorder(result),
    )
    if prepare is not None:
        prepare(session)
    async with session:
        try:
            await session.run_workers([sys.executable, *command], algorithm=algorithm, trace=trace)
        except JobFailed as failure:
            result.failure = str(failure)
        result.status = await session.status()
    return result
