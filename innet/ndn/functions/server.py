"""Serving functions: arguments are fetched from the caller, the result is the answer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from innet.errors import FunctionError, SecurityError, TransportError
from innet.names import Name, with_component
from innet.ndn import wire
from innet.ndn.client import Client
from innet.ndn.functions.admission import (
    DEFAULT_INPUT_LIMITS,
    Admission,
    AdmittedCall,
    CallRefused,
    InputLimits,
)
from innet.ndn.functions.function import Function
from innet.ndn.functions.messages import CallArguments, CallOutcome, FlowPart, reflexive_name_of
from innet.ndn.functions.stage import FlowStage, failed_outcome, item_name, output_below
from innet.ndn.functions.transfer import (
    DEFAULT_MOST_BYTES,
    KeptBytes,
    Repetitions,
    fetch_content,
    publication_of,
)
from innet.ndn.production import Answer, Refusal
from innet.ndn.wire import ReceivedInterest
from innet.security.validation import Validator
from innet.tlv_numbers import NackReason

RESULT = b"result"
_KEPT_S = 60.0


class Results:
    """Results larger than a packet, each kept for a minute or until newer ones need the memory.

    Args:
        most_bytes: bound of all kept results; the latest one is always kept.
    """

    def __init__(self, client: Client, most_bytes: int) -> None:
        self._client = client
        self._kept = KeptBytes[Name](most_bytes)

    def publish(self, function: Name, content: bytes) -> Name:
        """Publish ``content`` below ``function``; returns its unguessable name."""
        name = with_component(with_component(function, RESULT), secrets.token_hex(16).encode())
        self._client.produce(name, publication_of(self._client, name, content).answer)
        self._kept.add(name, len(content))
        while self._kept.too_many:
            self._drop(next(iter(self._kept.sizes)))
        asyncio.get_running_loop().call_later(_KEPT_S, self._drop, name)
        return name

    def close(self) -> None:
        """Serve none any more."""
        for name in list(self._kept.sizes):
            self._drop(name)

    def _drop(self, name: Name) -> None:
        if self._kept.remove(name):
            self._client.stop_producing(name)


_LARGEST_IN_ANSWER_BYTES = 7000
_KEPT = 4
"""How many results, or items of a flow, of the largest size are kept at once."""
_PATIENCE_S = 8.0
"""How long the caller may take to answer for a segment of the arguments."""
_STAGE_OPENS_S = 4.0


class FunctionServer:
    """Serves functions to every program that reaches this client's forwarder. ``async with``.

    Args:
        client: connected; functions are registered with its forwarder.
        validator: of arguments: decides which signers may call. By default the client's, which
            accepts all.
        most_calls: most calls at once; it refuses more with a Nack of congestion, and callers
            retry.
        most_bytes: of the arguments of a call, and of an item of a flow; larger ones are refused.
        limits: of the input of calls, and of calls that the validator has not accepted yet.
    """

    def __init__(
        self,
        client: Client,
        *functions: Function[..., Any],
        validator: Validator | None = None,
        most_calls: int = 64,
        most_bytes: int = DEFAULT_MOST_BYTES,
        limits: InputLimits = DEFAULT_INPUT_LIMITS,
    ) -> None:
        self._client = client
        self._functions = {function.name: function for function in functions}
        self._validator = validator or client.validator
        self._admission = Admission(most_calls, limits)
        self._limits = limits
        self._most_bytes = most_bytes
        self._calls = Repetitions()
        self._results = Results(client, _KEPT * most_bytes)
        self._stages: dict[Name, FlowStage] = {}
        self._triggers: dict[Name, FlowStage] = {}
        self._stage_opened = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            for name in self._functions:
                await self._client.register(name, self._answer)
        except BaseException:
            await self._withdraw()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._withdraw()
        self._calls.close()
        self._results.close()
        for stage in list(self._stages.values()):
            stage.end()

    async def _withdraw(self) -> None:
        for name in self._functions:
            if self._client.produces(name, self._answer):
                await self._client.unregister(name)

    async def _answer(self, interest: ReceivedInterest) -> Answer:
        name = interest.name
        reflexive = reflexive_name_of(name)
        if reflexive is None:
            return await self._answer_of_stage(interest)
        function = self._functions.get(name.parent())
        if function is None:
            return Refusal(NackReason.NO_ROUTE)
        if name in self._triggers:
            self._triggers[name].keep()
        try:
            return await self._calls.answer(name, lambda: self._ended(function, name, reflexive))
        except CallRefused:
            self._calls.forget(name)
            return Refusal(NackReason.CONGESTION)

    async def _ended(self, function: Function[..., Any], trigger: Name, reflexive: Name) -> bytes:
        call = self._admission.admit(function.name, self._validator)
        try:
            outcome = await self._outcome(function, trigger, reflexive, call)
            content = outcome.encode()
        except (FunctionError, TransportError, SecurityError) as error:
            content = CallOutcome(error=f"{function.name}: {error}").encode()
        except CallRefused:
            raise
        except Exception as error:
            content = failed_outcome(function.name, error).encode()
        finally:
            call.close()
        if len(content) > _LARGEST_IN_ANSWER_BYTES:
            content = CallOutcome(
                object_name=str(self._results.publish(function.name, content))
            ).encode()
        return wire.encode_data(trigger, content, signer=self._client.signer)

    async def _outcome(
        self, function: Function[..., Any], trigger: Name, reflexive: Name, call: AdmittedCall
    ) -> CallOutcome:
        async with call.fetching():
            encoded = await fetch_content(
                self._client,
                reflexive,
                validator=call,
                patience_s=_PATIENCE_S,
                most_bytes=self._most_bytes,
            )
        arguments = CallArguments.decode(encoded)
        if arguments.flow is not None:
            part = arguments.flow
            kept_bytes = _KEPT * self._most_bytes
            stage = FlowStage(self._client, function, part, self._taker(part), kept_bytes)
            return await self._run_stage(stage, trigger)
        return await function.run(arguments.args, arguments.kwargs, arguments.timeout_s)

    async def _run_stage(self, stage: FlowStage, trigger: Name) -> CallOutcome:
        if stage.output in self._stages:
            raise FunctionError(f"a flow through {stage.output} is open already")
        self._stages[stage.output] = self._triggers[trigger] = stage
        self._stage_opened.set()
        self._stage_opened = asyncio.Event()
        try:
            await stage.run()
        finally:
            del self._stages[stage.output], self._triggers[trigger]
        return CallOutcome()

    async def _answer_of_stage(self, interest: ReceivedInterest) -> Answer:
        output = self._output_of(interest.name)
        if output is None:
            return Refusal(NackReason.NO_DATA)
        try:
            stage = await self._opened(output)
        except FunctionError:
            return Refusal(NackReason.NO_DATA)
        return await stage.answer(interest)

    def _output_of(self, name: Name) -> Name | None:
        """The output of one of these functions, open or not yet, that ``name`` is of."""
        outputs = (output_below(function, name) for function in self._functions)
        return max((output for output in outputs if output is not None), key=len, default=None)

    async def _opened(self, output: Name) -> FlowStage:
        """The consumer's Interests may arrive before the stage is open."""
        try:
            async with asyncio.timeout(_STAGE_OPENS_S):
                while output not in self._stages:
                    await self._stage_opened.wait()
        except TimeoutError as error:
            raise FunctionError(f"no flow through {output} is open") from error
        return self._stages[output]

    def _taker(self, part: FlowPart) -> Callable[[int], Awaitable[bytes]]:
        prefix = part.input_prefix

        # A forwarder never sends an Interest back to the client that sent it.
        async def from_here(number: int) -> bytes:
            return await (await self._opened(prefix)).content(number)

        async def from_elsewhere(number: int) -> bytes:
            return await fetch_content(
                self._client,
                item_name(prefix, number),
                validator=self._validator,
                patience_s=part.item_timeout_s,
                most_bytes=self._most_bytes,
                deadline_s=part.item_timeout_s + self._limits.input_s,
            )

        return from_here if self._output_of(prefix) == prefix else from_elsewhere


@asynccontextmanager
async def serving(
    *functions: Function[..., Any],
    client: Client | None = None,
    validator: Validator | None = None,
    most_calls: int = 64,
    most_bytes: int = DEFAULT_MOST_BYTES,
    limits: InputLimits = DEFAULT_INPUT_LIMITS,
) -> AsyncIterator[FunctionServer]:
    """Serve functions while the block runs, by a client of its own if none is given.

    Raises:
        NoForwarder: there is no forwarder to serve them through.
        CommandRefused: it does not let this client serve one of the names.

    Example::

        async with innet.serving(total):
            await asyncio.Event().wait()
    """
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(Client())
        server = FunctionServer(
            client,
            *functions,
            validator=validator,
            most_calls=most_calls,
            most_bytes=most_bytes,
            limits=limits,
        )
        yield await stack.enter_async_context(server)


async def serve(*functions: Function[..., Any], **options: Any) -> None:
    """:func:`serving`, until it is cancelled."""
    async with serving(*functions, **options):
        await asyncio.Event().wait()
