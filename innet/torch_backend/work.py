"""Operations under way, as PyTorch sees them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work

from innet.collectives import Work as Pending

_NO_TIMEOUT = timedelta(0)


class CollectiveWork(Work):
    """One operation: what ``async_op=True`` returns, and what DistributedDataParallel waits for.

    ``torch.futures.Future`` alone would not do: the work that PyTorch wraps around one swallows
    errors in ``wait()``.
    """

    def __init__(
        self,
        pending: Pending[Any],
        result: Sequence[torch.Tensor],
        finish: Callable[[], None],
        callbacks: Executor,
        source_rank: int = -1,
    ) -> None:
        """``finish`` runs once, after the network's part and before anyone hears of the end.

        Args:
            pending: the network's part.
            result: the tensors that hold the result then.
            finish: puts the result there, as far as the network has not.
            callbacks: where callbacks of futures run: they may wait for other operations, so it
                must be no thread that completes operations.
            source_rank: the sender, of a received message.
        """
        super().__init__()
        self._pending = pending
        self._result = list(result)
        self._finish = finish
        self._callbacks = callbacks
        self._sender = source_rank
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Wait for the end.

        Args:
            timeout: how long to wait here, zero for as long as the operation's own deadline.

        Raises:
            CollectiveError: the operation failed.
            TimeoutError: ``timeout`` passed first; the operation goes on.
        """
        self._settle(timeout.total_seconds() if timeout > _NO_TIMEOUT else None)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """:meth:`wait`: there is no stream to synchronise with."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        if not self._pending.done():
            return False
        self._settle(None)
        return True

    def is_success(self) -> bool:
        """Whether the operation has ended well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The error of an operation that has ended, or ``None``."""
        return self._error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        """The tensors with the result; valid once the operation has ended."""
        return self._result

    def source_rank(self) -> int:
        """The rank that sent a received message, -1 for other operations."""
        return self._sender

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future of :meth:`result`; its callbacks may call and wait for other operations."""
        with self._lock:
            if self._future is not None:
                return self._future
            ended: torch.futures.Future[None] = torch.futures.Future()
            # DistributedDataParallel crashes on a future whose exception was set from Python; an
            # exception raised in a callback reaches it well.
            future = self._future = ended.then(self._outcome)
        self._pending.add_done_callback(lambda _: self._hand_over(ended))
        return future

    def _hand_over(self, ended: torch.futures.Future[None]) -> None:
        # After shutdown the executor refuses: nobody is left to be called back.
        with contextlib.suppress(RuntimeError):
            self._callbacks.submit(self._complete, ended)

    def _complete(self, ended: torch.futures.Future[None]) -> None:
        self._settle(None)
        ended.set_result(None)

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result

    def _settle(self, timeout_s: float | None) -> None:
        """Wait for the network's part, then finish once, whoever comes first."""
        error = None
        try:
            self._pending.wait(timeout_s)
        except TimeoutError:
            raise
        except Exception as problem:
            error = problem
        with self._lock:
            if self._ended:
                return
            if error is None:
                try:
                    self._finish()
                except Exception as problem:
                    error = problem
            self._error = error
            self._ended = True
