"""Finds a topology by file, name or expression, whatever its format; lists the shipped files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from innet.errors import TopologyError
from innet.home_paths import with_home
from innet.shipped_files import located, shipped_folder
from innet.suggestions import did_you_mean
from innet.topology.from_ray import ListMachines
from innet.topology.generators import expression_forms, from_expression, is_expression
from innet.topology.importers.astra_sim import is_astra_sim, topology_from_astra_sim
from innet.topology.importers.mini_ndn import parse_mini_ndn
from innet.topology.located_yaml import parse_located
from innet.topology.model import Topology
from innet.topology.yaml_text import topology_from_document

MAX_FILE_BYTES: Final = 16 * 2**20


def load_topology(path_or_name: str | Path, list_machines: ListMachines | None = None) -> Topology:
    """Load a topology.

    Args:
        path_or_name: one of

            * a file, also a shipped one (``topologies/wan.yaml``): ``.yaml`` and ``.yml`` (innet's
              own, or an ASTRA-sim network), ``.conf`` (Mini-NDN), ``.graphml`` (Topology Zoo);
            * the name of a shipped topology, such as ``star8``;
            * a generator expression, such as ``star:8``, ``leaf-spine:4x2x4``, ``fat-tree:4``,
              ``dumbbell:4`` or ``wan:6``.
        list_machines: asks the cluster on which the network is launched for its machines, for a
            file that is generated from them.

    Raises:
        TopologyError: nothing of that name exists, or what exists cannot be used; the message names
            the file, the line, and what was expected.

    Example:
        >>> load_topology("star8").hosts
        ('h0', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'h7')
    """
    path = Path(path_or_name)
    with suppress(ValueError):  # no such user: a file of that name
        path = with_home(path)
    if _is(path, lambda path: located(path).is_file()):
        return _load_file(located(path), list_machines)
    if _is(path, Path.is_dir):
        raise TopologyError(
            f"is a directory; expected one of its files ({', '.join(_PARSERS)})", path=path
        )
    name = str(path_or_name)
    shipped = shipped_topologies()
    if (file := shipped.get(name.removesuffix(".yaml"))) is not None:
        return _load_file(file)
    if is_expression(name):
        return from_expression(name)
    hint = did_you_mean(name, shipped)
    raise TopologyError(
        f"no topology file {name!r}{hint}\n"
        f"  shipped topologies: {', '.join(shipped) or 'none found'}\n"
        f"  generators: {', '.join(expression_forms())}"
    )


def _is(path: Path, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(path)
    except (OSError, ValueError):  # longer than the system allows, or with a NUL inside
        return False


def _load_file(path: Path, list_machines: ListMachines | None = None) -> Topology:
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        known = ", ".join(_PARSERS)
        raise TopologyError(f"unknown extension {path.suffix!r}; expected {known}", path=path)
    if parse is _parse_any_yaml:
        return _parse_any_yaml(_read_text(path), path, list_machines)
    return parse(_read_text(path), path)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            limit = f"{MAX_FILE_BYTES // 2**20} MiB"
            raise TopologyError(f"larger than {limit}; expected a topology file", path=path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"cannot be read: {error.strerror}", path=path) from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"expected UTF-8 text: {error.reason}", path=path) from None


def _parse_any_yaml(text: str, path: Path, list_machines: ListMachines | None = None) -> Topology:
    document = parse_located(text, path)
    if is_astra_sim(document):
        return topology_from_astra_sim(document)
    return topology_from_document(document, list_machines)


def _parse_graphml(text: str, path: Path) -> Topology:
    from innet.topology.importers.graphml import parse_graphml  # it loads networkx

    return parse_graphml(text, path)


_PARSERS: Final[dict[str, Callable[[str, Path], Topology]]] = {
    ".yaml": _parse_any_yaml,
    ".yml": _parse_any_yaml,
    ".conf": parse_mini_ndn,
    ".graphml": _parse_graphml,
}


def shipped_topologies() -> dict[str, Path]:
    """Shipped files by name, in order of their names."""
    directory = shipped_folder("topologies")
    files = () if directory is None else sorted(directory.glob("*.yaml"))
    return {file.stem: file for file in files}
