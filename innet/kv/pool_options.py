"""Options of a program's membership of a pool of blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict, get_type_hints

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, create_model

from innet.errors import KVError
from innet.home_paths import with_home
from innet.kv.events.endpoints import Endpoints
from innet.kv.eviction import DEFAULT_POLICY, PolicyName
from innet.kv.pool import PoolSettings
from innet.kv.pool.object_storage import is_url, require_known
from innet.kv.pool.settings import PutTiming
from innet.node.messages import MAX_WEIGHT
from innet.quantities import parse_size_bytes
from innet.validation_messages import value_message

DEFAULT_ENGINE: Final = "python"
RUN_EVENTS: Final = "run"
"""Value of ``events`` for a socket in the run directory."""
_ENGINE: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SIZES: Final = ("memory", "disk", "objects", "offered_memory", "offered_disk", "offered_objects")
_DEFAULT_BYTES: Final = 256 << 20
_SETTINGS: Final = ("replicas", "window", "timeout_s", "puts", "keeps_fetched")
"""Options that :class:`PoolSettings` has under the same names."""


def as_path(value: object) -> object:
    """Text as a path, unless it is the URL of an object storage; ``~`` is the home directory."""
    if isinstance(value, str) and not is_url(value):
        value = Path(value)
    return with_home(value) if isinstance(value, Path) else value


Size = Annotated[str | int, BeforeValidator(parse_size_bytes)]
"""A size such as ``1GiB``, or a number of bytes."""


class PoolOptions(TypedDict, total=False):
    """Options by name, as :class:`innet.KVPool` and :class:`PoolMember` take them."""

    address: str | None
    """Of a standing pool, for a process that ``innet run`` has not started: the name of a network
    that this machine is part of, or ``HOST:PORT`` with ``token_file``."""
    token_file: Annotated[Path | str | None, BeforeValidator(as_path)]
    """The token file with which this machine joined; it names the network at ``address``."""
    tenant: str
    """Owner of the blocks; default ``default``."""
    secret: Annotated[Path | str | bytes | None, BeforeValidator(as_path)]
    """Of the tenant, as bytes or as the path of a file, so that blocks outlive a run and jobs share
    them; by default each job has one of its own."""
    memory: Size
    """For blocks that this process uses itself; default ``256MiB``. Unless ``puts="at-once"``, it
    and ``offered_memory`` are one store."""
    disk: Size
    """Disk behind ``memory``; default 0."""
    objects: Size
    """Room in the object storage behind ``disk``; default 0."""
    offered_memory: Size
    """For blocks of all members that this process is home to; default ``256MiB``, and 0 with an
    ``address``: the members of a standing pool stay, and this process may not."""
    offered_disk: Size
    """Disk behind ``offered_memory``; default 0."""
    offered_objects: Size
    """Room in the object storage behind ``offered_disk``; default 0."""
    objects_url: str
    """Of the object storage behind the disks, such as ``s3://bucket/blocks``; needed if ``objects``
    or ``offered_objects`` is more than 0."""
    folder: Annotated[Path | str | None, BeforeValidator(as_path)]
    """For blocks on disk; needed if a disk is more than 0. Each host has a subfolder of its own,
    which is removed at the end if the secret is the job's. A URL such as ``s3://bucket/blocks``
    keeps them in an object storage that fsspec reaches, in place of a disk."""
    policy: PolicyName
    """Chooses the blocks to evict; default ``second-use``."""
    replicas: int
    """Homes of each block, the same for all members; default: the number of the members that have
    joined, or 1."""
    window: int
    """Blocks of 1 MiB or more in flight, and more of smaller ones; default 8."""
    timeout_s: float
    """A block that has not arrived after this time, from the start of its fetch, is a miss; default
    5. Blocks of a call start one after the other as the window has room; a timeout or deadline that
    a call is given is for all of its blocks together."""
    puts: PutTiming
    """When a block moves to its homes: when it is put (the default); when a process requests it,
    and until then only this process has it; or ``balanced``: when it is put, if its home would keep
    it longer than this process, and otherwise when a process requests it."""
    keeps_fetched: bool
    """Whether this process keeps blocks that it fetched; default true."""
    copy_rate: Annotated[Size, Field(ge=1)]
    """Limit in bytes per second of copies to other homes, which this process makes when a member
    has gone and before it leaves itself; default ``128MiB``."""
    weight: Annotated[int, Field(ge=1, le=MAX_WEIGHT)]
    """The pool's share of the switches' memory, beside other pools and jobs; default 1."""
    engine: str
    """The user of the pool, for metrics: at most 32 letters, digits, ``-`` and ``_``; default
    ``python``."""
    events: str
    """Where this process publishes events of its blocks for routers: ``tcp://127.0.0.1:PORT``,
    ``ipc://PATH``, or ``run`` for a socket in the run directory, where ``innet kv`` finds it; by
    default nowhere. They contain the tokens of prompts."""
    events_replay: str
    """Where consumers request events that they lost; default: the next port, or beside the
    path."""
    model_name: str
    """The model's name, as a label of metrics and in the topics of events; default: no label, and
    the first 16 digits of its digest in topics."""


_KINDS: Final[dict[str, Any]] = get_type_hints(PoolOptions, include_extras=True)
_FIELDS: Final[dict[str, Any]] = {name: (kind, None) for name, kind in _KINDS.items()}
_Options: Final = create_model(
    "PoolOptions",
    __config__=ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True),
    **_FIELDS,
)


class StoreBytes(NamedTuple):
    """Sizes of a store's tiers."""

    memory: int
    disk: int
    objects: int


@dataclass(frozen=True, kw_only=True)
class MemberOptions:
    """:class:`PoolOptions`, checked, with sizes in bytes."""

    settings: PoolSettings
    gives_replicas: bool = False
    address: str | None = None
    token_file: Path | None = None
    policy: PolicyName = DEFAULT_POLICY
    tenant: str = "default"
    secret: Path | bytes | None = None
    memory_bytes: int = _DEFAULT_BYTES
    disk_bytes: int = 0
    offered_memory_bytes: int = _DEFAULT_BYTES
    offered_disk_bytes: int = 0
    objects_bytes: int = 0
    offered_objects_bytes: int = 0
    objects_url: str = ""
    folder: Path | str | None = None
    weight: int = 1
    engine: str = DEFAULT_ENGINE
    events: str = ""
    events_replay: str = ""
    model_name: str = ""

    @classmethod
    def of(cls, options: PoolOptions) -> MemberOptions:
        """
        Raises:
            KVError: there is no such option, or its value is invalid.

        >>> MemberOptions.of({"memory": "1GiB"}).memory_bytes
        1073741824
        """
        try:
            chosen = _Options.model_validate(options).model_dump(exclude_unset=True)
        except ValidationError as error:
            raise KVError(_message(error, options)) from error
        given = {name: chosen.pop(name) for name in _SETTINGS if name in chosen}
        if "copy_rate" in chosen:
            given["copy_bytes_per_s"] = chosen.pop("copy_rate")
        settings = PoolSettings(**given)
        named = {f"{name}_bytes" if name in _SIZES else name: chosen[name] for name in chosen}
        if named.get("address") is not None:
            named.setdefault("offered_memory_bytes", 0)
        checked = cls(settings=settings, gives_replicas="replicas" in given, **named)
        checked._require_possible()
        return checked

    def with_replicas(self, replicas: int | None) -> MemberOptions:
        """These options with the replicas of the pool's members, unless the user gave a number."""
        if self.gives_replicas or replicas is None:
            return self
        return replace(self, settings=replace(self.settings, replicas=replicas))

    @property
    def shares_store(self) -> bool:
        """One store holds this process's own blocks and those that it is home to."""
        return self.settings.shares_store

    def store_bytes(self, purpose: Literal["local", "offered", "shared"]) -> StoreBytes:
        """Sizes of a store's tiers."""
        local = StoreBytes(self.memory_bytes, self.disk_bytes, self.objects_bytes)
        offered = StoreBytes(
            self.offered_memory_bytes, self.offered_disk_bytes, self.offered_objects_bytes
        )
        sums = StoreBytes(*(sum(sizes) for sizes in zip(local, offered, strict=True)))
        return {"local": local, "offered": offered, "shared": sums}[purpose]

    def _require_possible(self) -> None:
        if (self.disk_bytes or self.offered_disk_bytes) and self.folder is None:
            raise KVError("blocks on disk need a folder: give folder=")
        for url in (self.folder, self.objects_url):
            if isinstance(url, str) and is_url(url):
                require_known(url)
        for purpose in ("local", "offered"):
            if self.store_bytes(purpose).objects:
                self._require_objects(self.store_bytes(purpose))
        if self.address is not None and self.secret is None:
            raise KVError(
                f"the pool at {self.address} keeps blocks of tenants with a secret of their own: "
                "give secret=, the file that the pool's tenant has"
            )
        if self.address is None and self.token_file is not None:
            raise KVError(
                f"the token file {self.token_file} is for a pool at an address: give address="
            )
        if not _ENGINE.fullmatch(self.engine):
            raise KVError(
                f"the engine of a pool is a label of metrics: got {self.engine!r}, expected 1 to "
                "32 letters, digits, '-' and '_'"
            )
        if self.events not in ("", RUN_EVENTS):
            Endpoints.of(self.events, self.events_replay)
        if "@" in self.model_name:
            raise KVError(
                f"topics of events have '@' between their parts, so the model's name "
                f"{self.model_name!r} cannot: give another name"
            )

    def _require_objects(self, sizes: StoreBytes) -> None:
        if not is_url(self.objects_url):
            raise KVError(
                f"blocks in an object storage need its URL, not {self.objects_url!r}: give "
                "objects_url=, such as s3://bucket/blocks"
            )
        if not sizes.disk or self.folder is None or is_url(self.folder):
            raise KVError(
                f"the object storage {self.objects_url} is behind a disk: give a folder and the "
                "disk's size; for one without a disk, give its URL as the folder"
            )


def _message(error: ValidationError, options: Mapping[str, Any]) -> str:
    """One sentence about the first invalid option, with every form that it may have."""
    findings = error.errors(include_url=False)
    name = str(findings[0]["loc"][0])
    if name not in _KINDS:
        return f"a pool has no option {name}; options: {', '.join(_KINDS)}"
    shown = type(options[name]) if name == "secret" else options[name]
    return f"{name} of a pool: {value_message([e for e in findings if e['loc'][0] == name], shown)}"
