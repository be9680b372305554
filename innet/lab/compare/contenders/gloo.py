"""Gloo, as PyTorch ships it: its ring allreduce, and the same sum pushed through one host."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed

from innet.errors import CollectiveError
from innet.lab.compare.contenders.contender import ADDRESS_VARIABLE
from innet.lab.compare.pattern import FloatArray

# Any: PyTorch's stubs leave out what its compiled process groups can do.
distributed: Any = torch.distributed

_TIMEOUT = timedelta(seconds=300)  # the comparison's own deadline is shorter

RING = "ring"
PUSH = "push"


class GlooContender:
    """Calls: ``ring`` is Gloo's allreduce; ``push`` gathers to rank 0, adds there, broadcasts.

    ``push`` is a parameter server as one writes it on TCP: all ranks send at once, asked or not.
    """

    def __init__(self, *, rank: int, size: int, master: str, port: int, address: str) -> None:
        """Join the group; blocks until all ranks have.

        Args:
            rank: of this process.
            size: number of ranks.
            master: IP address of rank 0.
            port: TCP port of rank 0's store.
            address: IP address of this rank, at which the others reach it.
        """
        torch.set_num_threads(1)
        self.rank = rank
        self.size = size
        self.version = f"Gloo of PyTorch {torch.__version__}"
        store = distributed.TCPStore(master, port, size, is_master=rank == 0, timeout=_TIMEOUT)
        # The device is given by address: by interface, Gloo would take the first address, which
        # other hosts have no route to.
        options = distributed.ProcessGroupGloo._Options()
        options._devices = [distributed.ProcessGroupGloo.create_device(hostname=address)]
        options._timeout = _TIMEOUT
        self._group = distributed.ProcessGroupGloo(store, rank, size, options)
        self._call = RING
        self._buffer = torch.zeros(0)
        self._gathered: list[torch.Tensor] = []

    @classmethod
    def from_environment(cls) -> GlooContender:
        """Join as the environment says: the variables of ``torchrun``, and the own address."""
        return cls(
            rank=int(os.environ["RANK"]),
            size=int(os.environ["WORLD_SIZE"]),
            master=os.environ["MASTER_ADDR"],
            port=int(os.environ["MASTER_PORT"]),
            address=os.environ[ADDRESS_VARIABLE],
        )

    def load(self, call: str, contribution: FloatArray) -> None:
        """Copy the contribution: Gloo's allreduce works in place."""
        if call not in (RING, PUSH):
            raise CollectiveError(f"the Gloo contender has no {call!r}, only {RING} and {PUSH}")
        if self._buffer.numel() != contribution.size:
            self._buffer = torch.empty(contribution.size)
            self._gathered = []
        if call == PUSH and self.rank == 0 and not self._gathered:
            self._gathered = [torch.zeros_like(self._buffer) for _ in range(self.size)]
        self._call = call
        self._buffer.copy_(torch.from_numpy(contribution))

    def allreduce(self) -> None:
        """One sum over all ranks."""
        if self._call == RING:
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
        gather = distributed.GatherOptions()
        gather.rootRank = 0
        outputs = [self._gathered] if self.rank == 0 else []
        self._group.gather(outputs, [self._buffer], gather).wait()
        for other in self._gathered[1:]:
            self._buffer.add_(other)
        broadcast = distributed.BroadcastOptions()
        broadcast.rootRank = 0
        broadcast.rootTensor = 0
        self._group.broadcast([self._buffer], broadcast).wait()
