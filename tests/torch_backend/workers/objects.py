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
        assert place.exists(), "what the test looks for happens when objects are unpickled"


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
    mode, place = sys.argv[1], Path(sys.argv[2])
    dist.init_process_group("innet")
    rank = dist.get_rank()
    {"allow": allow, "weights-only": weights_only, "refuse": refuse}[mode](rank, place)
    total = torch.ones(4)
    dist.all_reduce(total)
    assert total.tolist() == [2.0] * 4
    if mode != "allow":
        assert not place.exists(), "a member's code ran"
    dist.destroy_process_group()
    print("kept to", mode)


if __name__ == "__main__":
    main()
