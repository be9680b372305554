"""Python functions with a name in the network."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from innet.ndn.functions.messages import Outcome
from innet.ndn.names import Name, as_name

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Function(Generic[_Parameters, _Result]):
    """A function that can be called from elsewhere, and here as if nothing had happened to it.

    Attributes:
        name: in the network.
        body: what it does; a coroutine function, or one that runs in a thread.
    """

    name: Name
    body: Callable[_Parameters, _Result]

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return self.body(*args, **kwargs)

    async def run(self, args: list[Any], kwargs: dict[str, Any], timeout_s: float) -> Outcome:
        """What it returns, or the exception that it raises, without holding up the event loop."""
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return Outcome(await self._result(args, kwargs))
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                return Outcome(error=f"{self.name}: it has not ended within {timeout_s:g} s")
            _log.warning("%s failed", self.name, exc_info=error)
            return Outcome(error=f"{self.name}: {type(error).__name__}: {error}")

    async def _result(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        body: Callable[..., Any] = self.body
        if inspect.iscoroutinefunction(body):
            return await body(*args, **kwargs)
        return await asyncio.to_thread(body, *args, **kwargs)


def function(
    name: Name | str,
) -> Callable[[Callable[_Parameters, _Result]], Function[_Parameters, _Result]]:
    """Give a function the name by which others call it.

    Raises:
        ValueError: the name is malformed or empty.

    Example::

        @innet.function("/sum")
        def total(values: np.ndarray) -> float:
            return float(values.sum())
    """
    named = as_name(name)
    if len(named) == 0:
        raise ValueError("a function needs a name with a component, such as /sum")
    return lambda body: Function(named, body)
