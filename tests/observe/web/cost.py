"""What the page of --web costs: ``scripts/web-cost.sh [ROUNDS]``.

One job and one server with one reader run all the time; a signal stops the server in the phases
without the page. Nothing else differs, no process begins or ends, and phases can be short: each is
an interval of telemetry, so that each phase with the page has a look of the doctor. A round is four
phases, without, with, with, without: a machine that grows slower at a steady pace favours neither
side, and the server never stops for so long that the broker closes its connection. A round's figure
is the ratio of its two sides; the result is the median of all rounds, with the interval that
resampled rounds have in 95 % of the cases (bootstrap).

A phase's figure is its time for each allreduce, of which the first and the last count in part: not
the median, which would hide what the page takes at intervals. Beside it is the processor time of
the run and the server for each allreduce: it varies less than the time that passes.

A browser on the same machine would take the processor that the network needs, so the reader is one
that reads the lines and draws nothing, as a browser on another machine is for this one.
"""

from __future__ import annotations

import contextlib
import os
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

from innet.cluster.emulation.runs import find_run
from tests.observe.web.pages import Client

_INNET = str(Path(sys.executable).with_name("innet"))
_PHASE_S = 2.0
_ROUND = (False, True, True, False)
"""Of each phase of a round: whether the page is open."""
_WARM_UP = 40
"""Allreduces before the first round."""
_SETTLE_S = 5.0
"""After the server's start: the page reads its history, and the first looks."""
_AIM = 0.02
_RESAMPLES = 10_000
_CPUCLOCK_SCHED = 2  # include/linux/posix-timers.h
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
        allreduce_s: time of an allreduce.
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
            while len(_times(folder)) < _WARM_UP:
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


def _allreduces(folder: Path, since_s: float, until_s: float) -> float:
    """How many allreduces fall between two moments; parts of them count as such."""
    while (times := _times(folder)) and sum(times[-1]) < until_s:
        time.sleep(0.02)  # the last one is under way
    inside = ((max(at, since_s), min(at + took, until_s), took) for at, took in times)
    return sum((end - begin) / took for begin, end, took in inside if end > begin)


@contextlib.contextmanager
def _page(run: str) -> Iterator[int]:
    """A server of the page with one reader, which has the history; yields the server's pid."""
    command = [_INNET, "watch", run, "--web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        client = Client(server.stdout.readline().split()[-1])
        client.enter()
        reader = threading.Thread(target=client.read_lines, daemon=True)
        reader.start()
        try:
            time.sleep(_SETTLE_S)
            yield server.pid
        finally:
            server.send_signal(signal.SIGCONT)
            server.terminate()


def _used_s(*pids: int) -> float:
    """Processor time of processes, by their clocks: the sums of /proc count in ticks."""
    return sum(time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED) for pid in pids)


def _phase(run: str, folder: Path, server: int, *, with_page: bool) -> _Phase:
    os.kill(server, signal.SIGCONT if with_page else signal.SIGSTOP)
    record = find_run(run)
    pids = [record.launcher.pid, *(p.identity.pid for p in record.processes)]
    began_s, used_s, served_s = time.monotonic(), _used_s(*pids), _used_s(server)
    time.sleep(_PHASE_S)
    ended_s = time.monotonic()
    served_s = _used_s(server) - served_s
    used_s = _used_s(*pids) - used_s + served_s
    count = _allreduces(folder, began_s, ended_s)
    span_s = ended_s - began_s
    return _Phase(span_s / count, used_s / count, served_s / span_s)


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the medians of resampled rounds."""
    source = random.Random(1)
    resampled = (source.choices(ratios, k=len(ratios)) for _ in range(_RESAMPLES))
    medians = sorted(map(statistics.median, resampled))
    return medians[_RESAMPLES // 40], medians[-_RESAMPLES // 40 - 1]


def _report(what: str, rounds: Sequence[Sequence[float]]) -> None:
    """Print the medians of a figure of all rounds, and whether they show that the aim is met."""
    sides = [
        [statistics.fmean(f for f, page in zip(figures, _ROUND, strict=True) if page == is_open)
         for figures in rounds]
        for is_open in (False, True)
    ]  # fmt: skip
    ratios = [beside / without - 1 for without, beside in zip(*sides, strict=True)]
    low, high = _interval(ratios)
    verdict = "at most" if high <= _AIM else "more than" if low > _AIM else "not told from"
    print(
        f"{what}: {1e3 * statistics.median(sides[0]):.1f} ms without the page, "
        f"{1e3 * statistics.median(sides[1]):.1f} ms with it; {len(ratios)} rounds, median "
        f"{100 * statistics.median(ratios):+.2f} %, 95 % interval {100 * low:+.2f} to "
        f"{100 * high:+.2f} %: {verdict} {100 * _AIM:g} %"
    )


def main(rounds: int) -> None:
    """Measure, and print the differences of the rounds and the server's share of a core."""
    run = f"cost-{uuid.uuid4().hex[:6]}"
    up = [_INNET, "up", "leaf-spine-16", "--rate", "1gbit", "--name", run, "--detach"]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    measured: list[list[_Phase]] = []
    try:
        with tempfile.TemporaryDirectory() as name, _job(run, Path(name)), _page(run) as server:
            for _ in range(rounds):
                measured.append([_phase(run, Path(name), server, with_page=p) for p in _ROUND])
    finally:
        subprocess.run([_INNET, "down", run], check=True, stdout=subprocess.DEVNULL)
    _report("processor time of an allreduce", [[p.processor_s for p in r] for r in measured])
    _report("time of an allreduce", [[p.allreduce_s for p in r] for r in measured])
    shares = [p.server for r in measured for p, page in zip(r, _ROUND, strict=True) if page]
    print(f"server: {100 * statistics.median(shares):.2f} % of a core (median of the phases)")


if __name__ == "__main__":
    main(int(sys.argv[1]))
