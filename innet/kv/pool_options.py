"""What a program can choose about its part in a pool of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from innet.errors import KVError
from innet.kv.eviction import PolicyName
from innet.kv.pool import PoolSettings
from innet.node.control.jobs import MAX_WEIGHT
from innet.quantities import QuantityError, parse_size_bytes

DEFAULT_TENANT: Final = "default"
DEFAULT_ENGINE: Final = "python"
_ENGINE: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SETTINGS: Final = ("replicas", "window", "timeout_s", "puts", "keeps_fetched")
"""Options that :class:`PoolSettings` has under the same names."""


class PoolOptions(TypedDict, total=False):
    """Options by name, as :class:`innet.KVPool` and :class:`PoolMember` take them."""

    tenant: str
    """Whose blocks they are; default ``default``."""
    secret: Path | str | bytes | None
    """Of the tenant, in bytes or as the file that holds it, so that blocks outlive a run and jobs
    share them; by default each job has one of its own."""
    memory: str | int
    """For blocks that this process uses itself; default ``256MiB``."""
    disk: str | int
    """Behind it; default 0."""
    offered_memory: str | int
    """For blocks of all members that this process is home to; default ``256MiB``."""
    offered_disk: str | int
    """Behind it; default 0."""
    folder: Path | str | None
    """For the disks' blocks; needed where a disk is more than 0. Each host has one of its own
    there, which is removed at the end where the secret is the job's."""
    policy: PolicyName
    """What goes first where there is no room; default ``lru``."""
    replicas: int
    """Homes of each block, the same for all members; default 1."""
    window: int
    """Blocks on their way at once; default 8."""
    timeout_s: float
    """After which a block that has not come is a miss; default 5."""
    puts: Literal["at-once", "when-asked"]
    """When a block goes to its homes: as it is put (the default), or when somebody asks for it, and
    until then this process alone has it."""
    keeps_fetched: bool
    """Whether this process keeps what it got from others; default true."""
    weight: int
    """The pool's share of the switches' memory, beside other pools' and jobs'; default 1."""
    engine: str
    """What uses the pool, for metrics: 32 letters, digits, ``-`` and ``_`` at most; default
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
            KVError: there is no such option, or a value is none that it can have.

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
            policy=chosen.get("policy", "lru"),
            weight=chosen.get("weight", 1),
            engine=chosen.get("engine", DEFAULT_ENGINE),
            settings=PoolSettings(**{name: chosen[name] for name in _SETTINGS if name in chosen}),
        )
        checked._require_possible()
        return checked

    def _require_possible(self) -> None:
        if (self.disk_bytes or self.offered_disk_bytes) and self.folder is None:
            raise KVError("blocks on disk need a place: give folder=")
        if not 1 <= self.weight <= MAX_WEIGHT:
            raise KVError(f"the weight of a pool is from 1 to {MAX_WEIGHT}, not {self.weight}")
        if not _ENGINE.fullmatch(self.engine):
            raise KVError(
                f"the engine of a pool is a label of metrics: got {self.engine!r}, expected 1 to "
                "32 letters, digits, '-' and '_'"
            )


def _require_type(name: str, value: Any) -> None:
    if name not in _TYPES:
        raise KVError(f"a pool has no option {name}; options: {', '.join(_TYPES)}")
    try:
        _TYPES[name].validate_python(value)
    except ValidationError as error:
        kinds = [each["msg"].removeprefix("Input should be ") for each in error.errors()]
        raise KVError(f"{name} of a pool should be {' or '.join(kinds)}") from error


def _path(value: Any) -> Any:
    return Path(value) if isinstance(value, str) else value


def _size(option: str, value: str | int) -> int:
    try:
        return parse_size_bytes(value)
    except QuantityError as error:
        raise KVError(f"{option} of a pool: {error}") from error
