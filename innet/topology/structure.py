"""The rules that a topology as a whole obeys, one function per rule.

Each rule yields problems that name the node or link to blame, so that a reader of files can say on
which line it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from innet.suggestions import did_you_mean
from innet.topology.names import MAX_NAME_CHARACTERS, natural_key
from innet.topology.parts import Host, Interface, Link, Node
from innet.topology.workers import worker_name, worker_names

Nodes = Mapping[str, Node]
Links = Sequence[Link]


@dataclass(frozen=True)
class Problem:
    """One broken rule.

    Attributes:
        node: name of the node to blame, if it is one.
        link: index of the link to blame, if it is one.
    """

    message: str
    node: str | None = None
    link: int | None = None


def structural_problems(nodes: Nodes, links: Links) -> Iterator[Problem]:
    """Yield what is wrong by the most basic rule that is broken; nothing for a usable topology."""
    for rule in (
        _keys_are_names,
        _there_are_hosts,
        _ends_exist,
        _ends_differ,
        _ports_are_used_once,
        _no_parallel_links,
        _hosts_with_several_links_join_switches,
        _ranks_count_up,
        _workers_have_names,
        _all_is_connected,
        _hosts_reach_each_other,
    ):
        problems = list(rule(nodes, links))
        yield from problems
        if problems:  # later rules rely on the earlier ones
            return


def _keys_are_names(nodes: Nodes, _links: Links) -> Iterator[Problem]:
    for key, node in nodes.items():
        if key != node.name:
            yield Problem(f"node {node.name!r} is listed as {key!r}; use one name", node=key)


def _there_are_hosts(nodes: Nodes, _links: Links) -> Iterator[Problem]:
    if not _hosts(nodes):
        yield Problem("expected at least one node of kind 'host', found none")


def _ends_exist(nodes: Nodes, links: Links) -> Iterator[Problem]:
    for index, link in enumerate(links):
        for end in (link.a, link.b):
            if end.node not in nodes:
                hint = did_you_mean(end.node, nodes)
                yield Problem(
                    f"link {link} ends at unknown node {end.node!r}{hint or _known(nodes)}",
                    link=index,
                )


def _ends_differ(_nodes: Nodes, links: Links) -> Iterator[Problem]:
    for index, link in enumerate(links):
        if link.a.node == link.b.node:
            yield Problem(f"link {link} joins a node to itself; expected two nodes", link=index)


def _ports_are_used_once(_nodes: Nodes, links: Links) -> Iterator[Problem]:
    first_use: dict[Interface, Link] = {}
    for index, link in enumerate(links):
        for end in (link.a, link.b):
            if end in first_use:
                yield Problem(
                    f"port {end} is used twice, by {first_use[end]} and by {link}; "
                    "give each link a port of its own",
                    link=index,
                )
            first_use.setdefault(end, link)


def _no_parallel_links(_nodes: Nodes, links: Links) -> Iterator[Problem]:
    seen: set[frozenset[str]] = set()
    for index, link in enumerate(links):
        pair = frozenset(link.nodes)
        if pair in seen:
            yield Problem(
                f"a second link between {link.a.node!r} and {link.b.node!r}; parallel links are "
                "not supported, use one link with the sum of their rates",
                link=index,
            )
        seen.add(pair)


def _hosts_with_several_links_join_switches(nodes: Nodes, links: Links) -> Iterator[Problem]:
    degree = Counter(name for link in links for name in link.nodes)
    for index, link in enumerate(links):
        if all(nodes[name].kind == "host" for name in link.nodes):
            for name in link.nodes:
                if degree[name] > 1:
                    yield Problem(
                        f"host {name!r} has {degree[name]} links, one of them to a host; hosts "
                        "forward nothing, so join a host with several links to switches alone",
                        link=index,
                    )


def _ranks_count_up(nodes: Nodes, _links: Links) -> Iterator[Problem]:
    hosts = _hosts(nodes)
    ranked = [host for host in hosts if host.rank is not None]
    if ranked and len(ranked) < len(hosts):
        unranked = next(host for host in hosts if host.rank is None)
        yield Problem(
            f"host {unranked.name!r} has no rank but {ranked[0].name!r} has one; "
            "give every host a rank, or none",
            node=unranked.name,
        )
        return
    owner: dict[int | None, str] = {}
    for host in ranked:
        if host.rank in owner:
            yield Problem(
                f"rank {host.rank} of host {host.name!r} is already that of {owner[host.rank]!r}",
                node=host.name,
            )
        elif host.rank is not None and host.rank >= len(hosts):
            yield Problem(
                f"rank {host.rank} of host {host.name!r} is too high; "
                f"expected 0 to {len(hosts) - 1}, one for each host",
                node=host.name,
            )
        owner[host.rank] = host.name


def _workers_have_names(nodes: Nodes, _links: Links) -> Iterator[Problem]:
    for host in _hosts(nodes):
        if not host.has_worker_nodes:
            continue
        taken = next((name for name in worker_names(host.name, host.workers) if name in nodes), "")
        last = worker_name(host.name, host.workers - 1)
        if taken:
            yield Problem(
                f"worker {taken!r} of host {host.name!r} has the name of another node; "
                "rename one of the two",
                node=host.name,
            )
        elif len(last) > MAX_NAME_CHARACTERS:
            yield Problem(
                f"worker {last!r} of host {host.name!r} has a name of {len(last)} characters, and "
                f"{MAX_NAME_CHARACTERS} are allowed; give the host a shorter name",
                node=host.name,
            )


def _all_is_connected(nodes: Nodes, links: Links) -> Iterator[Problem]:
    parts = sorted(_parts(nodes, links), key=len)
    if len(parts) > 1:
        lost = sorted(parts[0], key=natural_key)
        yield Problem(
            f"the network falls into {len(parts)} parts; {_listed(lost)} cannot reach the rest, "
            "expected links that connect every node",
            node=lost[0],
        )


def _hosts_reach_each_other(nodes: Nodes, links: Links) -> Iterator[Problem]:
    """Over switches alone, for hosts forward nothing."""
    if any(nodes[u].kind == nodes[v].kind == "host" for u, v in (link.nodes for link in links)):
        return  # two hosts, and the link between them
    between = [link for link in links if all(nodes[name].kind == "switch" for name in link.nodes)]
    switches = {name: node for name, node in nodes.items() if node.kind == "switch"}
    part_of = {name: i for i, part in enumerate(_parts(switches, between)) for name in part}
    reached: dict[str, set[int]] = {}
    for link in links:
        for host, switch in (link.nodes, link.nodes[::-1]):
            if nodes[host].kind == "host":
                reached.setdefault(host, set()).add(part_of[switch])
    examples = {frozenset(parts): host for host, parts in reached.items()}
    for (parts, host), (others, other) in combinations(examples.items(), 2):
        if parts.isdisjoint(others):
            yield Problem(
                f"no path over switches leads from {host!r} to {other!r}, and hosts forward "
                "nothing; give both a link to the same rail, or join the switches",
                node=host,
            )
            return


def _parts(nodes: Nodes, links: Links) -> list[set[str]]:
    """The nodes that reach each other, for each part that the network falls into."""
    neighbours: dict[str, list[str]] = {name: [] for name in nodes}
    for link in links:
        u, v = link.nodes
        neighbours[u].append(v)
        neighbours[v].append(u)
    parts: list[set[str]] = []
    left = dict.fromkeys(nodes)
    while left:
        part: set[str] = set()
        pending = [next(iter(left))]
        while pending:
            name = pending.pop()
            if name not in part:
                part.add(name)
                del left[name]
                pending += neighbours[name]
        parts.append(part)
    return parts


def _hosts(nodes: Nodes) -> list[Host]:
    return [node for node in nodes.values() if node.kind == "host"]


def _known(nodes: Nodes) -> str:
    return f"; nodes are {_listed(sorted(nodes, key=natural_key))}"


def _listed(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
