"""One rank of a comparison: ``python -m innet.compare.worker CONTENDER SOCKET CALL...``

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

from innet.compare.contenders.contender import Contender
from innet.compare.contenders.registry import join
from innet.compare.pattern import Pattern
from innet.compare.turns import Go, Hello, Prepare, Ready, Report
from innet.emulation.syscalls import set_parent_death_signal


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
            self._use_size(prepare.size_bytes)
            contender.load(prepare.call, self._pattern.contribution(contender.rank, prepare.turn))
            connection.sendall(Ready(turn=prepare.turn).line())
            if not (line := lines.readline()):
                return
            connection.sendall(self._take(prepare, Go.model_validate_json(line)).line())

    def _use_size(self, size_bytes: int) -> None:
        if size_bytes != self._size_bytes:
            self._pattern = Pattern(size_bytes, self._contender.size)
            self._size_bytes = size_bytes

    def _take(self, prepare: Prepare, go: Go) -> Report:
        durations_s: list[float] = []
        correct = True
        cpu_s = 0.0
        error = None
        contribution = self._pattern.contribution(self._contender.rank, prepare.turn)
        total = self._pattern.total(prepare.turn)
        retransmissions = _tcp_retransmissions()
        time.sleep(max(0.0, go.start_s - time.monotonic()))
        try:
            for operation in range(prepare.operations):
                if operation:
                    self._contender.load(prepare.call, contribution)
                cpu_before_s = _cpu_s()
                begun_s = time.monotonic()
                self._contender.allreduce()
                durations_s.append(time.monotonic() - begun_s)
                cpu_s += _cpu_s() - cpu_before_s
                correct &= bool(np.array_equal(self._contender.result(), total))
        except Exception as exception:  # whatever a foreign library raises is the turn's result
            traceback.print_exc()
            error = f"{type(exception).__name__}: {exception}"
        if prepare.operations > 1:
            durations_s = durations_s[1:]
        return Report(
            turn=prepare.turn,
            durations_s=durations_s,
            correct=correct,
            cpu_s=cpu_s,
            tcp_retransmissions=_tcp_retransmissions() - retransmissions,
            error=error,
        )


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
