"""Messages between two ranks, from any rank, and many at once."""

from __future__ import annotations

import pytest
import torch

from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks

pytestmark = pytest.mark.torch


def test_receives_from_any_rank_get_all_messages_with_their_sender(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> list[tuple[int, float]]:
        if group.rank() != 1:
            for turn in range(3):
                group.send([torch.full((40,), 10.0 * group.rank() + turn)], 1, 11).wait()
            return []
        received = []
        for _ in range(3 * (SIZE - 1)):
            tensor = torch.empty(40)
            work = group.recv_anysource([tensor], 11)
            work.wait()
            received.append((work._source_rank(), tensor[7].item()))
        return received

    received = ranks.run(program)[1]
    for source in (0, 2, 3):
        values = [value for sender, value in received if sender == source]
        assert values == [10.0 * source + turn for turn in range(3)]


def test_receives_from_one_and_from_any_rank_take_each_message_once(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> list[float]:
        if group.rank() == 1:
            for turn in range(4):
                group.send([torch.full((5 + turn % 2,), float(turn))], 0, 12).wait()
        if group.rank() != 0:
            return []
        tensors = [torch.empty(5 + turn % 2) for turn in range(4)]
        works = [
            group.recv([tensor], 1, 12) if turn in (1, 2) else group.recv_anysource([tensor], 12)
            for turn, tensor in enumerate(tensors)
        ]
        for work in works:
            work.wait()
        assert [work._source_rank() for work in works] == [1] * 4
        return [tensor[0].item() for tensor in tensors]

    assert ranks.run(program)[0] == [0.0, 1.0, 2.0, 3.0]


def test_several_receives_from_any_rank_wait_concurrently(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> set[int]:
        if group.rank() != 0:
            group.barrier().wait()
            group.send([torch.full((3,), float(group.rank()))], 0, 13).wait()
            return set()
        tensors = [torch.empty(3) for _ in range(SIZE - 1)]
        works = [group.recv_anysource([tensor], 13) for tensor in tensors]
        assert not any(work.is_completed() for work in works)
        group.barrier().wait()
        for work in works:
            work.wait()
        for work, tensor in zip(works, tensors, strict=True):
            assert (tensor == work.source_rank()).all()
        return {work.source_rank() for work in works}

    assert ranks.run(program)[0] == {1, 2, 3}


def test_a_cancelled_receive_leaves_the_message_to_the_next(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> float:
        if group.rank() == 2:
            group.barrier().wait()
            group.send([torch.full((3,), 5.0)], 0, 14).wait()
            return 0.0
        if group.rank() == 0:
            work = group.recv_anysource([torch.empty(3)], 14)
            work.cancel()
            with pytest.raises(RuntimeError, match="given up"):
                work.wait()
        group.barrier().wait()
        if group.rank() != 0:
            return 0.0
        tensor = torch.empty(3)
        group.recv_anysource([tensor], 14).wait()
        return tensor[0].item()

    assert ranks.run(program)[0] == 5.0


def test_more_messages_than_are_kept_can_be_sent_before_any_is_received(ranks: Ranks) -> None:
    count = 200

    def program(group: InnetProcessGroup) -> list[float]:
        peer = (group.rank() + 1) % SIZE
        sent = [group.send([torch.full((2,), float(turn))], peer, 15) for turn in range(count)]
        tensors = [torch.empty(2) for _ in range(count)]
        source = (group.rank() - 1) % SIZE
        for work in [group.recv([tensor], source, 15) for tensor in tensors] + sent:
            work.wait()
        return [tensor[1].item() for tensor in tensors]

    for received in ranks.run(program):
        assert received == [float(turn) for turn in range(count)]
