"""The pool that the parts of an engine in one process share, and its options."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet.errors import KVError
from innet.kv.codec import CodecName
from innet.kv.pool import BlockPool
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import DEFAULT_ENGINE, MemberOptions, PoolOptions
from innet.kv.process_share import ProcessShare
from innet.suggestions import did_you_mean
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
            meant = did_you_mean(unknown[0], names)
            raise KVError(f"{where}: no option {unknown[0]}{meant}; options: {', '.join(names)}")
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


def _opened(options: PoolOptions, members: int = 0) -> Member:
    member = PoolMember.open_or_wait(**options)
    try:
        if not member.is_waiting:
            member.submit(member.members(members)).result()
    except BaseException:  # no part has entered that could leave
        member.close()
        raise
    return member


def _other_options(joined: PoolOptions, wanted: PoolOptions) -> KVError:
    return KVError(
        f"this process has joined a pool with {joined}, not with {wanted}: "
        "give all parts of the engine the same options"
    )


pool_of_process = ProcessShare[PoolOptions, Member](
    _opened, lambda member: member.close(), _other_options
)
"""One pool for all parts of an engine in one process, which share its node.

The first part that enters gives the number of members to wait for.
"""
os.register_at_fork(after_in_child=pool_of_process.forget_after_fork)
