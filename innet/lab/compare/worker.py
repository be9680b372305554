"""One rank of a comparison: ``python -m innet.lab.compare.worker CONTENDER SOCKET CALL...``

It joins the contender's group and takes turns (:mod:`innet.lab.harness`) until the conductor closes
the connection.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.lab.compare.contender import Contender, join
from innet.lab.compare.pattern import FloatArray, Pattern
from innet.lab.harness import Hello, process_cpu_s, serve


class AllreduceTask(BaseModel):
    """Allreduces of one size by one algorithm."""

    call: str = Field(description="the contender's own name of the algorithm")
    size_bytes: int
    operations: int = Field(
        ge=1,
        description="allreduces back to back; when more than one, the first brings the ranks "
        "together and is not reported",
    )

    def __str__(self) -> str:
        return f"{self.call} of {self.size_bytes} bytes"


class AllreduceResult(BaseModel):
    """One rank's times and counters of a turn."""

    durations_s: list[float] = Field(description="of each reported operation")
    correct: bool = Field(description="whether every result equalled the sum, element by element")
    cpu_s: float = Field(description="processor time of the process in all operations")
    tcp_retransmissions: int = Field(description="TCP segments sent again in the namespace")


class AllreduceWork:
    """Takes turns for one rank of a contender."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._pattern = Pattern(4, contender.size)
        self._size_bytes = 4

    def prepare(self, turn: int, task: dict[str, Any]) -> None:
        """Make the contribution and the expected sum, and load the contribution."""
        self._task = AllreduceTask.model_validate(task)
        if self._task.size_bytes != self._size_bytes:
            self._size_bytes = self._task.size_bytes
            self._pattern = Pattern(self._size_bytes, self._contender.size)
        self._contribution = self._pattern.contribution(self._contender.rank, turn)
        self._total = self._pattern.total(turn)
        self._results: list[FloatArray] = []
        self._durations_s: list[float] = []
        self._cpu_s = 0.0
        self._contender.load(self._task.call, self._contribution)
        self._retransmissions = _tcp_retransmissions()

    def run(self) -> None:
        """Do the operations."""
        for operation in range(self._task.operations):
            if operation:
                self._results.append(self._contender.result().copy())
                self._contender.load(self._task.call, self._contribution)
            cpu_before_s = process_cpu_s()
            begun_s = time.monotonic()
            self._contender.allreduce()
            self._durations_s.append(time.monotonic() - begun_s)
            self._cpu_s += process_cpu_s() - cpu_before_s

    def report(self) -> AllreduceResult:
        """Compare all results with the sum."""
        retransmissions = _tcp_retransmissions() - self._retransmissions
        self._results.append(self._contender.result())
        # Of several operations, the first brings the ranks together.
        untimed = 1 if self._task.operations > 1 else 0
        return AllreduceResult(
            durations_s=self._durations_s[untimed:],
            correct=all(np.array_equal(result, self._total) for result in self._results),
            cpu_s=self._cpu_s,
            tcp_retransmissions=retransmissions,
        )


def _tcp_retransmissions() -> int:
    """``RetransSegs`` of this network namespace (RFC 4022)."""
    names, values = (
        line.split()
        for line in Path("/proc/self/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


def main() -> None:
    """Run as the rank that the environment names."""
    # A worker must not outlive the process that started it, such as Open MPI's daemon.
    set_parent_death_signal(signal.SIGKILL)
    name, path, *calls = sys.argv[1:]
    contender = join(name, calls)
    hello = Hello(team=name, rank=contender.rank, version=contender.version)
    serve(path, hello, AllreduceWork(contender))
    contender.close()


if __name__ == "__main__":
    main()
