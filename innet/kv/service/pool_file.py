"""The file of a standing pool: its network, its tenants, and their memory and disk on each host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field

from innet.errors import KVError, PoolFileError
from innet.kv.eviction import DEFAULT_POLICY, PolicyName
from innet.kv.pool.object_storage import is_url, require_known
from innet.kv.pool_options import RUN_EVENTS, MemberOptions, PoolOptions, Size, as_path
from innet.kv.tenant import Tenant
from innet.node.messages import MAX_WEIGHT
from innet.quantities import parse_duration_s
from innet.topology import Topology, load_topology
from innet.topology.from_ray import ListMachines
from innet.topology.located_yaml import LocatedDocument, parse_located
from innet.topology.names import NodeName
from innet.topology.specification import Specification, optional, validated
from innet.topology.yaml_text import topology_from_document

MAX_ENGINES: Final = 255
_MAX_BYTES: Final = 1 << 24
_POOL: Final = "pool"
_OPTIONS: Final = {key: f"offered_{key}" for key in ("memory", "disk", "objects")}
"""Keys of a tenant that are options of a member by another name."""

FilePath = Annotated[Path, BeforeValidator(as_path)]
FolderPath = Annotated[Path | str, BeforeValidator(as_path)]
"""Of blocks: a folder, or the URL of an object storage."""


class TenantSpecification(Specification):
    """A tenant. Its memory and disk on each host are its quota."""

    secret: FilePath
    """File with its secret, readable by its owner alone."""
    memory: Size = optional("of each host, for blocks that it is home to; 256MiB by default")
    disk: Size = optional("behind that memory; 0 by default")
    objects: Size = optional("in the object storage behind that disk; 0 by default")
    weight: int = optional("part of the switches' memory; 1 by default", ge=1, le=MAX_WEIGHT)
    model_name: str = optional(
        "of its only model, in the topics of events; by default the model's digest"
    )


class PoolSpecification(Specification):
    """The section ``pool``."""

    tenants: dict[str, TenantSpecification] = Field(min_length=1)
    engines: int = Field(default=4, ge=1, le=MAX_ENGINES)
    """Processes of each host that can attach at the same time."""
    folder: FolderPath | None = None
    """Of the disks' files, on every machine; or the URL of an object storage in their place."""
    objects_url: str = ""
    """Of an object storage behind the disks."""
    policy: PolicyName = DEFAULT_POLICY
    replicas: int = Field(default=1, ge=1)
    window: int = Field(default=8, ge=1)
    timeout: Annotated[float, BeforeValidator(parse_duration_s)] = Field(default=5.0, gt=0)
    copy_rate: Size = Field(default="128MiB", ge=1)
    """Bytes per second that a member copies to other homes by itself."""
    events: bool = False
    """Whether members publish events of their blocks, where ``innet kv`` finds them."""


class PoolDocument(Specification):
    """The whole file."""

    name: NodeName | None = None
    topology: str | dict[str, Any]
    """A file, a shipped topology or a generator; or the section of a topology file."""
    events: list[Any] = Field(default=[])
    """Of the topology."""
    pool: PoolSpecification


class PoolFile:
    """A pool as its file describes it.

    Attributes:
        name: of the network.
        members: for each tenant, the options of its member on every host.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            PoolFileError: the file cannot be read, or a value is invalid; with its line.
            SecurityError: a tenant's secret cannot be used.
        """
        self._path = path
        self._document = parse_located(_read(path), path, PoolFileError)
        self._file = validated(PoolDocument, self._document)
        self.name = self._file.name or path.stem
        self._require_storages()
        self.members = [
            self._member(name, tenant) for name, tenant in self._file.pool.tenants.items()
        ]

    def topology(self, list_machines: ListMachines | None = None) -> Topology:
        """Its network, in which each host has a worker for the pool and others for engines.

        Raises:
            TopologyError: it cannot be used.
            PoolFileError: it has fewer hosts than blocks have replicas.
        """
        section = self._file.topology
        if isinstance(section, str):
            beside = self._path.parent / section
            loaded = load_topology(beside if beside.is_file() else section, list_machines)
        else:
            loaded = topology_from_document(self._without_pool(), list_machines)
        self._require_homes(len(loaded.hosts))
        return loaded.with_workers(1 + self._file.pool.engines)

    def _require_storages(self) -> None:
        pool = self._file.pool
        if pool.objects_url and not is_url(pool.objects_url):
            raise self._document.error(
                f"expected the URL of an object storage, such as s3://bucket/blocks, found "
                f"{pool.objects_url!r}. A folder is a file:// URL",
                _POOL,
                "objects-url",
            )
        for key, url in (("folder", pool.folder), ("objects-url", pool.objects_url)):
            if isinstance(url, str) and url:
                try:
                    require_known(url)
                except KVError as error:
                    raise self._document.error(str(error), _POOL, key) from error

    def _require_places(self, name: str, tenant: dict[str, Any]) -> None:
        """Check that a tenant has room, and that its blocks have a folder and a URL to be in."""
        pool, problem = self._file.pool, ""
        if tenant.get("disk") and pool.folder is None:
            problem = "its disk has no folder. Give the pool one"
        elif tenant.get("objects") and not pool.objects_url:
            problem = (
                "its objects have no object storage. Give the pool an objects-url, such as "
                "s3://bucket/blocks"
            )
        elif tenant.get("objects") and not tenant.get("disk"):
            problem = (
                "its objects are behind a disk, and it has none. Give it a disk; or, for an object "
                "storage without a disk, give the pool the URL as its folder"
            )
        elif tenant.get("memory") == 0 and not tenant.get("disk"):
            problem = "it has no room, because its memory and its disk are 0. Give it some"
        if problem:
            raise self._document.error(f"tenant {name}: {problem}", _POOL, "tenants", name)

    def _require_homes(self, hosts: int) -> None:
        replicas = self._file.pool.replicas
        if replicas > hosts:
            raise self._document.error(
                f"{replicas} replicas of a block need as many hosts, and the topology has {hosts}. "
                "Give fewer replicas, or more hosts",
                _POOL,
                "replicas",
            )

    def _without_pool(self) -> LocatedDocument:
        """The file as that of a topology."""
        data = {key: value for key, value in self._document.data.items() if key != _POOL}
        return replace(self._document, data={"name": self.name, **data})

    def _member(self, name: str, tenant: TenantSpecification) -> PoolOptions:
        pool, folder = self._file.pool, self._file.pool.folder
        options = PoolOptions(
            tenant=name,
            secret=Tenant.from_file(name, self._beside(tenant.secret)).secret,
            memory=0,
            policy=pool.policy,
            replicas=pool.replicas,
            window=pool.window,
            timeout_s=pool.timeout,
            copy_rate=pool.copy_rate,
            engine="pool",
            events=RUN_EVENTS if pool.events else "",
            folder=self._beside(folder) if isinstance(folder, Path) else folder,
            objects_url=pool.objects_url,
        )
        given = {key: value for key, value in tenant.given().items() if key != "secret"}
        self._require_places(name, given)
        options |= cast(PoolOptions, {_OPTIONS.get(key, key): given[key] for key in given})
        try:
            MemberOptions.of(options)
        except KVError as error:
            raise self._document.error(str(error), _POOL, "tenants", name) from error
        return options

    def _beside(self, path: Path) -> Path:
        """A path of the file, which may be relative to it."""
        return (self._path.parent / path.expanduser()).absolute()


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise PoolFileError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise PoolFileError(f"expected UTF-8 text: {error.reason}", path=path) from None
    if len(text) > _MAX_BYTES:
        raise PoolFileError("larger than 16 MiB; expected the file of a pool", path=path)
    return text
