"""What the page of --web costs: ``scripts/web-cost.sh [ROUNDS]``.

A browser on the same machine would take the processor that the network needs, so the reader is one
that reads the lines and draws nothing, as a browser on another machine is for this one.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.observe.web.pages import Client

_INNET = str(Path(sys.executable).with_name("innet"))
_REPETITIONS = 40
_JOB = f"""
import time
import numpy as np, innet
comm = innet.init()
x = np.ones(1 << 20, np.float32)
for _ in range(5):
    comm.allreduce(x)
times = []
for _ in range({_REPETITIONS}):
    began = time.perf_counter()
    comm.allreduce(x)
    times.append(time.perf_counter() - began)
if comm.rank == 0:
    print("median", sorted(times)[len(times) // 2])
"""


def _median_s(run: str, folder: str) -> float:
    command = [_INNET, "run", "--on", run, "--hosts", "h0-h7", "--", "python", "job.py"]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return float(printed.stdout.rpartition("median ")[2].split()[0])


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


def main(rounds: int) -> None:
    """Measure in turn, and print the medians and the server's share of a core."""
    run = f"cost-{uuid.uuid4().hex[:6]}"
    up = [_INNET, "up", "leaf-spine-16", "--rate", "1gbit", "--name", run, "--detach"]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    without, beside, shares = [], [], []
    try:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "job.py").write_text(_JOB)
            for _ in range(rounds):
                without.append(_median_s(run, folder))
                with _page(run) as server:
                    began_s, before = time.monotonic(), server.cpu_times()
                    beside.append(_median_s(run, folder))
                    after, span_s = server.cpu_times(), time.monotonic() - began_s
                used_s = after.user + after.system - before.user - before.system
                shares.append(used_s / span_s)
    finally:
        subprocess.run([_INNET, "down", run], check=True, stdout=subprocess.DEVNULL)
    slower = statistics.median(beside) / statistics.median(without) - 1
    print(f"without: {[round(1e3 * s, 1) for s in without]} ms")
    print(f"with the page: {[round(1e3 * s, 1) for s in beside]} ms, {100 * slower:+.1f} %")
    print(f"server: {[round(100 * share, 1) for share in shares]} % of a core")


if __name__ == "__main__":
    main(int(sys.argv[1]))
