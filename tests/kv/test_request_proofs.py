"""A requester's names are never those of requests that a member has executed already."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from innet.kv.pool.network import Cause, Sealed
from innet.kv.request_proofs import ProvenRequests, is_session_request
from innet.kv.tenant import Tenant

TENANT = Tenant("acme", b"a secret of more than 16 bytes")
HEAD_DIGITS = 40


class Member:
    """Answers requests, and refuses those of other sessions."""

    def __init__(self) -> None:
        self.session = 5
        self.executed: list[str] = []
        self.refusals = 0
        """Of the next requests, whatever their session is."""

    def fetch(
        self, name: str, member: str, timeout_s: float, attached: Sequence[str]
    ) -> asyncio.Future[Sealed | Cause]:
        answer: asyncio.Future[Sealed | Cause] = asyncio.get_running_loop().create_future()
        proof = name.split("/")[6][:HEAD_DIGITS]
        if is_session_request(name):
            answer.set_result(Sealed(np.frombuffer(b"%016x" % self.session, np.uint8), b""))
        elif self.refusals or int(proof[:16], 16) != self.session:
            self.refusals = max(0, self.refusals - 1)
            answer.set_result(Cause.ABSENT)
        else:
            self.executed.append(proof)
            answer.set_result(Sealed(np.zeros(1, np.uint8), b""))
        return answer


async def send_together(requests: ProvenRequests, count: int) -> None:
    sent = [requests.send("h1", f"unpin/{number}", 1.0) for number in range(count)]
    assert all(isinstance(answer, Sealed) for answer in await asyncio.gather(*sent))


@pytest.mark.parametrize("refusals", [1, 2])
def test_numbers_go_on_when_a_request_was_refused_in_its_session(refusals: int) -> None:
    async def work() -> None:
        member = Member()
        requests = ProvenRequests(TENANT, "h0", 7, member.fetch)
        await send_together(requests, 3)
        member.refusals = refusals
        await send_together(requests, 1)
        await send_together(requests, 3)
        assert len(set(member.executed)) == 7

    asyncio.run(work())


def test_requests_together_follow_a_member_into_its_next_session() -> None:
    async def work() -> None:
        member = Member()
        requests = ProvenRequests(TENANT, "h0", 7, member.fetch)
        for member.session in range(5, 9):
            await send_together(requests, 5)
        assert len(set(member.executed)) == 20

    asyncio.run(work())


def test_a_request_that_is_always_refused_ends() -> None:
    async def work() -> None:
        member = Member()
        member.refusals = 100
        requests = ProvenRequests(TENANT, "h0", 7, member.fetch)
        assert await requests.send("h1", "unpin/1", 1.0) is Cause.ABSENT

    asyncio.run(work())
