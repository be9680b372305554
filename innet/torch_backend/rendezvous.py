"""How the ranks of one process group learn where each of them runs: through the group's Store."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from torch._C._distributed_c10d import Store
from torch.distributed import DistNetworkError

from innet.errors import DeadlineExceeded

_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Meeting:
    """What the ranks of a process group have told each other.

    Attributes:
        nodes: the host of each rank.
        generation: counts the groups that were made with this store, from 1: one that is destroyed
            and made again gets another number.
        succeeded: to be called when the group has been made; the next meeting is another one then.
    """

    nodes: tuple[str, ...]
    generation: int
    succeeded: Callable[[], None]


def meet(store: Store, rank: int, size: int, node: str, timeout_s: float) -> Meeting:
    """Say that ``rank`` runs on ``node``, and wait until all ``size`` ranks have said so.

    It asks and sleeps in turn instead of letting the store block: a store's connection serves one
    caller after the other, and other threads of this process need it, too.

    A rank that tries again after a group did not come about meets those who come for the first
    time, whichever of them had gone how far: each follows who is at a later generation.

    Raises:
        DeadlineExceeded: some ranks did not come within ``timeout_s``; the message names them.
    """
    notices = _Notices(store, rank, node)
    deadline_s = time.monotonic() + timeout_s
    nodes = {rank: node}
    while len(nodes) < size:
        for peer in sorted(set(range(size)) - set(nodes)):
            generation, where = notices.of(peer)
            if generation > notices.generation:
                notices.post(generation)
                nodes = {rank: node}  # the others are to say so once more
            if generation == notices.generation:
                nodes[peer] = where
        missing = [peer for peer in range(size) if peer not in nodes]
        if missing and time.monotonic() > deadline_s:
            raise DeadlineExceeded(
                f"ranks {', '.join(map(str, missing))} of {size} did not come to the process group "
                f"within {timeout_s:g} s (timeout= changes it); does every one of them call "
                "init_process_group() or new_group() with the same arguments, and do they all "
                "still run?"
            )
        if missing:
            time.sleep(_POLL_S)
    return Meeting(tuple(nodes[peer] for peer in range(size)), notices.generation, notices.done)


class _Notices:
    """What each rank says in the store: at which generation it is, and where it runs.

    Attributes:
        generation: what this rank has said of itself.
    """

    def __init__(self, store: Store, rank: int, node: str) -> None:
        self._store = store
        self._rank = rank
        self._node = node
        self._made_key = f"innet/{rank}/made"
        made = int(store.get(self._made_key)) if store.check([self._made_key]) else 0
        self.post(made + 1)

    def post(self, generation: int) -> None:
        self.generation = generation
        self._store.set(f"innet/{self._rank}", f"{generation} {self._node}")

    def of(self, peer: int) -> tuple[int, str]:
        """A rank's generation and node; 0 before it has come."""
        key = f"innet/{peer}"
        if not self._store.check([key]):
            return 0, ""
        generation, _, node = self._store.get(key).decode().partition(" ")
        return int(generation), node

    def done(self) -> None:
        """The group of this generation has been made: all ranks have read what they needed."""
        # The rank that holds the store may have left the group already: nobody meets there again.
        with suppress(DistNetworkError):
            self._store.set(self._made_key, str(self.generation))
            # Who comes for the next group is not to take this notice for one of it.
            self.post(0)
