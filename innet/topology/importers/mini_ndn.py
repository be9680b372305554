"""Mini-NDN's ``.conf``: sections ``[nodes]``, ``[switches]`` and ``[links]``.

::

    [nodes]
    a: _ radius=0.5 angle=2.6
    b: _
    [links]
    a:b delay=10ms bw=10 loss=0.5 max_queue_size=100

Mini-NDN hands the link parameters to Mininet: ``bw`` is in Mbit/s, ``loss`` in percent, and
``max_queue_size`` in packets. A Mini-NDN node runs a forwarder and applications at once; here it
becomes a switch of that name with one host ``h-<name>`` behind it, by a link without limits.
Coordinates and the parameters of Mini-NDN's routing protocol have no meaning here and are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from innet.errors import TopologyError
from innet.quantities import QuantityError, parse_duration_s, parse_probability, parse_rate_bps
from innet.suggestions import did_you_mean
from innet.topology.blueprint import Blueprint, PartDefaults
from innet.topology.model import Topology
from innet.topology.names import NAME_EXPECTED, NAME_PATTERN, sanitised_name
from innet.topology.parts import Link

_SECTIONS: Final = ("nodes", "switches", "links")
_MTU_BYTES: Final[int] = Link.model_fields["mtu_bytes"].default

_LINK_PARAMETERS: Final[Mapping[str, tuple[str, Callable[[str], float | int]]]] = {
    "bw": ("rate_bps", lambda text: parse_rate_bps(f"{text}mbit")),
    "delay": ("delay_s", parse_duration_s),
    "loss": ("loss", lambda text: parse_probability(f"{text}%")),
    "max_queue_size": ("queue_bytes", lambda text: int(text) * _MTU_BYTES),
}
_IGNORED_PARAMETERS: Final = {"jitter", "use_htb"}


def parse_mini_ndn(text: str, path: Path) -> Topology:
    """Make a topology from the text of a Mini-NDN configuration."""
    reader = _Reader(path)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.read(line.partition("#")[0].strip(), number)
    return reader.topology()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._blueprint = Blueprint()
        self._names: set[str] = set()
        self._section = ""

    def read(self, line: str, number: int) -> None:
        try:
            self._read(line)
        except (TopologyError, QuantityError) as error:
            raise TopologyError(str(error), path=self._path, line=number) from None

    def topology(self) -> Topology:
        try:
            return self._blueprint.topology(sanitised_name(self._path.stem), PartDefaults())
        except TopologyError as error:
            raise TopologyError(str(error), path=self._path) from None

    def _read(self, line: str) -> None:
        if not line or line.startswith(";"):
            return
        if line.startswith("["):
            self._open_section(line)
        elif self._section == "links":
            self._add_link(line)
        elif self._section:
            self._add_node(line)
        else:
            raise TopologyError(f"expected [nodes] before anything else, found {line!r}")

    def _open_section(self, line: str) -> None:
        name = line.strip("[]").strip()
        if name not in _SECTIONS:
            hint = did_you_mean(name, _SECTIONS) or "; expected [nodes], [switches] or [links]"
            raise TopologyError(f"section {line} has no meaning for a wired network{hint}")
        self._section = name

    def _add_node(self, line: str) -> None:
        name = line.split()[0].partition(":")[0]
        if not re.fullmatch(NAME_PATTERN, name):
            raise TopologyError(f"expected {NAME_EXPECTED}, found {name!r}")
        self._blueprint.add_switch(name)
        self._names.add(name)
        if self._section == "nodes":
            self._blueprint.add_host(f"h-{name}"[:32])
            self._blueprint.connect(f"h-{name}"[:32], name)

    def _add_link(self, line: str) -> None:
        ends, *parameters = line.split()
        a, _, b = ends.partition(":")
        for end in (a, b):
            if end not in self._names:
                hint = did_you_mean(end, self._names)
                raise TopologyError(f"link {ends!r} ends at unknown node {end!r}{hint}")
        self._blueprint.connect(a, b, **_link_settings(parameters))


def _link_settings(parameters: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        if key in _IGNORED_PARAMETERS:
            continue
        if not equals or key not in _LINK_PARAMETERS:
            hint = (
                did_you_mean(key, _LINK_PARAMETERS) or f"; expected {', '.join(_LINK_PARAMETERS)}"
            )
            raise TopologyError(f"unknown link parameter {parameter!r}{hint}")
        field, parse = _LINK_PARAMETERS[key]
        settings[field] = _parsed(key, value, parse)
    return settings


def _parsed(key: str, value: str, parse: Callable[[str], float | int]) -> float | int:
    try:
        return parse(value)
    except ValueError as error:
        raise TopologyError(f"{key}: {error}") from None
