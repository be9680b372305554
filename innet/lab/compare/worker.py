"""One rank of a comparison: ``python -m innet.lab.compare.worker CONTENDER SOCKET CALL...``

It joins the contender's group, connects to the comparison's socket, and takes turns until the
comparison hangs up.
"""

from __future__ import annotations

import resource
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.lab.compare.contenders.contender import Contender
from innet.lab.compare.contenders.registry import join
from innet.lab.compare.pattern import FloatArray, Pattern
from innet.lab.compare.turns import Check, Done, Go, Hello, Prepare, Ready, Report


class Worker:
    """Takes turns for one contender."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._pattern = Pattern(4, contender.size)
        self._size_bytes = 4

    def serve(self, connection: socket.socket, name: str) -> None:
        """Answer until the other side hangs up; ``name`` is the contender's."""
        lines = connection.makefile("rb")
        contender = self._contender
        connection.sendall(
            Hello(contender=name, rank=contender.rank, version=contender.version).line()
        )
        while line := lines.readline():
            prepare = Prepare.model_validate_json(line)
            turn = self._prepare(prepare)
            connection.sendall(Ready(turn=prepare.turn).line())
            if not (line := lines.readline()):
                return
            turn.take(Go.model_validate_json(line))
            connection.sendall(Done(turn=prepare.turn).line())
            if not (line := lines.readline()):
                return
            Check.model_validate_json(line)
            connection.sendall(turn.report().line())

    def _prepare(self, prepare: Prepare) -> _Turn:
        self._use_size(prepare.size_bytes)
        rank = self._contender.rank
        return _Turn(
            self._contender,
            prepare,
            contribution=self._pattern.contribution(rank, prepare.turn),
            total=self._pattern.total(prepare.turn),
        )

    def _use_size(self, size_bytes: int) -> None:
        if size_bytes != self._size_bytes:
            self._pattern = Pattern(size_bytes, self._contender.size)
            self._size_bytes = size_bytes


class _Turn:
    """One turn: all arrays are there before the start, and are compared after everyone's end."""

    def __init__(
        self, contender: Contender, prepare: Prepare, contribution: FloatArray, total: FloatArray
    ) -> None:
        self._contender = contender
        self._prepare = prepare
        self._contribution = contribution
        self._total = total
        self._results: list[FloatArray] = []
        self._durations_s: list[float] = []
        self._cpu_s = 0.0
        self._error: str | None = None
        contender.load(prepare.call, contribution)
        self._retransmissions = _tcp_retransmissions()

    def take(self, go: Go) -> None:
        """Do the operations; an error is kept for the report."""
        time.sleep(max(0.0, go.start_s - time.monotonic()))
        try:
            for operation in range(self._prepare.operations):
                if operation:
                    self._results.append(self._contender.result().copy())
                    self._contender.load(self._prepare.call, self._contribution)
                self._time_one()
        except Exception as exception:  # whatever a foreign library raises is the turn's result
            traceback.print_exc()
            self._error = f"{type(exception).__name__}: {exception}"

    def report(self) -> Report:
        """Compare all results with the sum, and tell how it went."""
        retransmissions = _tcp_retransmissions() - self._retransmissions
        if self._error is None:
            self._results.append(self._contender.result())
        # Of several operations, the first brings the ranks together.
        untimed = 1 if self._prepare.operations > 1 else 0
        return Report(
            turn=self._prepare.turn,
            durations_s=self._durations_s[untimed:],
            correct=all(np.array_equal(result, self._total) for result in self._results),
            cpu_s=self._cpu_s,
            tcp_retransmissions=retransmissions,
            error=self._error,
        )

    def _time_one(self) -> None:
        cpu_before_s = _cpu_s()
        begun_s = time.monotonic()
        self._contender.allreduce()
        self._durations_s.append(time.monotonic() - begun_s)
        self._cpu_s += _cpu_s() - cpu_before_s


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _tcp_retransmissions() -> int:
    """``RetransSegs`` of this network namespace (RFC 4022)."""
    names, values = (
        line.split()
        for line in Path("/proc/self/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


def main() -> None:
    """Run as the rank that the environment says."""
    # Whatever starts it, such as Open MPI's daemon: a worker shall not outlive it.
    set_parent_death_signal(signal.SIGKILL)
    name, path, *calls = sys.argv[1:]
    contender = join(name, calls)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        Worker(contender).serve(connection, name)
    contender.close()


if __name__ == "__main__":
    main()
