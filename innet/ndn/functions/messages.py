"""What caller and function tell each other, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from innet.errors import FunctionError
from innet.names import Name, as_name
from innet.ndn.functions.values import decode_value, encode_value

MAX_TIMEOUT_S = 86400.0
MAX_WINDOW = 1024
"""Of a flow, in items: each function keeps a few windows of them, as far as their size allows."""

_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Arguments:
    """Of one call.

    Attributes:
        timeout_s: how long the caller waits for its end.
        flow: for a function in a chain; ``args`` and ``kwargs`` are empty then.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    timeout_s: float
    flow: FlowPart | None = None

    def encode(self) -> bytes:
        message: dict[str, Any] = {
            "args": self.args,
            "kwargs": self.kwargs,
            "timeout_s": self.timeout_s,
        }
        if self.flow is not None:
            message["flow"] = {
                "input": str(self.flow.input_prefix),
                "output": str(self.flow.output_prefix),
                "window": self.flow.window,
                "item_timeout_s": self.flow.item_timeout_s,
            }
        return encode_value(message)

    @classmethod
    def decode(cls, encoded: bytes) -> Arguments:
        """
        Raises:
            FunctionError: these bytes are no arguments.
        """
        message = decode_value(encoded)
        try:
            part = message.get("flow")
            flow = None if part is None else FlowPart.of(part)
            timeout_s = _time_s(message["timeout_s"])
            return cls(list(message["args"]), dict(message["kwargs"]), timeout_s, flow)
        except _MALFORMED as error:
            raise FunctionError(f"what came are no arguments of a call: {error!r}") from error


@dataclass(frozen=True)
class FlowPart:
    """A function's place in a chain.

    Attributes:
        input_prefix: items are asked for as ``<input_prefix>/seq=<n>``.
        output_prefix: and given as ``<output_prefix>/seq=<n>``.
        window: items that its consumer asks for at once, at most.
        item_timeout_s: how long one item may take here.
    """

    input_prefix: Name
    output_prefix: Name
    window: int
    item_timeout_s: float

    @classmethod
    def of(cls, message: dict[str, Any]) -> FlowPart:
        """What arguments say of it."""
        window = int(message["window"])
        if not 0 < window <= MAX_WINDOW:
            raise ValueError(f"a window of {window} is out of range")
        return cls(
            as_name(str(message["input"])),
            as_name(str(message["output"])),
            window,
            _time_s(message["item_timeout_s"]),
        )


@dataclass(frozen=True)
class Outcome:
    """How a call, or one item of a flow, ended.

    Attributes:
        value: the result.
        error: what went wrong; empty: nothing.
        object_name: where the result is, when it is larger than a packet.
        last: there is no such item, nor a later one.
    """

    value: Any = None
    error: str = ""
    object_name: str = ""
    last: bool = False

    def encode(self) -> bytes:
        """
        Raises:
            FunctionError: the result cannot be sent.
        """
        return encode_value(
            {
                "value": self.value,
                "error": self.error,
                "object": self.object_name,
                "last": self.last,
            }
        )

    @classmethod
    def decode(cls, encoded: bytes) -> Outcome:
        """
        Raises:
            FunctionError: these bytes are no outcome.
        """
        message = decode_value(encoded)
        try:
            return cls(
                message["value"],
                str(message["error"]),
                str(message["object"]),
                bool(message["last"]),
            )
        except _MALFORMED as error:
            raise FunctionError(f"what came is no result of a call: {error!r}") from error


def _time_s(said: Any) -> float:
    time_s = float(said)
    if not 0 < time_s <= MAX_TIMEOUT_S:
        raise ValueError(f"a time of {time_s:g} s is out of range")
    return time_s
