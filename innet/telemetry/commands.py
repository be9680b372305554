"""Commands to nodes, signed with the run's operator key.

The body of a command has its node and run, the time of its issue, and a number that grows from one
command to the next. A node refuses a copy of an old command, even if the node restarted meanwhile.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from innet.security.keys import OperatorKey, is_signed_by
from innet.validation_messages import StrictModel, first_message

MAX_AGE_S = 30.0
"""A command that was issued longer ago, or further in the future, is stale."""
_CONTEXT = b"innet command v1\0"
"""Stands before what is signed: no signature made for another purpose fits."""

Reason = Literal["malformed", "unsigned", "bad_signature", "misaddressed", "stale", "replayed"]


class SetInterval(StrictModel):
    """Change the interval between two publications of counters."""

    kind: Literal["set_interval"] = "set_interval"
    interval_s: float = Field(ge=0.1, le=3600)


class DumpState(StrictModel):
    """Reply with the status that the node answers on its control socket."""

    kind: Literal["dump_state"] = "dump_state"


class DropCache(StrictModel):
    """Empty the content store."""

    kind: Literal["drop_cache"] = "drop_cache"


Command = Annotated[SetInterval | DumpState | DropCache, Field(discriminator="kind")]


class Order(StrictModel):
    """A command with its addressee: the signed body."""

    run: str
    node: str
    number: int = Field(ge=0)
    issued_at_s: float
    command: Command


class SignedOrder(StrictModel):
    """The published form: the body as it was signed, and its signature in hexadecimal."""

    body: str
    signature: str = ""


class OrderRefused(Exception):
    """A command that the node does not execute.

    Attributes:
        reason: by which it is counted.
        number: of the command, if its body could be read.
    """

    def __init__(self, reason: Reason, message: str, number: int | None = None) -> None:
        self.reason: Reason = reason
        self.number = number
        super().__init__(message)


def signed(command: Command, run: str, node: str, key: OperatorKey) -> tuple[int, bytes]:
    """The number of a new command, and the payload to publish."""
    number = time.time_ns()
    order = Order(run=run, node=node, number=number, issued_at_s=time.time(), command=command)
    body = order.model_dump_json()
    signature = key.sign(_CONTEXT + body.encode()).hex()
    return number, SignedOrder(body=body, signature=signature).model_dump_json().encode()


class CommandGate:
    """Verifies the commands to one node."""

    def __init__(self, operator: str | None, run: str, node: str, started_at_s: float) -> None:
        """
        Args:
            operator: public key that verifies commands; ``None``: no commands are accepted.
            started_at_s: Unix time of the node's start; older commands were not for it.
        """
        self._operator = operator
        self._run = run
        self._node = node
        self._last_number = int(started_at_s * 1e9)

    def admit(self, payload: bytes, now_s: float) -> Order:
        """The verified order in ``payload``; a second call with the same payload is refused.

        Raises:
            OrderRefused: the order must not be executed.
        """
        try:
            sealed = SignedOrder.model_validate_json(payload)
        except ValidationError:
            raise OrderRefused("malformed", "it is not a signed order") from None
        self._require_signature(sealed)
        try:
            order = Order.model_validate_json(sealed.body)
        except ValidationError as error:
            raise OrderRefused("malformed", first_message(error)) from None
        self._require_new(order, now_s)
        self._last_number = order.number
        return order

    def _require_signature(self, sealed: SignedOrder) -> None:
        if not sealed.signature:
            raise OrderRefused("unsigned", "it has no signature")
        try:
            signature = bytes.fromhex(sealed.signature)
        except ValueError:
            raise OrderRefused("malformed", "its signature is not hexadecimal") from None
        message = _CONTEXT + sealed.body.encode()
        if self._operator is None or not is_signed_by(self._operator, message, signature):
            raise OrderRefused("bad_signature", "this run's operator has not signed it")

    def _require_new(self, order: Order, now_s: float) -> None:
        if (order.run, order.node) != (self._run, self._node):
            raise OrderRefused(
                "misaddressed", f"it is for {order.node} of {order.run}", order.number
            )
        age_s = now_s - order.issued_at_s
        if abs(age_s) > MAX_AGE_S:
            raise OrderRefused(
                "stale",
                f"it was given {abs(age_s):.0f} s {'ago' if age_s > 0 else 'ahead of this clock'}; "
                f"{MAX_AGE_S:.0f} s is the most. Are the clocks right?",
                order.number,
            )
        if order.number <= self._last_number:
            raise OrderRefused(
                "replayed", "its number is not above that of the last one", order.number
            )
