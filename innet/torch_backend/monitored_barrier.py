"""A barrier in which rank 0 finds out who does not come, and everybody hears of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from innet.collectives import Communicator, Work
from innet.errors import DeadlineExceeded

_TAG = -2
"""Of its messages; programs have tags from 0."""

_COORDINATOR = 0
_PATIENCE = 2.0
"""Rank 0 may come as late as all others may: its answer takes at most this many timeouts."""


def monitored_barrier(
    communicator: Communicator, timeout_s: float, wait_all_ranks: bool = False
) -> None:
    """Wait until every rank has come, and tell by name which have not.

    Every other rank reports to rank 0, which waits ``timeout_s`` for them and then tells all what
    it found; so all ranks end alike.

    Args:
        communicator: of the group.
        timeout_s: how long rank 0 waits.
        wait_all_ranks: name all ranks that did not come, not the first alone.

    Raises:
        DeadlineExceeded: ranks did not come; the message names them.
        RankFailed: a rank is gone.
    """
    what = f"monitored_barrier(timeout {timeout_s:g} s)"
    if communicator.rank == _COORDINATOR:
        missing = _take_reports(communicator, timeout_s)
    else:
        missing = _report(communicator, timeout_s, what)
    if communicator.rank in missing:
        raise DeadlineExceeded(f"{what}: this rank, {communicator.rank}, came after the timeout")
    if missing:
        named = missing if wait_all_ranks else missing[:1]
        who = ", ".join(f"rank {rank} ({communicator.nodes[rank]})" for rank in named)
        more = "" if wait_all_ranks else "; wait_all_ranks=True names all that are missing"
        raise DeadlineExceeded(f"{what}: {who} did not come in time{more}")


def _take_reports(communicator: Communicator, timeout_s: float) -> list[int]:
    reports = {
        rank: communicator.irecv(np.empty(1, np.uint8), rank, _TAG, timeout_s=timeout_s)
        for rank in range(1, communicator.size)
    }
    came = np.ones(communicator.size, np.uint8)
    for rank, report in reports.items():
        came[rank] = _has_come(report)
    for rank in reports:
        communicator.isend(came, rank, _TAG)
    return _missing(came)


def _has_come(report: Work[npt.NDArray[np.uint8]]) -> bool:
    try:
        report.wait()
    except DeadlineExceeded:
        return False
    return True


def _report(communicator: Communicator, timeout_s: float, what: str) -> list[int]:
    communicator.send(np.ones(1, np.uint8), _COORDINATOR, _TAG)
    came = np.empty(communicator.size, np.uint8)
    answer = communicator.irecv(came, _COORDINATOR, _TAG, timeout_s=_PATIENCE * timeout_s)
    try:
        answer.wait()
    except DeadlineExceeded as error:
        node = communicator.nodes[_COORDINATOR]
        raise DeadlineExceeded(
            f"{what}: rank {_COORDINATOR} ({node}), which asks who has come, did not answer within "
            f"{_PATIENCE * timeout_s:g} s"
        ) from error
    return _missing(came)


def _missing(came: npt.NDArray[np.uint8]) -> list[int]:
    return [int(rank) for rank in np.flatnonzero(came == 0)]
