"""Admission of calls to a server: few from unknown callers, more from validated ones.

A trigger carries a name and no sender, and all triggers reach a server by one face, that of its
forwarder. So a call first takes one of a few *unvalidated* places, holds
one packet of input at most, and gets one of the places for calls when the validator has accepted
that packet. Silent callers give way: when a function has used its unvalidated places, the call that
has had one longest loses it. Each function may have as many of them as are left, so that calls of
one leave places for all others (A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds
for shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from innet.errors import TransportError
from innet.names import Name
from innet.security.validation import ReceivedData, Validator


@dataclass(frozen=True, slots=True)
class InputLimits:
    """How much a caller may use before its call runs.

    Attributes:
        unvalidated: most calls at once of which the validator has accepted no packet yet.
        validation_s: time within which the first packet must arrive and be accepted.
        undisturbed_s: how long a call surely keeps its unvalidated place; after that it gives way
            to a newer call if there is no other place.
        input_s: time within which the whole input of a call must arrive, or one item of a flow
            after its first packet.
    """

    unvalidated: int = 32
    validation_s: float = 8.0
    undisturbed_s: float = 0.5
    input_s: float = 120.0


DEFAULT_INPUT_LIMITS = InputLimits()


class CallRefused(Exception):
    """There is no place for a call, or it lost its own to a newer one; it may be repeated."""


class Admission:
    """The places of one server. For one event loop.

    Args:
        most_calls: most validated calls at once.
    """

    def __init__(self, most_calls: int, limits: InputLimits) -> None:
        self._limits = limits
        self._calls = asyncio.Semaphore(most_calls)
        self._unvalidated: dict[AdmittedCall, Name] = {}
        """Unvalidated calls in the order of arrival."""

    @property
    def unvalidated(self) -> int:
        """Number of calls of which no packet has been accepted."""
        return len(self._unvalidated)

    def admit(self, function: Name, validator: Validator) -> AdmittedCall:
        """A place for a new call of that function.

        Raises:
            CallRefused: no place is free.
        """
        if self._calls.locked() or not self._make_room(function):
            raise CallRefused
        call = AdmittedCall(self, validator, self._limits)
        self._unvalidated[call] = function
        return call

    def _make_room(self, function: Name) -> bool:
        own = [call for call, name in self._unvalidated.items() if name == function]
        if len(own) < self._limits.unvalidated - self.unvalidated:
            return True
        return bool(own) and own[0].give_way()

    async def promote(self, call: AdmittedCall) -> None:
        """The call has been validated: its unvalidated place is free once it has another."""
        await self._calls.acquire()
        self.forget(call)

    def forget(self, call: AdmittedCall) -> None:
        """The call's unvalidated place is free, if it had one."""
        self._unvalidated.pop(call, None)

    def end_validated(self) -> None:
        """A validated call is over."""
        self._calls.release()


class AdmittedCall:
    """One call: the validator of its input, and until when that has to be here."""

    def __init__(self, admission: Admission, validator: Validator, limits: InputLimits) -> None:
        self._admission = admission
        self._validator = validator
        self._limits = limits
        self._came_s = asyncio.get_running_loop().time()
        self._limit = asyncio.timeout_at(self._came_s + limits.validation_s)
        self._has_begun = False
        self._accepted = False
        self._validated = False
        self._displaced = False

    async def check(self, name: str, data: ReceivedData) -> None:
        """Check a packet of a call, which is validated once its first packet has passed."""
        await self._validator.check(name, data)
        if not self._accepted:
            self._accepted = True
            self._limit.reschedule(self._came_s + self._limits.input_s)
            await self._admission.promote(self)
            self._validated = True

    def give_way(self) -> bool:
        """Lose the unvalidated place to a newer call; whether this call has."""
        now_s = asyncio.get_running_loop().time()
        if self._accepted or now_s < self._came_s + self._limits.undisturbed_s:
            return False
        self._displaced = True
        self._admission.forget(self)
        if self._has_begun:
            self._limit.reschedule(now_s)
        return True

    @asynccontextmanager
    async def fetching(self) -> AsyncIterator[None]:
        """While the input is fetched.

        Raises:
            CallRefused: the place is a newer call's.
            TransportError: the time is over.
        """
        if self._displaced:
            raise CallRefused
        try:
            async with self._limit:
                self._has_begun = True
                yield
        except TimeoutError as error:
            if self._displaced:
                raise CallRefused from error
            if not self._limit.expired():
                raise
            limits = self._limits
            raise TransportError(
                f"the input did not arrive within {limits.input_s:g} s; send less at once"
                if self._accepted
                else f"no accepted input arrived within {limits.validation_s:g} s"
            ) from error

    def close(self) -> None:
        """The call is over."""
        self._admission.forget(self)
        if self._validated:
            self._admission.end_validated()
