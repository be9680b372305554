"""Equal work that is asked for at the same time is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from enum import Enum, auto
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class _End(Enum):
    GIVEN_UP = auto()


class SingleFlight(Generic[Key, Result]):
    """Work by its key. Who asks first does it; when he is cancelled, one of those who wait begins
    it anew."""

    def __init__(self) -> None:
        self._flights: dict[Key, asyncio.Future[Result | _End]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether such work is under way."""
        return key in self._flights

    async def run(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of ``work``, or of equal work that is under way."""
        while (flight := self._flights.get(key)) is not None:
            result = await asyncio.shield(flight)
            if not isinstance(result, _End):
                return result
        own = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            own.set_exception(error)
            own.exception()  # it may be that nobody waits for it
            raise
        else:
            own.set_result(result)
            return result
        finally:
            del self._flights[key]
            if not own.done():
                own.set_result(_End.GIVEN_UP)
