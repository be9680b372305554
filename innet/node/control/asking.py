"""What all clients that ask for something have in common: a question, a deadline, an answer."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from pydantic import ValidationError

from innet.errors import ControlError, HostTaken, NoAnswer
from innet.node.control.protocol import Answer, Request

DEFAULT_TIMEOUT_S = 10.0
_GIVE_UP_INTERVAL_S = 0.1


class Wait:
    """How long to wait for an answer, and what was in the way of one."""

    def __init__(self, timeout_s: float, give_up: Callable[[], bool]) -> None:
        self._deadline_s = time.monotonic() + timeout_s
        self._give_up = give_up
        self.obstacle: OSError | None = None

    def is_over(self) -> bool:
        """Whether time is up, or whoever asked has given up."""
        return time.monotonic() >= self._deadline_s or self._give_up()

    def pause(self, pause_s: float = _GIVE_UP_INTERVAL_S) -> None:
        """Sleep for so long, but not beyond the end."""
        time.sleep(self._bounded(pause_s))

    def slice_s(self) -> float:
        """How long to wait until :meth:`is_over` is to be asked again."""
        return self._bounded(_GIVE_UP_INTERVAL_S)

    def _bounded(self, time_s: float) -> float:
        return max(0.0, min(time_s, self._deadline_s - time.monotonic()))


class Asker(ABC):
    """Asks one server. Blocking; use it from threads, never inside an event loop."""

    def __init__(self, *, who: str) -> None:
        """``who`` answers, for people."""
        self._who = who
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        give_up: Callable[[], bool] = lambda: False,
        **params: Any,
    ) -> Any:
        """The result of ``method``; threads that ask at once are answered one after the other.

        Raises:
            NoAnswer: nobody answers within ``timeout_s``, or until ``give_up``, which is called now
                and then.
            ControlError: the answer is a refusal.
            HostTaken: it is a refusal because another process has the host's node.
        """
        request = Request(method=method, params=params).model_dump_json().encode()
        wait = Wait(timeout_s, give_up)
        with self._lock:
            document = self._exchange(request, wait)
        if document is None:
            obstacle = f" ({wait.obstacle.strerror})" if wait.obstacle else ""
            raise NoAnswer(
                f"{self._who} did not answer {method!r} within {timeout_s:g} s{obstacle}. "
                "Is it still running? `innet status` tells."
            )
        return self._result(method, document)

    @abstractmethod
    def _exchange(self, request: bytes, wait: Wait) -> bytes | None:
        """The answer; ``None`` when there is none in time, after which the connection is closed."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one; the next question opens it again."""

    def _result(self, method: str, document: bytes) -> Any:
        try:
            answer = Answer.model_validate_json(document)
        except ValidationError as error:
            raise ControlError(
                f"{self._who} answered {method!r} with something else than a control message; "
                "are all nodes of this run of the same version of innet?"
            ) from error
        if answer.is_host_taken:
            raise HostTaken(answer.error)
        if not answer.ok:
            raise ControlError(f"{self._who}: {answer.error}")
        return answer.result

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        with self._lock:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
