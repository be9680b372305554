"""Calling a function by its name."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from innet.errors import FunctionError
from innet.names import Name, as_name
from innet.ndn.client import Client
from innet.ndn.functions.messages import (
    CallArguments,
    CallOutcome,
    new_reflexive_name,
    trigger_name,
)
from innet.ndn.functions.transfer import (
    DEFAULT_MOST_BYTES,
    NO_ROUTE_PATIENCE_S,
    fetch_content,
    publication_of,
)
from innet.security.validation import Validator

DEFAULT_TIMEOUT_S = 30.0
LIFETIME_S = 4.0
"""Lifetime of the Interest that triggers a call; it is repeated until the call has ended."""


async def call(
    name: Name | str,
    *args: Any,
    client: Client | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    validator: Validator | None = None,
    most_bytes: int = DEFAULT_MOST_BYTES,
    **kwargs: Any,
) -> Any:
    """Call the function of that name with these arguments, and wait for its result.

    The Interest carries the name alone: the server fetches the arguments from here, back along the
    path of the Interest (reflexive forwarding).

    Args:
        args, kwargs: values of JSON, bytes, and NumPy arrays of numbers.
        client: by default one of its own, connected for this call.
        timeout_s: how long the call may take; the function is stopped after it as well.
        validator: of the result; the client's by default.
        most_bytes: of the result; a larger one is refused.

    Raises:
        FunctionError: the function raised an exception, which the message quotes; an argument
            cannot be sent; or the result is malformed.
        InterestTimeout: no result in time.
        InterestRefused: no program serves that name.
        SecurityError: the validator refused the result.
        TransportError: the result did not arrive, or is too large.

    Example::

        total = await innet.call("/sum", np.ones(4))
    """
    function = as_name(name)
    arguments = CallArguments(list(args), kwargs, timeout_s)
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(Client())
        outcome = await outcome_of(
            client, function, arguments, validator or client.validator, most_bytes=most_bytes
        )
    if outcome.error:
        raise FunctionError(outcome.error)
    return outcome.value


async def outcome_of(
    client: Client,
    function: Name,
    arguments: CallArguments,
    validator: Validator,
    reflexive: Name | None = None,
    most_bytes: int = DEFAULT_MOST_BYTES,
) -> CallOutcome:
    """Call a function; the outcome. ``reflexive`` is the name that the server's Interests have.

    Raises:
        FunctionError: an argument cannot be sent, or the answer is malformed.
        InterestTimeout: no result in time.
        InterestRefused: no program serves that name.
        SecurityError: the validator refused the result.
        TransportError: the result did not arrive, or is too large.
    """
    back = reflexive or new_reflexive_name()
    content = publication_of(client, back, arguments.encode())
    client.produce(back, content.answer)
    try:
        data = await client.express(
            trigger_name(function, back),
            lifetime_s=LIFETIME_S,
            deadline_s=arguments.timeout_s,
            no_route_patience_s=NO_ROUTE_PATIENCE_S,
            validator=validator,
        )
    finally:
        client.stop_producing(back)
    outcome = CallOutcome.decode(data.content)
    if not outcome.object_name:
        return outcome
    large = await fetch_content(
        client,
        _result_of(function, outcome),
        validator=validator,
        patience_s=arguments.timeout_s,
        most_bytes=most_bytes,
    )
    return CallOutcome.decode(large)


def _result_of(function: Name, outcome: CallOutcome) -> Name:
    """Name of the result, which must be below the function's name."""
    try:
        name = as_name(outcome.object_name)
    except ValueError as error:
        raise FunctionError(f"{function} says that its result is nowhere: {error}") from error
    if not function.is_prefix_of(name):
        raise FunctionError(f"{function} says that its result is {name}, which is not below it")
    return name
