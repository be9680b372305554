"""The libraries that a comparison measures: innet itself, Gloo and Open MPI.

``python -m innet.lab.compare.contender CONTENDER SOCKET CALL...`` is one rank. It joins the
contender's group and takes turns (:mod:`innet.lab.harness`) until the conductor closes the
connection.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import BaseModel, Field

import innet
from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import CollectiveError
from innet.lab.compare.pattern import FloatArray, Pattern
from innet.lab.turns import Joined, process_cpu_s, serve

if TYPE_CHECKING:
    import torch


ADDRESS_VARIABLE = "INNET_COMPARE_ADDRESS"
"""Environment variable with the IP address at which the other hosts reach this one."""

_GLOO_TIMEOUT = timedelta(seconds=300)  # the comparison's own deadline is shorter

_MPI_SUCCESS = 0
_MAX_VERSION_BYTES = 8192  # generous: Open MPI's MPI_MAX_LIBRARY_VERSION_STRING is 256


class Contender(Protocol):
    """One rank of a group that can do allreduces; all ranks call the same methods.

    Only :meth:`allreduce` is timed. A library may work in place or not; :meth:`load` prepares what
    it needs.

    Attributes:
        rank: of this process.
        size: number of ranks.
        version: of the library, for the report.
    """

    rank: int
    size: int
    version: str

    def load(self, call: str, contribution: FloatArray) -> None:
        """Prepare to sum ``contribution`` (float32, one dimension) by the algorithm ``call``."""
        ...

    def allreduce(self) -> None:
        """Sum the loaded contributions of all ranks."""
        ...

    def result(self) -> FloatArray:
        """The sum, of the same shape as the contribution."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class OwnContender:
    """innet; a call is the name of an algorithm, such as ``inc``."""

    def __init__(self, calls: Sequence[str]) -> None:
        self._communicators = {
            call: innet.init(group=f"compare-{call}", algorithm=call) for call in calls
        }
        first = next(iter(self._communicators.values()))
        self.rank = first.rank
        self.size = first.size
        self.version = f"innet {innet.__version__}"
        self._communicator = first
        self._contribution: FloatArray = np.empty(0, np.float32)
        self._out: FloatArray = np.empty(0, np.float32)

    def load(self, call: str, contribution: FloatArray) -> None:
        """Keep the contribution, and a separate buffer for the result."""
        self._communicator = self._communicators[call]
        self._contribution = contribution
        if self._out.shape != contribution.shape:
            self._out = np.zeros_like(contribution)

    def allreduce(self) -> None:
        """One allreduce, out of place."""
        self._communicator.allreduce(self._contribution, out=self._out)

    def result(self) -> FloatArray:
        """The output buffer."""
        return self._out

    def close(self) -> None:
        """Close all communicators."""
        for communicator in self._communicators.values():
            communicator.close()


class GlooContender:
    """Gloo of PyTorch; the call ``ring`` is its allreduce, ``push`` a gather and a broadcast.

    ``push`` is a parameter server as users write it on TCP: all ranks send to rank 0 at once.
    """

    def __init__(self) -> None:
        """Join the group that torchrun's variables and :data:`ADDRESS_VARIABLE` describe."""
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.version = f"Gloo of PyTorch {torch.__version__}"
        self._torch = torch
        # Any: PyTorch's stubs leave out what its compiled process groups can do.
        self._distributed: Any = torch.distributed
        store = self._distributed.TCPStore(
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            self.size,
            is_master=self.rank == 0,
            timeout=_GLOO_TIMEOUT,
        )
        # The device is given by address: by interface, Gloo would take the first address, which
        # other hosts have no route to.
        gloo = self._distributed.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=os.environ[ADDRESS_VARIABLE])]
        options._timeout = _GLOO_TIMEOUT
        self._group = gloo(store, self.rank, self.size, options)
        self._call = "ring"
        self._buffer = torch.zeros(0)
        self._gathered: list[torch.Tensor] = []

    def load(self, call: str, contribution: FloatArray) -> None:
        """Copy the contribution: Gloo's allreduce works in place."""
        if call not in ("ring", "push"):
            raise CollectiveError(f"Gloo has no algorithm {call!r}; known are ring and push")
        if self._buffer.numel() != contribution.size:
            self._buffer = self._torch.empty(contribution.size)
            self._gathered = []
        if call == "push" and self.rank == 0 and not self._gathered:
            self._gathered = [self._torch.zeros_like(self._buffer) for _ in range(self.size)]
        self._call = call
        self._buffer.copy_(self._torch.from_numpy(contribution))

    def allreduce(self) -> None:
        """One sum over all ranks."""
        if self._call == "ring":
            self._group.allreduce([self._buffer]).wait()
        else:
            self._push()

    def result(self) -> FloatArray:
        """The buffer, viewed as an array."""
        array: FloatArray = self._buffer.numpy()
        return array.astype(np.float32, copy=False)

    def close(self) -> None:
        """Nothing: the sockets end with the process."""

    def _push(self) -> None:
        gather = self._distributed.GatherOptions()
        gather.rootRank = 0
        outputs = [self._gathered] if self.rank == 0 else []
        self._group.gather(outputs, [self._buffer], gather).wait()
        for other in self._gathered[1:]:
            self._buffer.add_(other)
        broadcast = self._distributed.BroadcastOptions()
        broadcast.rootRank = 0
        broadcast.rootTensor = 0
        self._group.broadcast([self._buffer], broadcast).wait()


class OpenMpiContender:
    """Open MPI through its C interface; every call is ``MPI_Allreduce``."""

    def __init__(self) -> None:
        """Initialise MPI; the process must have been started by ``mpirun``."""
        name = ctypes.util.find_library("mpi")
        if name is None:
            raise CollectiveError(
                "mpirun is installed, libmpi is not found. Install Open MPI (openmpi-bin), or "
                "compare without it."
            )
        # Open MPI's dynamic components expect the library's symbols in the global scope.
        self._mpi = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        self._call("MPI_Init", None, None)
        # Open MPI's handles are the addresses of these objects (mpi.h, OMPI_PREDEFINED_GLOBAL).
        self._world = self._handle("ompi_mpi_comm_world")
        self._float = self._handle("ompi_mpi_float")
        self._sum = self._handle("ompi_mpi_op_sum")
        self.rank = self._number("MPI_Comm_rank")
        self.size = self._number("MPI_Comm_size")
        self.version = self._version()
        self._contribution: FloatArray = np.empty(0, np.float32)
        self._out: FloatArray = np.empty(0, np.float32)

    def load(self, call: str, contribution: FloatArray) -> None:
        """Keep the contribution, and a separate buffer for the result."""
        self._contribution = np.ascontiguousarray(contribution)
        if self._out.shape != contribution.shape:
            self._out = np.zeros_like(contribution)

    def allreduce(self) -> None:
        """One ``MPI_Allreduce``."""
        self._call(
            "MPI_Allreduce",
            ctypes.c_void_p(self._contribution.ctypes.data),
            ctypes.c_void_p(self._out.ctypes.data),
            ctypes.c_int(self._contribution.size),
            self._float,
            self._sum,
            self._world,
        )

    def result(self) -> FloatArray:
        """The output buffer."""
        return self._out

    def close(self) -> None:
        """Finalise MPI."""
        self._call("MPI_Finalize")

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._mpi, function)(*arguments)
        if code != _MPI_SUCCESS:
            raise CollectiveError(f"{function} of Open MPI failed with code {code}")

    def _handle(self, symbol: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._mpi, symbol)))

    def _number(self, function: str) -> int:
        number = ctypes.c_int()
        self._call(function, self._world, ctypes.byref(number))
        return number.value

    def _version(self) -> str:
        text = ctypes.create_string_buffer(_MAX_VERSION_BYTES)
        length = ctypes.c_int()
        self._call("MPI_Get_library_version", text, ctypes.byref(length))
        return text.value.decode().split(",")[0].removesuffix(" ")


def join(name: str, calls: Sequence[str]) -> Contender:
    """Join the group of contender ``name`` as the rank that the environment names.

    Args:
        name: ``innet``, ``gloo``, ``openmpi`` or ``openmpi-shared``.
        calls: the algorithms that the comparison will use.
    """
    if name == "innet":
        return OwnContender(calls)
    if name == "gloo":
        return GlooContender()
    if name in ("openmpi", "openmpi-shared"):  # mpirun chooses between them
        return OpenMpiContender()
    raise CollectiveError(f"no contender {name!r}; known are innet, gloo, openmpi, openmpi-shared")


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
    hello = Joined(team=name, rank=contender.rank, version=contender.version)
    serve(path, hello, AllreduceWork(contender))
    contender.close()


if __name__ == "__main__":
    main()
