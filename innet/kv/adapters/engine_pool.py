"""The pool that the parts of an engine in one process share, and its options."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet.errors import KVError
from innet.kv.codec import CodecName
from innet.kv.pool import BlockPool
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import DEFAULT_ENGINE, MemberOptions, PoolOptions
from innet.validation_messages import first_message

if TYPE_CHECKING:
    from innet.kv.events.source import BlockEvents


class AdapterOptions(BaseModel):
    """Options of an adapter, in addition to those of its pool.

    Attributes:
        weights: identity of the model's weights, for which the user vouches: part of the blocks'
            names. Without it, a model in a local folder is identified by a hash of its files, and a
            model of a hub by its name.
        members: hosts that offer memory, awaited for at most 10 s when the engine starts: others do
            not find blocks that are saved before all members are known.
        codec: quantises blocks on their way; engines with the same one share blocks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: str = ""
    members: int = Field(default=0, ge=0)
    codec: CodecName | None = None

    @classmethod
    def read(
        cls, where: str, values: Mapping[str, Any], engine: str = DEFAULT_ENGINE
    ) -> tuple[Self, PoolOptions]:
        """The adapter's own options, and those of its pool.

        Args:
            where: the place of the options, for messages.
            values: by key; keys are those of this class and of
                :class:`innet.kv.pool_options.PoolOptions`.
            engine: label of the adapter's engine, unless ``values`` has another.

        Raises:
            KVError: a key is unknown, or its value is invalid.
        """
        names = (*cls.model_fields, *PoolOptions.__annotations__)
        if unknown := [key for key in values if key not in names]:
            raise KVError(f"{where}: no option {unknown[0]}; options: {', '.join(names)}")
        own = {key: value for key, value in values.items() if key in cls.model_fields}
        pool = {key: value for key, value in values.items() if key not in own}
        pool.setdefault("engine", engine)
        options = cast(PoolOptions, pool)
        try:
            checked = cls.model_validate(own)
            MemberOptions.of(options)
        except ValidationError as error:
            raise KVError(f"{where}: {first_message(error)}") from error
        except KVError as error:
            raise KVError(f"{where}: {error}") from error
        return checked, options


Result = TypeVar("Result")


class Member(Protocol):
    """The part of :class:`~innet.kv.pool_member.PoolMember` that adapters use."""

    blocks: BlockPool
    tenant: str
    events: BlockEvents | None

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]: ...

    async def members(self, at_least: int = 0) -> tuple[str, ...]: ...

    def close(self) -> None: ...


class PoolOfProcess:
    """One pool for all parts of an engine in one process, which share its node.

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
        """Join the pool, unless another part has; each part that enters leaves once.

        Args:
            options: of the pool.
            members: to wait for when it is joined.

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
                    f"this process has joined a pool with {self._options}, not with {options}: "
                    "give all parts of the engine the same options"
                )
            self._users += 1
            return self._member

    @property
    def is_joined(self) -> bool:
        """Whether a part of this process has joined the pool."""
        with self._lock:
            return self._member is not None

    def leave(self) -> None:
        """End one part's use of the pool; the last one leaves it."""
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
        except BaseException:  # no part has entered that could leave
            member.close()
            raise
        return member

    def forget_after_fork(self) -> None:
        """Start without a pool: the parent's pool, and the holder of its lock, are not here."""
        self._lock = threading.Lock()
        self._member, self._options, self._users = None, None, 0


pool_of_process = PoolOfProcess(lambda options: PoolMember.open(**options))
os.register_at_fork(after_in_child=pool_of_process.forget_after_fork)
