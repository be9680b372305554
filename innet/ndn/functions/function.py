"""Python functions with a name in the network."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from innet.names import Name, as_name
from innet.ndn.functions.messages import CallOutcome

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Function(Generic[_Parameters, _Result]):
    """A function that other programs can call; called here, it is the plain function.

    Attributes:
        name: in the network.
        body: a coroutine function, or a function that runs in a thread.
    """

    name: Name
    body: Callable[_Parameters, _Result]

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return self.body(*args, **kwargs)

    async def run(self, args: list[Any], kwargs: dict[str, Any], timeout_s: float) -> CallOutcome:
        """Run it without blocking the event loop; the outcome has its result or its exception.

        ``sys.exit`` in a function is an error of that call and ends nothing else.
        """
        try:
            async with asyncio.timeout(timeout_s):
                result, error = await self._end(args, kwargs)
        except TimeoutError:
            return CallOutcome(error=f"{self.name}: it has not ended within {timeout_s:g} s")
        if error is None:
            return CallOutcome(result)
        _log.warning("%s failed", self.name, exc_info=error)
        return CallOutcome(error=f"{self.name}: {type(error).__name__}: {error}")

    async def _end(
        self, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        """Its result, or its exception."""
        body: Callable[..., Any] = self.body
        if not inspect.iscoroutinefunction(body):
            return await asyncio.to_thread(_end_of, body, args, kwargs)
        try:
            return await body(*args, **kwargs), None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # by the server: the call is over
                raise
            return None, error  # by the function: it awaited a task that was cancelled
        except (Exception, SystemExit) as error:  # an interrupt is not its own
            return None, error


def _end_of(
    body: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    """The result of ``body``, or its exception of any kind: a future would not take every one."""
    try:
        return body(*args, **kwargs), None
    except BaseException as error:
        return None, error


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
