"""ASTRA-sim's network file (analytical back end): dimensions of rings, switches and full meshes.

::

    topology: [ Ring, Switch ]
    npus_count: [ 4, 8 ]
    bandwidth: [ 200.0, 50.0 ]   # GB/s for each link and direction
    latency: [ 50.0, 500.0 ]     # ns for each link

NPU ``i`` has the coordinates ``i mod n0``, ``(i div n0) mod n1``, …; NPUs that differ in one
coordinate only form a ring, a full mesh, or share a switch. Here an NPU becomes a host ``h<i>``.
Where it has several links it also gets a port switch ``npu<i>`` without aggregation slots, to which
the host is joined without limits, since an innet host forwards nothing for others.

One GB/s is taken as 8·10⁹ bit/s. A path through a ``Switch`` crosses two links, each with the
latency of its dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from innet.errors import TopologyError
from innet.topology.blueprint import MAX_NODES, Blueprint, PartDefaults
from innet.topology.located_yaml import LocatedDocument
from innet.topology.model import Topology
from innet.topology.names import sanitised_name
from innet.topology.parts import MAX_DELAY_S, MAX_RATE_BPS, MIN_RATE_BPS
from innet.topology.specification import Specification, validated

_BPS_PER_GBYTE_PER_S: Final = 8e9
_NS_PER_S: Final = 1e9

BuildingBlock = Literal["Ring", "FullyConnected", "Switch"]
Npus = Annotated[int, Field(ge=1, le=MAX_NODES)]
GBytePerS = Annotated[
    float, Field(ge=MIN_RATE_BPS / _BPS_PER_GBYTE_PER_S, le=MAX_RATE_BPS / _BPS_PER_GBYTE_PER_S)
]
Nanoseconds = Annotated[float, Field(ge=0, le=MAX_DELAY_S * _NS_PER_S)]


class AstraSimNetwork(Specification):
    """The keys of an ASTRA-sim network file, each with one entry for each dimension."""

    model_config = ConfigDict(alias_generator=None)

    topology: list[BuildingBlock] = Field(min_length=1, max_length=8)
    npus_count: list[Npus]
    bandwidth: list[GBytePerS]
    latency: list[Nanoseconds]

    @model_validator(mode="after")
    def _one_entry_for_each_dimension(self) -> AstraSimNetwork:
        for key in ("npus_count", "bandwidth", "latency"):
            if (found := len(getattr(self, key))) != len(self.topology):
                raise ValueError(
                    f"expected {len(self.topology)} entries in {key!r}, one for each dimension of "
                    f"'topology', found {found}"
                )
        return self


def is_astra_sim(document: LocatedDocument) -> bool:
    """Whether a YAML file is an ASTRA-sim network rather than a topology of innet."""
    return isinstance(document.data, dict) and "npus_count" in document.data


def topology_from_astra_sim(document: LocatedDocument) -> Topology:
    """Make a topology from a parsed ASTRA-sim network."""
    network = validated(AstraSimNetwork, document)
    name = sanitised_name(document.path.stem) if document.path else "astra-sim"
    try:
        return _build(network).topology(name, PartDefaults())
    except TopologyError as error:
        raise document.error(str(error), "npus_count") from None


def _build(network: AstraSimNetwork) -> Blueprint:
    blueprint = Blueprint()
    attached = _add_npus(blueprint, network)
    stride = 1
    for dimension, block in enumerate(network.topology):
        link: dict[str, Any] = {
            "rate_bps": network.bandwidth[dimension] * _BPS_PER_GBYTE_PER_S,
            "delay_s": network.latency[dimension] / _NS_PER_S,
        }
        for index, group in enumerate(
            _groups(len(attached), stride, network.npus_count[dimension])
        ):
            members = [attached[npu] for npu in group]
            _connect_group(blueprint, block, members, f"sw{dimension}-{index}", link)
        stride *= network.npus_count[dimension]
    return blueprint


def _add_npus(blueprint: Blueprint, network: AstraSimNetwork) -> list[str]:
    """Add every NPU; returns the node of each that the dimensions are attached to."""
    one_link_each = network.topology == ["Switch"]
    attached: list[str] = []
    count = prod(network.npus_count)
    if count > MAX_NODES:
        raise TopologyError(f"{count} NPUs; expected at most {MAX_NODES}")
    for npu in range(count):
        blueprint.add_host(f"h{npu}")
        attached.append(f"h{npu}")
        if not one_link_each:
            attached[npu] = f"npu{npu}"
            blueprint.add_switch(attached[npu], slots=0)
            blueprint.connect(f"h{npu}", attached[npu])
    return attached


def _groups(count: int, stride: int, size: int) -> Iterator[range]:
    """NPUs that differ only in the coordinate whose step is ``stride``."""
    for block in range(0, count, stride * size):
        for first in range(block, block + stride):
            yield range(first, first + stride * size, stride)


def _connect_group(
    blueprint: Blueprint,
    block: BuildingBlock,
    members: list[str],
    switch: str,
    link: dict[str, Any],
) -> None:
    if len(members) == 1 and block != "Switch":
        return
    if block == "Switch":
        blueprint.add_switch(switch)
        for member in members:
            blueprint.connect(member, switch, **link)
    elif block == "Ring" and len(members) > 2:
        for here, following in zip(members, members[1:] + members[:1], strict=True):
            blueprint.connect(here, following, **link)
    else:
        for here, other in combinations(members, 2):
            blueprint.connect(here, other, **link)
