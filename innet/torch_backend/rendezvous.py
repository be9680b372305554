"""How the ranks of one process group learn where each of them runs: through the group's Store."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch._C._distributed_c10d import Store

from innet.errors import DeadlineExceeded

_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Meeting:
    """What the ranks of a process group have told each other.

    Attributes:
        nodes: the host of each rank.
        generation: how often ranks have met with this store: a group that is destroyed and made
            again gets another one.
    """

    nodes: tuple[str, ...]
    generation: int


def meet(store: Store, rank: int, size: int, node: str, timeout_s: float) -> Meeting:
    """Say that ``rank`` runs on ``node``, and wait until all ``size`` ranks have said so.

    It asks and sleeps in turn instead of letting the store block: a store's connection serves one
    caller after the other, and other threads of this process need it, too.

    Raises:
        DeadlineExceeded: some ranks did not come within ``timeout_s``; the message names them.
    """
    generation = store.add(f"innet/{rank}", 1)
    keys = [f"innet/{generation}/{peer}" for peer in range(size)]
    store.set(keys[rank], node)
    deadline_s = time.monotonic() + timeout_s
    missing = list(range(size))
    while missing:
        missing = [peer for peer in missing if not store.check([keys[peer]])]
        if missing and time.monotonic() > deadline_s:
            raise DeadlineExceeded(
                f"ranks {', '.join(map(str, missing))} of {size} did not come to the process group "
                f"within {timeout_s:g} s; does every one of them call init_process_group() or "
                "new_group() with the same arguments, and do they all still run?"
            )
        if missing:
            time.sleep(_POLL_S)
    return Meeting(tuple(store.get(key).decode() for key in keys), generation)
