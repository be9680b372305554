"""What the page of --web costs: ``scripts/web-cost.sh [ROUNDS]``.

One job runs all the time. Each round has a phase with the page and one without, in turns which is
first, so that a machine that grows slower or a placement of this job favours neither. Starting a
server is in no phase. A phase's figure is the mean time of its allreduces, not the median, which
would hide what the page takes at intervals. Beside it is the processor time of the machine's run:
it varies less than the time that passes, above all where other programs run.

A browser on the same machine would take the processor that the network needs, so the reader is one
that reads the lines and draws nothing, as a browser on another machine is for this one.
"""

from __future__ import annotations

import contextlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from innet.cluster.emulation.runs import find_run
from tests.observe.web.pages import Client

_INNET = str(Path(sys.executable).with_name("innet"))
_PHASE_S = 12.0
_SETTLE_S = 3.0
"""After a server's start or end: the page reads its history, and the first looks."""
_AIM = 0.02
_JOB = """
import time
import numpy as np, innet
comm = innet.init()
x = np.ones(1 << 20, np.float32)
with open("times", "w", buffering=1) as times:
    while True:
        began = time.monotonic()
        comm.allreduce(x)
        if comm.rank == 0:
            print(began, time.monotonic() - began, file=times)
"""


@dataclass(frozen=True)
class _Phase:
    """What one phase took.

    Attributes:
        allreduce_s: mean time of an allreduce.
        processor_s: of all processes of the run and the server, for each allreduce.
        server: share of a core that the server used.
    """

    allreduce_s: float
    processor_s: float
    server: float


@contextlib.contextmanager
def _job(run: str, folder: Path) -> Iterator[None]:
    """The job, from its first allreduces on."""
    (folder / "job.py").write_text(_JOB)
    command = [_INNET, "run", "--on", run, "--hosts", "h0-h7", "--", "python", "job.py"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as job:
        try:
            while len(_times(folder)) < 20:
                if job.poll() is not None:
                    raise SystemExit(f"the job has ended: {' '.join(command)}")
                time.sleep(0.2)
            yield
        finally:
            job.send_signal(signal.SIGINT)


def _times(folder: Path) -> list[tuple[float, float]]:
    """When each allreduce began, and how long it took."""
    with contextlib.suppress(FileNotFoundError):
        lines = (folder / "times").read_text().rpartition("\n")[0].splitlines()
        return [(float(began), float(took)) for began, took in map(str.split, lines)]
    return []


@contextlib.contextmanager
def _page(run: str) -> Iterator[psutil.Process]:
    """A server of the page with one reader; yields the server."""
    command = [_INNET, "watch", run, "--web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        client = Client(server.stdout.readline().split()[-1])
        client.enter()
        reader = threading.Thread(target=client.read_lines, daemon=True)
        reader.start()
        try:
            yield psutil.Process(server.pid)
        finally:
            server.terminate()


def _processor_s(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _phase(run: str, folder: Path, server: psutil.Process | None) -> _Phase:
    time.sleep(_SETTLE_S)
    record = find_run(run)
    pids = [record.launcher.pid, *(p.identity.pid for p in record.processes)]
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    servers = [] if server is None else [server]
    began_s, before, before_server = (
        time.monotonic(),
        _processor_s(processes),
        _processor_s(servers),
    )
    time.sleep(_PHASE_S)
    ended_s = time.monotonic()
    served_s = _processor_s(servers) - before_server
    used_s = _processor_s(processes) - before + served_s
    times = [took for at, took in _times(folder) if began_s <= at < ended_s - took]
    return _Phase(
        allreduce_s=statistics.mean(times),
        processor_s=used_s / len(times),
        server=served_s / (ended_s - began_s),
    )


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the medians of resampled rounds."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[100], medians[-101]


def _report(what: str, without: Sequence[float], beside: Sequence[float]) -> tuple[float, float]:
    ratios = [b / a - 1 for a, b in zip(without, beside, strict=True)]
    low, high = _interval(ratios)
    print(
        f"{what}: {1e3 * statistics.median(without):.1f} ms without the page, "
        f"{1e3 * statistics.median(beside):.1f} ms with it; by round "
        f"{[round(100 * ratio, 1) for ratio in ratios]} %, median "
        f"{100 * statistics.median(ratios):+.1f} %, 95 % interval {100 * low:+.1f} to "
        f"{100 * high:+.1f} %"
    )
    return low, high


def main(rounds: int) -> None:
    """Measure in turn, and print the differences of the rounds and the server's share of a core."""
    run = f"cost-{uuid.uuid4().hex[:6]}"
    up = [_INNET, "up", "leaf-spine-16", "--rate", "1gbit", "--name", run, "--detach"]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    without: list[_Phase] = []
    beside: list[_Phase] = []
    try:
        with tempfile.TemporaryDirectory() as name, _job(run, Path(name)):
            for number in range(rounds):
                for with_page in ((False, True), (True, False))[number % 2]:
                    if with_page:
                        with _page(run) as server:
                            beside.append(_phase(run, Path(name), server))
                    else:
                        without.append(_phase(run, Path(name), None))
    finally:
        subprocess.run([_INNET, "down", run], check=True, stdout=subprocess.DEVNULL)
    _report(
        "processor time of an allreduce",
        [phase.processor_s for phase in without],
        [phase.processor_s for phase in beside],
    )
    low, high = _report(
        "allreduce",
        [phase.allreduce_s for phase in without],
        [phase.allreduce_s for phase in beside],
    )
    if low <= _AIM < high:
        print(f"{rounds} rounds do not tell whether it is more than {100 * _AIM:g} %; take more")
    print(f"server: {[round(100 * phase.server, 1) for phase in beside]} % of a core")


if __name__ == "__main__":
    main(int(sys.argv[1]))
