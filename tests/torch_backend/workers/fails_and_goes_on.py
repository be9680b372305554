"""Rank 1 calls PyTorch's functions with what these cannot take; all ranks go on."""

import re
import threading
from typing import Any

import torch
import torch.distributed as dist

from innet.errors import MismatchError

_RANK_1 = r"rank 1 \(h[0-9.]+\): "


def outcome(function, argument):
    try:
        return function(argument)
    except Exception as error:
        return error


def objects(mine):
    everybodys = [None] * dist.get_world_size()
    dist.all_gather_object(everybodys, mine)
    return everybodys


def gathered(mine):
    everybodys = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, everybodys)
    return everybodys


def announced(mine):
    objects = [mine]
    dist.broadcast_object_list(objects, src=1)
    return objects[0]


def scattered(mine):
    received = [None]
    all_of_them = [mine] * dist.get_world_size() if dist.get_rank() == 1 else None
    dist.scatter_object_list(received, all_of_them, src=1)
    return received[0]


def reduced(mine):
    total = mine.clone() if torch.is_tensor(mine) else mine
    dist.all_reduce(total)
    return total.tolist()


def reduced_in(group):
    total = torch.ones(1)
    dist.all_reduce(total, group=group)
    return total.tolist()


def reduced_with(keyword):
    total = torch.ones(1)
    keywords: dict[str, Any] = {keyword: None}
    dist.all_reduce(total, **keywords)
    return total.tolist()


def listed(mine):
    everybodys = [torch.empty(1) for _ in range(dist.get_world_size())]
    dist.all_gather(everybodys, mine)
    return torch.cat(everybodys).tolist()


def exchanged(mine):
    everybodys = [torch.empty(1) for _ in range(dist.get_world_size())]
    dist.all_to_all(everybodys, [mine] * dist.get_world_size())
    return torch.cat(everybodys).tolist()


def sent_to_0(values):
    """Rank 1 sends each value; rank 0 and rank 1 return what came of each."""
    outcomes = []
    for value in values:
        if dist.get_rank() == 1:
            outcomes.append(outcome(lambda mine: dist.send(mine, dst=0), value))
        elif dist.get_rank() == 0:
            into = torch.empty(1)
            error = outcome(lambda into: dist.recv(into, src=1), into)
            outcomes.append(error if isinstance(error, Exception) else into.item())
    return outcomes


def fails_in_hook(rank):
    """A hook of DistributedDataParallel fails on rank 1 alone, at the first of three buckets."""
    layers = [torch.nn.Linear(1, 1, bias=False) for _ in range(3)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=1e-6
    )
    indices: list[int] = []
    fails = False

    def hook(state, bucket):
        indices.append(bucket.index())
        if rank == 1 and fails and bucket.index() == 0:
            raise ValueError("damaged")
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(take)

    def take(future):
        return future.value()[0]

    model.register_comm_hook(None, hook)
    for _ in range(2):  # after the first, PyTorch cuts buckets anew
        indices.clear()
        model(torch.ones(1)).sum().backward()
    assert indices == [0, 1, 2], indices
    fails = True
    model(torch.ones(1)).sum().backward()


def assert_the_next_call_fails_on_all_once(rank, size, cause):
    failed = outcome(reduced, torch.ones(1))
    assert isinstance(failed, MismatchError), failed
    assert "rank" in str(failed), failed
    assert cause in str(failed), failed
    assert reduced(torch.ones(1)) == [size]


def main():
    dist.init_process_group("innet")
    rank, size = dist.get_rank(), dist.get_world_size()
    number = torch.full((1,), float(rank))
    numbers = [float(peer) for peer in range(size)]
    lock = threading.Lock()  # cannot be pickled
    tried = [
        (objects, rank, lock, list(range(size))),
        (gathered, rank, lock, list(range(size)) if rank == 0 else None),
        (announced, rank, lock, 1),
        (scattered, rank, lock, 1),
        (reduced, number, "no tensor", [sum(numbers)]),
        (reduced_in, None, "no group", [size]),
        (reduced_with, "group", "no_such_argument", [size]),
        (listed, number, number.long(), numbers),
        (listed, number, "no tensor", numbers),
        (exchanged, number, number.long(), numbers),
    ]
    for function, good, bad, expected in tried:
        name = function.__name__
        failed = outcome(function, bad if rank == 1 else good)
        assert isinstance(failed, Exception), (name, failed)
        assert rank == 1 or re.search(_RANK_1, str(failed)), (name, failed)
        assert outcome(function, good) == expected, name
        assert reduced(torch.ones(1)) == [size], name
    sent = sent_to_0(["no tensor", number, 2 * number])
    assert rank > 1 or isinstance(sent[0], Exception), sent
    if rank == 0:
        assert re.search(f"{_RANK_1}send", str(sent[0])), sent
        assert sent[1:] == [1.0, 2.0], sent
    failed = outcome(fails_in_hook, rank)
    assert isinstance(failed, Exception)
    assert "damaged" in str(failed), failed
    assert_the_next_call_fails_on_all_once(rank, size, "communication hook failed")
    pair = dist.new_group([0, 1])
    failed = outcome(reduced_in, "no group" if rank == 1 else None)
    assert isinstance(failed, Exception), failed
    assert reduced(torch.ones(1)) == [size]
    if rank < 2:  # rank 1 may have meant this one
        failed = outcome(reduced_in, pair)
        assert isinstance(failed, MismatchError), failed
        assert "all_reduce failed" in str(failed), failed
        assert reduced_in(pair) == [2]
    assert isinstance(outcome(reduced_in, "no group"), Exception)  # on all: nothing differs
    assert reduced(torch.ones(1)) == [size]
    assert rank > 1 or reduced_in(pair) == [2]
    dist.destroy_process_group()
    print("all right")


main()
