"""The ranks of a process group: its names, its timeout, its parts, its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroup

from innet.collectives import Communicator, Work, init
from innet.errors import DeadlineExceeded
from innet.node.messages import named_ranks
from innet.torch_backend.launcher import Launcher, Step
from innet.torch_backend.options import BACKEND_NAME, Options
from innet.torch_backend.work import CollectiveWork
from innet.worker.process_end import before_close, no_more_before_close

_TAG = -2
"""Tag of the messages of a monitored barrier; programs have tags from 0."""

_COORDINATOR = 0
_PATIENCE = 2.0
"""Number of timeouts within which rank 0 answers: it may itself be late by one."""


class RankGroup(ProcessGroup):
    """A process group of some of the job's ranks, without PyTorch's operations.

    It has no method called ``new_group``: PyTorch would call that to make every group.

    Attributes:
        communicator: carries out the operations; see its :meth:`~Communicator.stats` and
            :meth:`~Communicator.explain`.
        options: the options it was made with.
        launcher: starts the operations.
    """

    supports_splitting = True
    supports_coalescing = True

    def __init__(
        self, communicator: Communicator, options: Options | None = None, store: Store | None = None
    ) -> None:
        # The one constructor that takes subclasses; the stub does not list it.
        super().__init__(communicator.rank, communicator.size)  # type: ignore[call-arg]
        self.communicator = communicator
        communicator.overflow = "wrap"  # as Gloo and NCCL add integers
        self.options = options or Options()
        self.launcher = Launcher(communicator)
        self._store = store
        self._splits = 0
        self._name = ""
        self._description = "undefined"
        before_close(self.shutdown)

    def getBackendName(self) -> str:  # noqa: N802  (the name C++ looks for)
        """The name of the backend."""
        return BACKEND_NAME

    # PyTorch's own groups store their name in their C++ backends; this one has none.

    def getGroupName(self) -> str:  # noqa: N802
        """The name that PyTorch gave the group, by which functional collectives find it."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """PyTorch names the group after making it."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """The description that was passed to ``new_group(group_desc=...)``."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """PyTorch describes the group after making it."""
        self._description = description

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices whose tensors it takes."""
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device: torch.device) -> Self:  # type: ignore[override]
        """The backend for tensors of ``device``: the group itself.

        Raises:
            RuntimeError: it takes no such tensors; PyTorch's own groups raise the same.
        """
        if torch.device(torch.device(device).type) not in self._device_types:
            raise RuntimeError(f"the innet backend takes no tensors of device type {device}")
        return self

    def get_group_store(self) -> Store:
        """The store in which the group's ranks met.

        Raises:
            RuntimeError: they met elsewhere.
        """
        if self._store is None:
            raise RuntimeError("this group was made without a store")
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """From now on, operations have ``timeout`` from their start."""
        self.communicator.timeout_s = timeout.total_seconds()

    def split_group(  # type: ignore[override]
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Options | None = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> Self | None:
        """A group of some ranks of this one, in the order of their numbers.

        All ranks of this group call it. Each rank passes the part that it is in; a rank that is in
        no part passes any.

        Args:
            ranks: numbers in this group.
            timeout: of the new group's operations; by default this group's.
            opts: of the new group; by default this group's.
            group_name: of the new group; by default this group's with a number.
            group_desc: description of the new group.
            device_types: ignored: all devices share one network.

        Returns:
            The group, or ``None`` on a rank that is not in it.
        """
        self._splits += 1
        name = group_name or f"{self._name}:split{self._splits}"
        members = sorted(ranks)
        if self.rank() not in members:
            return None
        options = opts or self.options
        communicator = init(
            group=f"torch:{name}",
            algorithm=options.algorithm,
            timeout_s=self.communicator.timeout_s if timeout is None else timeout.total_seconds(),
            nodes=[self.communicator.nodes[rank] for rank in members],
        )
        store = None if self._store is None else PrefixStore(f"{name}/", self._store)
        group = type(self)(communicator, options, store)
        group.setGroupName(name)
        group.setGroupDesc(group_desc or f"{self._description}:split:{self._splits}")
        return group

    def shutdown(self) -> None:
        """Leave the group; ``destroy_process_group`` calls it. Safe to call twice."""
        no_more_before_close(self.shutdown)
        self.communicator.close()
        self.launcher.close()

    def abort(self) -> None:
        """End all operations under way here with an error, and leave the group without waiting.

        Threads that wait for these operations receive the error.
        """
        self.communicator.abort("the process group was aborted in this process")
        self.launcher.close()

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait for all ranks, and name those that are missing.

        ``dist.monitored_barrier`` takes no backend but Gloo: call this method instead.

        Raises:
            DeadlineExceeded: ranks are missing after ``timeout``, by default the group's; the
                message names the first of them, or with ``wait_all_ranks`` all of them.
            RankFailed: a rank has failed.
        """
        timeout_s = self.communicator.timeout_s if timeout is None else timeout.total_seconds()
        monitored_barrier(self.communicator, timeout_s, wait_all_ranks)

    # Several operations as one work.

    def stop_recording(self) -> None:
        """Drop the record since :meth:`_start_coalescing`; the operations go on."""
        self.launcher.end_batch()

    def _start_coalescing(self, device: torch.device) -> None:
        """Record the operations that start from now on, for :meth:`_end_coalescing`."""
        self.launcher.start_batch()

    def _end_coalescing(self, device: torch.device) -> CollectiveWork:
        """The work of all operations since :meth:`_start_coalescing`."""
        return self.launcher.end_batch()

    def run(
        self,
        start: Callable[[Communicator], Work[Any]],
        result: Sequence[torch.Tensor],
        finish: Callable[[Any], object] | None = None,
    ) -> CollectiveWork:
        """Start an operation that PyTorch has no call for, in order with the others.

        Args:
            start: starts it; called by the launcher alone.
            result: the tensors of the work.
            finish: receives the result of the operation; by default the operation fills the
                tensors.
        """
        started: list[Work[Any]] = []

        def submit() -> Work[Any]:
            started.append(start(self.communicator))
            return started[0]

        def take_result() -> None:
            if finish is not None:
                finish(started[0].wait())

        with self.launcher.call("a call of innet"):
            return self.launcher.start([Step(submit, take_result)], result)


def monitored_barrier(
    communicator: Communicator, timeout_s: float, wait_all_ranks: bool = False
) -> None:
    """Wait for every rank, and name those that are missing.

    The other ranks report to rank 0, which waits ``timeout_s`` for their reports and sends all of
    them the result, so the barrier ends alike on all ranks.

    Args:
        communicator: of the group.
        timeout_s: how long rank 0 waits.
        wait_all_ranks: name all missing ranks, not only the first.

    Raises:
        DeadlineExceeded: ranks are missing; the message names them.
        RankFailed: a rank has failed.
    """
    what = f"monitored_barrier(timeout {timeout_s:g} s)"
    if communicator.rank == _COORDINATOR:
        missing = _take_reports(communicator, timeout_s)
    else:
        missing = _report(communicator, timeout_s, what)
    if communicator.rank in missing:
        raise DeadlineExceeded(
            f"{what}: this rank, {communicator.rank}, called it after the timeout"
        )
    if missing:
        named = missing if wait_all_ranks else missing[:1]
        who = named_ranks(named, communicator.nodes)
        more = "" if wait_all_ranks else "; wait_all_ranks=True names all that are missing"
        raise DeadlineExceeded(f"{what}: {who} did not call it in time{more}")


def _take_reports(communicator: Communicator, timeout_s: float) -> list[int]:
    reports = {
        rank: communicator.irecv(np.empty(1, np.uint8), rank, _TAG, timeout_s=timeout_s)
        for rank in range(1, communicator.size)
    }
    reported = np.ones(communicator.size, np.uint8)
    for rank, report in reports.items():
        reported[rank] = _has_reported(report)
    for rank in reports:
        communicator.isend(reported, rank, _TAG)
    return _missing(reported)


def _has_reported(report: Work[npt.NDArray[np.uint8]]) -> bool:
    try:
        report.wait()
    except DeadlineExceeded:
        return False
    return True


def _report(communicator: Communicator, timeout_s: float, what: str) -> list[int]:
    communicator.send(np.ones(1, np.uint8), _COORDINATOR, _TAG)
    reported = np.empty(communicator.size, np.uint8)
    answer = communicator.irecv(reported, _COORDINATOR, _TAG, timeout_s=_PATIENCE * timeout_s)
    try:
        answer.wait()
    except DeadlineExceeded as error:
        node = communicator.nodes[_COORDINATOR]
        raise DeadlineExceeded(
            f"{what}: rank {_COORDINATOR} ({node}), which collects the reports, did not answer "
            f"within {_PATIENCE * timeout_s:g} s"
        ) from error
    return _missing(reported)


def _missing(reported: npt.NDArray[np.uint8]) -> list[int]:
    return [int(rank) for rank in np.flatnonzero(reported == 0)]
