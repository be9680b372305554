"""``generate: {kind: from-ray}``: the topology of the machines that a Ray cluster has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import Field

from innet.errors import TopologyError
from innet.topology.blueprint import Blueprint, PartDefaults
from innet.topology.model import Topology
from innet.topology.names import NAME_PATTERN, natural_key
from innet.topology.parts import MAX_WORKERS, Workers
from innet.topology.settings import LinkSettings
from innet.topology.specification import Specification

NODE_ID_LABEL: Final = "ray.io/node-id"
"""A label that Ray gives each of its nodes."""


_ROOT: Final = "s0"


@dataclass(frozen=True)
class ClusterMachine:
    """A machine of a cluster.

    Attributes:
        labels: of the machine, with :data:`NODE_ID_LABEL`.
        processors: that jobs may use.
        accelerators: that jobs may use.
    """

    labels: Mapping[str, str]
    processors: int
    accelerators: int = 0


ListMachines = Callable[[], Sequence[ClusterMachine]]
"""Asks a cluster for its machines."""


class FromRay(Specification):
    """A host for each machine, a switch for each rack on the rack's first machine, and a root.

    A machine's rack is one of its labels. Without racks, there is one switch.
    """

    kind: Literal["from-ray"]
    rack: str = Field(default="rack", min_length=1, description="label with a machine's rack")
    workers: Workers | Literal["per-accelerator", "per-processor"] = Field(
        default=1, description="ranks that each host runs"
    )
    core: LinkSettings = Field(
        default=LinkSettings(), description="settings of the links between switches"
    )

    def topology(
        self, name: str, defaults: PartDefaults, list_machines: ListMachines | None
    ) -> Topology:
        """Build the network.

        Raises:
            TopologyError: there is no cluster, or it has no machine.
        """
        if list_machines is None:
            raise TopologyError(
                "kind from-ray needs a Ray cluster to ask for its machines. Launch the file on "
                "one: innet up FILE --on ray"
            )
        blueprint = Blueprint()
        self._draw(self._racks(list_machines()), blueprint)
        core = self.core.for_model()
        return blueprint.topology(name, replace(defaults, core_link=core))

    def _draw(
        self, racks: Mapping[str | None, Sequence[ClusterMachine]], blueprint: Blueprint
    ) -> None:
        has_root = len(racks) > 1
        if has_root:
            blueprint.add_switch(_ROOT, machine="h0")
        first = 0
        for number, (rack, machines) in enumerate(racks.items()):
            switch = _switch_name(rack, number)
            blueprint.add_switch(switch, machine=f"h{first}")
            for host, machine in enumerate(machines, first):
                self._draw_host(blueprint, f"h{host}", machine, machines)
                blueprint.connect(f"h{host}", switch)
            if has_root:
                blueprint.connect(switch, _ROOT)
            first += len(machines)

    def _racks(self, machines: Sequence[ClusterMachine]) -> dict[str | None, list[ClusterMachine]]:
        """The machines by rack, those without one last."""
        if not machines:
            raise TopologyError(
                "the Ray cluster has no machine with room. Add nodes to it, or reserve less: "
                "--reserve"
            )
        racks: dict[str | None, list[ClusterMachine]] = {}
        for machine in sorted(machines, key=lambda m: m.labels.get(NODE_ID_LABEL, "")):
            racks.setdefault(machine.labels.get(self.rack), []).append(machine)
        named = sorted((rack for rack in racks if rack is not None), key=natural_key)
        return {rack: racks[rack] for rack in (*named, None) if rack in racks}

    def _draw_host(
        self,
        blueprint: Blueprint,
        name: str,
        machine: ClusterMachine,
        of_rack: Sequence[ClusterMachine],
    ) -> None:
        rack = machine.labels.get(self.rack)
        # Machines of a rack that are alike can replace each other.
        alike = len({self._workers_of(other) for other in of_rack}) == 1
        by_rack = rack is not None and alike
        label = {self.rack: rack} if by_rack else {NODE_ID_LABEL: machine.labels[NODE_ID_LABEL]}
        blueprint.add_host(name, workers=self._workers_of(machine), machine=label)

    def _workers_of(self, machine: ClusterMachine) -> int:
        if isinstance(self.workers, int):
            return self.workers
        on_processors = self.workers == "per-processor"
        found = machine.processors if on_processors else machine.accelerators
        return min(max(found, 1), MAX_WORKERS)


def _switch_name(rack: str | None, number: int) -> str:
    if rack is None:
        return f"s{number}"
    name = f"rack-{rack}"
    return name if re.fullmatch(NAME_PATTERN, name) else f"rack{number}"
