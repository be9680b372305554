"""The model of a topology: a network of hosts and switches.

Everything here is immutable and already valid: a :class:`Topology` that exists is connected, has
hosts, and uses each port once. Files, generators and importers only differ in how they get here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypedDict, Unpack

from pydantic import Field, model_validator

from innet.errors import TopologyError
from innet.suggestions import did_you_mean
from innet.topology.events import TopologyEvent
from innet.topology.names import NodeName, natural_key
from innet.topology.parts import Host, Link, Node, Part, Switch
from innet.topology.structure import structural_problems
from innet.topology.workers import collapsed, expanded

if TYPE_CHECKING:
    import networkx as nx

Role = Literal["host", "worker", "switch"]
LAUNCHER_MACHINE: Final = "launcher"
"""The machine of a cluster that the launcher is on."""


def _has_worker_nodes(node: object) -> bool:
    return isinstance(node, Host) and node.has_worker_nodes


class Overrides(TypedDict, total=False):
    """Settings that replace those of every link (and ``slots``, of every switch)."""

    rate_bps: float | None
    delay_s: float
    loss: float
    queue_bytes: int
    mtu_bytes: int
    mark_bytes: int | None
    jitter_s: float
    reorder: float
    reorder_delay_s: float
    duplicate: float
    corrupt: float
    slots: int


class HostOverrides(TypedDict, total=False):
    """Settings that replace those of every host."""

    memory_rate_bps: float | None


class Topology(Part):
    """A named, connected network of hosts and switches.

    A host with several workers is a switch here, and each of its workers a host
    (:mod:`innet.topology.workers`); :meth:`role_of` tells what a node is to a user.

    Attributes:
        name: for directories, reports and titles.
        nodes: every node by its name.
        links: every link, in the order of the file.
        events: what happens to them in a simulation.
    """

    name: Annotated[NodeName, Field(description="name of the topology")]
    nodes: Mapping[str, Annotated[Node, Field(discriminator="kind")]]
    links: tuple[Link, ...] = ()
    events: tuple[TopologyEvent, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _with_a_node_for_each_worker(cls, data: Any) -> Any:
        nodes = data.get("nodes") if isinstance(data, dict) else None
        if not isinstance(nodes, Mapping) or not any(map(_has_worker_nodes, nodes.values())):
            return data
        links = data.get("links", ())
        for problem in structural_problems(nodes, links):
            raise TopologyError(problem.message)
        all_nodes, all_links = expanded(nodes, links)
        return data | {"nodes": all_nodes, "links": all_links}

    @model_validator(mode="after")
    def _check_structure(self) -> Self:
        for problem in structural_problems(self.nodes, self.links):
            raise TopologyError(problem.message)
        return self

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts in the order of their ranks."""
        hosts = [node for node in self.nodes.values() if isinstance(node, Host)]
        hosts.sort(key=lambda h: (-1 if h.rank is None else h.rank, natural_key(h.name)))
        return tuple(host.name for host in hosts)

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches in natural order, with the nodes of hosts with several workers."""
        names = (node.name for node in self.nodes.values() if isinstance(node, Switch))
        return tuple(sorted(names, key=natural_key))

    @cached_property
    def separate_switches(self) -> tuple[str, ...]:
        """Names of the switches in natural order, without the nodes of hosts."""
        return tuple(name for name in self.switches if name not in self.workers_of)

    @cached_property
    def workers_of(self) -> Mapping[str, tuple[str, ...]]:
        """The workers of each host with several, in rank order, by the host's node."""
        host_of = {link.a.node: link.b.node for link in self.links if link.in_memory}
        workers: dict[str, list[str]] = {}
        for worker in self.hosts:
            if worker in host_of:
                workers.setdefault(host_of[worker], []).append(worker)
        return {host: tuple(of_host) for host, of_host in workers.items()}

    @cached_property
    def machine_of(self) -> Mapping[str, str]:
        """The machine that each node runs on: its host's node for a worker, otherwise itself."""
        of_workers = {w: host for host, workers in self.workers_of.items() for w in workers}
        return {name: of_workers.get(name, name) for name in self.nodes}

    @cached_property
    def placement(self) -> Mapping[str, str]:
        """The cluster machine of each node; workers are on the machine of their host."""
        return {name: self._placed_on(machine) for name, machine in self.machine_of.items()}

    def nodes_placed_on(self, machine: str) -> tuple[str, ...]:
        """The nodes that are on a machine of a cluster, in the order of the topology."""
        return tuple(node for node in self.nodes if self.placement[node] == machine)

    @cached_property
    def machine_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels that machines of a cluster need, for those nodes that say so."""
        asked = ((name, node.machine) for name, node in self.nodes.items())
        return {name: labels for name, labels in asked if isinstance(labels, Mapping)}

    def _placed_on(self, node: str) -> str:
        machine = self.nodes[node].machine
        if isinstance(machine, Mapping) or (machine is None and self.role_of(node) == "host"):
            return node
        return machine or LAUNCHER_MACHINE

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines with ranks, in the order of their ranks."""
        return tuple(dict.fromkeys(self.machine_of[host] for host in self.hosts))

    def role_of(self, node: str) -> Role:
        """The role of a node for users, to whom the node of a host with workers is a host."""
        if self.machine_of[node] != node:
            return "worker"
        return "host" if node in self.workers_of else self.nodes[node].kind

    def ranks_on(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """The nodes of ranks on hosts: its workers in place of a host with several."""
        return tuple(node for host in hosts for node in self.workers_of.get(host, (host,)))

    @cached_property
    def links_of(self) -> Mapping[str, Mapping[str, Link]]:
        """The links of each node, by neighbour."""
        links: dict[str, dict[str, Link]] = {name: {} for name in self.nodes}
        for link in self.links:
            u, v = link.nodes
            links[u][v] = links[v][u] = link
        return links

    def graph(self) -> nx.Graph[str]:
        """The frozen graph of node names; node attribute ``node``, edge attribute ``link``.

        Copy it (``graph().copy()``) to get one that can be changed.
        """
        return self._graph

    def link_between(self, u: str, v: str) -> Link:
        """The link that joins two nodes, in either order."""
        link = self.links_of.get(u, {}).get(v)
        if link is None:
            raise TopologyError(
                f"topology {self.name!r} has no link between {u!r} and {v!r}; {self._near(u, v)}"
            )
        return link

    def _near(self, u: str, v: str) -> str:
        """A hint at links or nodes that exist, where two nodes have no link."""
        for node in (u, v):
            if node not in self.nodes:
                hint = did_you_mean(node, self.nodes) or "`innet topology show` lists its nodes"
                return f"it has no node {node}; {hint.removeprefix('; ')}"
        return f"{u} has links to {', '.join(self.links_of[u])}"

    def with_overrides(self, **overrides: Unpack[Overrides]) -> Topology:
        """A copy in which the given settings replace those of every link and every switch.

        ``rate_bps=None`` takes the limit away; a setting that is not named stays as it is. Within a
        host with several workers, only the size of packets changes.

        Example:
            >>> load_topology("star8").with_overrides(rate_bps=200e6, loss=0.01)
        """
        settings: dict[str, Any] = dict(overrides)
        slots = {"slots": settings.pop("slots")} if "slots" in settings else {}
        nodes = {
            name: Switch(**(dict(node) | slots)) if self.role_of(name) == "switch" else node
            for name, node in self.nodes.items()
        }
        in_memory = {name: settings[name] for name in ("mtu_bytes",) if name in settings}
        links = tuple(
            Link(**(link.given | (in_memory if link.in_memory else settings)))
            for link in self.links
        )
        return Topology(name=self.name, nodes=nodes, links=links, events=self.events)

    @property
    def slowest_link_bps(self) -> float:
        """Bits per second of the slowest link; infinity when none has a rate."""
        return min((link.rate_bps or math.inf for link in self.links), default=math.inf)

    def with_workers(
        self, workers: int | None = None, **overrides: Unpack[HostOverrides]
    ) -> Topology:
        """A copy in which each host runs that many workers, or has links of another rate to them.

        Example:
            >>> load_topology("star:2").with_workers(2).hosts
            ('h0.0', 'h0.1', 'h1.0', 'h1.1')
        """
        written, links = collapsed(self.nodes, self.links, self.machines)
        given = overrides if workers is None else {**overrides, "workers": workers}
        nodes = {
            name: Host.model_validate(dict(node) | given) if isinstance(node, Host) else node
            for name, node in written.items()
        }
        return Topology(name=self.name, nodes=nodes, links=links, events=self.events)

    def with_defaults(self, *, rate_bps: float, delay_s: float) -> Topology:
        """A copy in which links with neither rate nor delay have these, except those in memory."""
        given = {"rate_bps": rate_bps, "delay_s": delay_s}
        links = tuple(
            link if link.takes_time or link.in_memory else Link(**(link.given | given))
            for link in self.links
        )
        return Topology(name=self.name, nodes=self.nodes, links=links, events=self.events)

    @cached_property
    def _graph(self) -> nx.Graph[str]:
        import networkx as nx  # imported only where a graph is needed

        graph: nx.Graph[str] = nx.Graph(name=self.name)
        for name, node in self.nodes.items():
            graph.add_node(name, node=node)
        for link in self.links:
            graph.add_edge(*link.nodes, link=link)
        frozen: nx.Graph[str] = nx.freeze(graph)
        return frozen
