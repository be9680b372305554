"""Proofs of requests between members of a pool: a component of their names (docs/protocol.md).

    /kv/<tenant>/request/<member>/<requester>/<proof>/<verb>/<…>

A proof says that a holder of the tenant's secret sent the request, and which it is, so that the
member executes it once. It consists of the session of the member, a random number of the
requester's process, a number that ascends in the session, and a tag (HMAC-SHA256) of the name. A
member's session changes when it starts, and from time to time, so that old requests are worth
nothing. The member's node verifies proofs (``transport/object/request_guard.hpp``) and refuses
requests of another session; their requesters then ask for its number.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from innet._native import _core
from innet.kv.pool.network import Cause, Contents, Sealed
from innet.kv.pool.requests import requests_prefix
from innet.kv.pool.waiting import SingleFlight, now_s
from innet.kv.tenant import Tenant

_SESSION: Final = "session"
_DIGITS: Final = re.compile(rb"[0-9a-f]{16}")
_MOST_ATTEMPTS: Final = 3
"""Of a request: sessions seldom change, and hardly ever twice in its time."""

Fetch = Callable[[str, str, float, Sequence[str]], "asyncio.Future[Sealed | Cause]"]
"""Begins the fetch of an object: its name, the node that has it, the time in seconds, and blocks
whose roots go with the request."""


class _Session:
    """Of a member, as a requester knows it: names of requests to it.

    Attributes:
        number: of the session.
    """

    def __init__(self, head: str, number: int, process: int) -> None:
        """``head``: of all names, up to the proof."""
        self.number = number
        self._head = f"{head}/{number:016x}{process:016x}"
        self._numbers = itertools.count(1)

    def name(self, action: str, tagger: _core.RequestTagger) -> str:
        """Of the next request."""
        head = f"{self._head}{next(self._numbers):08x}"
        return f"{head}{tagger.tag(f'{head}/{action}')}/{action}"


def is_session_request(name: str) -> bool:
    """Whether an object's name is that of a request for a member's session."""
    return name.endswith(f"/{_SESSION}")


class ProvenRequests:
    """Sends requests to other members with proofs, and answers what their session is here."""

    def __init__(self, tenant: Tenant, node: str, process: int, fetch: Fetch) -> None:
        """
        Args:
            tenant: has the key.
            node: this one.
            process: a random number of this process, of 64 bits.
            fetch: fetches an answer.
        """
        self._tenant = tenant.component
        self._node = node
        self._process = process
        self._fetch = fetch
        self._tagger = _core.RequestTagger(tenant.request_key)
        requests = _core.Name(requests_prefix(tenant.component, node))
        self.guard: Final = _core.RequestGuard(requests, tenant.request_key, process)
        """Of the requests to this node."""
        self._sessions: dict[str, _Session] = {}
        self._questions: dict[str, _Session] = {}
        self._asking: SingleFlight[str, _Session | Cause] = SingleFlight()

    async def send(
        self, member: str, action: str, timeout_s: float, attached: Sequence[str] = ()
    ) -> Sealed | Cause:
        """See :meth:`~innet.kv.pool.network.BlockNetwork.request`."""
        end_s = now_s() + timeout_s
        refused: _Session | None = None
        for _ in range(_MOST_ATTEMPTS):
            known = self._sessions.get(member)
            if known is None or known is refused:
                session = await self._learn_session(member, end_s)
            else:
                session = known
            if isinstance(session, Cause):
                return session
            name = session.name(action, self._tagger)
            answer = await self._fetch(name, member, timeout_s, attached)
            if answer is not Cause.ABSENT:
                return answer
            refused = session
            timeout_s = max(0.0, end_s - now_s())
        return Cause.ABSENT

    def session(self) -> Contents:
        """The answer to a request for this node's session."""
        return np.frombuffer(b"%016x" % self.guard.session, np.uint8)

    async def _learn_session(self, member: str, end_s: float) -> _Session | Cause:
        async def ask() -> _Session | Cause:
            questions = self._questions.setdefault(member, self._session_of(member, 0))
            name = questions.name(_SESSION, self._tagger)
            answer = await self._fetch(name, member, max(0.0, end_s - now_s()), ())
            if isinstance(answer, Cause):
                return answer
            digits = answer.contents.tobytes()
            if not _DIGITS.fullmatch(digits):
                return Cause.UNREACHABLE
            number, known = int(digits, 16), self._sessions.get(member)
            if known is None or known.number != number:
                known = self._sessions[member] = self._session_of(member, number)
            return known  # of the same session: its numbers go on, because none is accepted twice

        return await self._asking.run(member, ask)

    def _session_of(self, member: str, number: int) -> _Session:
        head = f"{requests_prefix(self._tenant, member)}/{self._node}"
        return _Session(head, number, self._process)
