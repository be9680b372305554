"""Object collectives between two ranks, one of which sends what others should not unpickle."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from innet.errors import CollectiveError, SecurityError
from innet.worker import current_worker

EVIL, VICTIM = 1, 0


class Evil:
    """Whoever unpickles it makes a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


def all_objects(value: Any, rank: int) -> list[Any]:
    """What each of the object collectives brings here of ``value``, which all send."""
    gathered: list[Any] = [None, None]
    dist.all_gather_object(gathered, value)
    collected: list[Any] | None = [None, None] if rank == 0 else None
    dist.gather_object(value, collected, 0)
    listed = [value if rank == 1 else None]
    dist.broadcast_object_list(listed, 1)
    got: list[Any] = [None]
    dist.scatter_object_list(got, [value, value] if rank == 0 else None, 0)
    received: list[Any] = [None]
    if rank == 0:
        dist.send_object_list([value], 1)
        received = [value]
    else:
        dist.recv_object_list(received, 0)
    return [*gathered, *(collected or []), *listed, *got, *received]


def send_by_hand(contents: bytes) -> None:
    """What broadcast_object_list sends, of a program that heeds no setting."""
    dist.broadcast(torch.tensor([len(contents)]), EVIL)
    dist.broadcast(torch.frombuffer(bytearray(contents), dtype=torch.uint8), EVIL)


def receive() -> Any:
    listed = [None]
    dist.broadcast_object_list(listed, EVIL)
    return listed[0]


def allow(rank: int, place: Path) -> None:
    if rank == EVIL:
        dist.broadcast_object_list([Evil(place)], EVIL)
    else:
        receive()


def weights_only(rank: int, place: Path) -> None:
    state = OrderedDict(weight=torch.arange(3.0), step=7, names=["a", ("b", 1.5)], raw=b"x")
    for came in all_objects(state, rank):
        assert str(came) == str(state), came
    pickled, saved = pickle.dumps(Evil(place)), io.BytesIO()
    torch.save(Evil(place), saved)
    for contents in (pickled, saved.getvalue(), b"PK", b"\x80"):
        if rank == EVIL:
            send_by_hand(contents)
        else:
            with pytest.raises(SecurityError, match="weights-only takes nothing else"):
                receive()


def refuse(rank: int, place: Path) -> None:
    objects: list[Any] = [None, None]
    for call in (
        lambda: dist.all_gather_object(objects, 1),
        lambda: dist.gather_object(1, objects if rank == 0 else None, 0),
        lambda: dist.broadcast_object_list([1], EVIL, device=torch.device("cpu")),
        lambda: dist.scatter_object_list([None], [1, 2] if rank == 0 else None, 0),
        lambda: dist.send_object_list([1], 1 - rank),
        lambda: dist.recv_object_list([None], 1 - rank),
    ):
        with pytest.raises(CollectiveError, match="Send tensors, or choose weights-only"):
            call()


def main() -> None:
    place = Path(sys.argv[1])
    dist.init_process_group("innet")
    rank, worker = dist.get_rank(), current_worker()
    for mode, check in (("weights-only", weights_only), ("refuse", refuse), ("allow", allow)):
        if worker.settings.security.object_collectives != mode:
            assert mode != "weights-only", "the run's setting"
            assignment = f"security.object_collectives={mode}"
            worker.settings = worker.settings.with_assignments([assignment])
        check(rank, place)
        total = torch.ones(4)
        dist.all_reduce(total)
        assert total.tolist() == [2.0] * 4
        assert place.exists() == (mode == "allow"), "a member's code ran"
        print("kept to", mode)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
