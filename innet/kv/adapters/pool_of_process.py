"""The pool of this process: opened by the first who needs it, closed with the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from innet.errors import KVError
from innet.kv.pool import BlockPool
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import PoolOptions

Result = TypeVar("Result")


class Member(Protocol):
    """What adapters need of :class:`~innet.kv.pool_member.PoolMember`."""

    blocks: BlockPool
    tenant: str

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]: ...

    async def members(self, at_least: int = 0) -> tuple[str, ...]: ...

    def close(self) -> None: ...


class PoolOfProcess:
    """Parts of an engine in one process share one pool, as they share the node.

    Args:
        open_member: joins the pool.
    """

    def __init__(self, open_member: Callable[[PoolOptions], Member]) -> None:
        self._open_member = open_member
        self._lock = threading.Lock()
        self._member: Member | None = None
        self._options: PoolOptions | None = None
        self._users = 0

    def enter(self, options: PoolOptions, members: int = 0) -> Member:
        """The pool, which is joined if it was not. Each who enters leaves once.

        Args:
            options: of the pool.
            members: that are waited for when it is joined.

        Raises:
            KVError: another part has joined it with other options.
            EmulationError: this process was not started by ``innet run``.
            HostTaken: another process of this host has its node, or this one was forked from it.
        """
        with self._lock:
            if self._member is None:
                self._member = self._opened(options, members)
                self._options = options
            elif self._options != options:
                raise KVError(
                    f"this process has joined a pool with {self._options}, and now it shall with "
                    f"{options}: give all parts of the engine the same options"
                )
            self._users += 1
            return self._member

    @property
    def is_joined(self) -> bool:
        """Whether a part of this process has joined the pool."""
        with self._lock:
            return self._member is not None

    def leave(self) -> None:
        """Say that whoever entered needs the pool no more; the last leaves it."""
        with self._lock:
            self._users -= 1
            if self._users or self._member is None:
                return
            member, self._member = self._member, None
        member.close()

    def _opened(self, options: PoolOptions, members: int) -> Member:
        member = self._open_member(options)
        try:
            member.submit(member.members(members)).result()
        except BaseException:  # nobody has entered who could leave
            member.close()
            raise
        return member

    def forget_after_fork(self) -> None:
        """The pool is the parent's, and so is whoever held the lock: this process joins none."""
        self._lock = threading.Lock()
        self._member, self._options, self._users = None, None, 0


pool_of_process = PoolOfProcess(lambda options: PoolMember.open(**options))
os.register_at_fork(after_in_child=pool_of_process.forget_after_fork)
