"""Options of a program's membership of a pool of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from innet.errors import KVError
from innet.kv.eviction import PolicyName
from innet.kv.pool import PoolSettings
from innet.node.messages import MAX_WEIGHT
from innet.quantities import QuantityError, parse_size_bytes
from innet.validation_messages import value_message

DEFAULT_TENANT: Final = "default"
DEFAULT_ENGINE: Final = "python"
_ENGINE: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SIZES: Final = ("memory", "disk", "offered_memory", "offered_disk")
_SETTINGS: Final = ("replicas", "window", "timeout_s", "puts", "keeps_fetched")
"""Options that :class:`PoolSettings` has under the same names."""


class PoolOptions(TypedDict, total=False):
    """Options by name, as :class:`innet.KVPool` and :class:`PoolMember` take them."""

    tenant: str
    """Owner of the blocks; default ``default``."""
    secret: Path | str | bytes | None
    """Of the tenant, as bytes or as the path of a file, so that blocks outlive a run and jobs share
    them; by default each job has one of its own."""
    memory: str | int
    """For blocks that this process uses itself; default ``256MiB``. With ``puts="when-asked"``, it
    and ``offered_memory`` are one store."""
    disk: str | int
    """Behind that memory; default 0."""
    offered_memory: str | int
    """For blocks of all members that this process is home to; default ``256MiB``."""
    offered_disk: str | int
    """Behind that memory; default 0."""
    folder: Path | str | None
    """For blocks on disk; needed if a disk is more than 0. Each host has a subfolder of its own,
    which is removed at the end if the secret is the job's."""
    policy: PolicyName
    """Which blocks are evicted first; default ``second-use`` with ``puts="when-asked"``, and
    otherwise ``lru``."""
    replicas: int
    """Homes of each block, the same for all members; default 1."""
    window: int
    """Blocks in flight; default 8."""
    timeout_s: float
    """After which a block that has not arrived is a miss; default 5."""
    puts: Literal["at-once", "when-asked"]
    """When a block moves to its homes: when it is put (the default), or when somebody requests it;
    until then only this process has it."""
    keeps_fetched: bool
    """Whether this process keeps blocks that it fetched; default true."""
    weight: int
    """The pool's share of the switches' memory, beside other pools and jobs; default 1."""
    engine: str
    """The user of the pool, for metrics: at most 32 letters, digits, ``-`` and ``_``; default
    ``python``."""


_TYPES: Final[dict[str, TypeAdapter[Any]]] = {
    name: TypeAdapter(kind, config=ConfigDict(strict=True, hide_input_in_errors=True))
    for name, kind in get_type_hints(PoolOptions).items()
}


@dataclass(frozen=True, kw_only=True)
class MemberOptions:
    """:class:`PoolOptions`, checked, with sizes in bytes."""

    tenant: str
    secret: Path | bytes | None
    memory_bytes: int
    disk_bytes: int
    offered_memory_bytes: int
    offered_disk_bytes: int
    folder: Path | None
    policy: PolicyName
    settings: PoolSettings
    weight: int
    engine: str = DEFAULT_ENGINE

    @classmethod
    def of(cls, options: PoolOptions) -> MemberOptions:
        """
        Raises:
            KVError: there is no such option, or its value is invalid.

        >>> MemberOptions.of({"memory": "1GiB"}).memory_bytes
        1073741824
        """
        chosen: dict[str, Any] = dict(options)
        for name, value in chosen.items():
            _require_type(name, value)
        checked = cls(
            tenant=chosen.get("tenant", DEFAULT_TENANT),
            secret=_path(chosen.get("secret")),
            memory_bytes=_size("memory", chosen.get("memory", "256MiB")),
            disk_bytes=_size("disk", chosen.get("disk", 0)),
            offered_memory_bytes=_size("offered_memory", chosen.get("offered_memory", "256MiB")),
            offered_disk_bytes=_size("offered_disk", chosen.get("offered_disk", 0)),
            folder=_path(chosen.get("folder")),
            policy=chosen.get("policy", _default_policy(chosen)),
            weight=chosen.get("weight", 1),
            engine=chosen.get("engine", DEFAULT_ENGINE),
            settings=PoolSettings(**{name: chosen[name] for name in _SETTINGS if name in chosen}),
        )
        checked._require_possible()
        return checked

    @property
    def shares_store(self) -> bool:
        """One store holds this process's own blocks and those that it is home to."""
        return self.settings.puts == "when-asked"

    def store_bytes(self, purpose: Literal["local", "offered", "shared"]) -> tuple[int, int]:
        """Sizes of a store's memory and disk."""
        local = (self.memory_bytes, self.disk_bytes)
        offered = (self.offered_memory_bytes, self.offered_disk_bytes)
        sums = (local[0] + offered[0], local[1] + offered[1])
        return {"local": local, "offered": offered, "shared": sums}[purpose]

    def _require_possible(self) -> None:
        if (self.disk_bytes or self.offered_disk_bytes) and self.folder is None:
            raise KVError("blocks on disk need a folder: give folder=")
        if not 1 <= self.weight <= MAX_WEIGHT:
            raise KVError(f"the weight of a pool is from 1 to {MAX_WEIGHT}, not {self.weight}")
        if not _ENGINE.fullmatch(self.engine):
            raise KVError(
                f"the engine of a pool is a label of metrics: got {self.engine!r}, expected 1 to "
                "32 letters, digits, '-' and '_'"
            )


def _default_policy(chosen: dict[str, Any]) -> PolicyName:
    """The policy with the most hits in replays of such a pool (docs/kv-replay.md)."""
    return "second-use" if chosen.get("puts") == "when-asked" else "lru"


def _require_type(name: str, value: Any) -> None:
    if name not in _TYPES:
        raise KVError(f"a pool has no option {name}; options: {', '.join(_TYPES)}")
    if name in _SIZES:
        return  # parse_size_bytes checks it
    try:
        _TYPES[name].validate_python(value)
    except ValidationError as error:
        shown = type(value) if name == "secret" else value
        raise KVError(f"{name} of a pool: {value_message(error, shown)}") from error


def _path(value: Any) -> Any:
    return Path(value) if isinstance(value, str) else value


def _size(option: str, value: str | int) -> int:
    try:
        return parse_size_bytes(value)
    except QuantityError as error:
        raise KVError(f"{option} of a pool: {error}") from error
