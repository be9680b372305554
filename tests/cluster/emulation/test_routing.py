"""Next hops: shortest, without loops, equal paths shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from innet.node.routing import LinkEnd, link_ends, next_hops
from innet.topology import Host, Interface, Link, Switch, Topology


def make_topology(
    hosts: list[str], switches: list[str], edges: Sequence[tuple[str, str, float]]
) -> Topology:
    nodes = {n: Host(name=n) for n in hosts} | {n: Switch(name=n) for n in switches}
    links = tuple(
        Link(
            a=Interface(node=a, port=f"to-{b}"),
            b=Interface(node=b, port=f"to-{a}"),
            delay_s=delay_s,
        )
        for a, b, delay_s in edges
    )
    return Topology(name="made", nodes=nodes, links=links)


def path(topology: Topology, source: str, destination: str) -> list[str]:
    ends, hops = link_ends(topology), next_hops(topology)
    nodes = [source]
    while nodes[-1] != destination:
        end: LinkEnd = ends[nodes[-1]][hops[nodes[-1]][destination]]
        assert end.peer not in nodes, f"loop: {nodes} -> {end.peer}"
        nodes.append(end.peer)
    return nodes


def test_a_longer_path_with_less_delay_wins() -> None:
    topology = make_topology(
        ["h0", "h1"],
        ["s0", "s1", "s2"],
        [
            ("h0", "s0", 0),
            ("s0", "s1", 5e-3),
            ("s0", "s2", 1e-3),
            ("s2", "s1", 1e-3),
            ("s1", "h1", 0),
        ],
    )
    assert path(topology, "h0", "h1") == ["h0", "s0", "s2", "s1", "h1"]


def test_the_path_with_fewer_hops_wins_at_equal_delay() -> None:
    topology = make_topology(
        ["h0", "h1"],
        ["s0", "s1", "s2"],
        [
            ("h0", "s0", 0),
            ("s0", "s1", 2e-3),
            ("s0", "s2", 1e-3),
            ("s2", "s1", 1e-3),
            ("s1", "h1", 0),
        ],
    )
    assert path(topology, "h0", "h1") == ["h0", "s0", "s1", "h1"]


def test_destinations_are_spread_evenly_over_equal_spines() -> None:
    hosts = [f"h{i}" for i in range(8)]
    topology = make_topology(
        hosts,
        ["l0", "l1", "p0", "p1"],
        [(h, f"l{i // 4}", 0) for i, h in enumerate(hosts)]
        + [(leaf, spine, 0) for leaf in ("l0", "l1") for spine in ("p0", "p1")],
    )
    spines = [path(topology, "h0", destination)[2] for destination in hosts[4:]]
    assert sorted(spines) == ["p0", "p0", "p1", "p1"]


@st.composite
def connected(draw: st.DrawFn) -> Topology:
    """Switches in any connected graph, and hosts on any of them."""
    switches = [f"s{i}" for i in range(draw(st.integers(1, 7)))]
    edges = {(draw(st.sampled_from(switches[:i])), name) for i, name in enumerate(switches) if i}
    pairs = st.tuples(st.sampled_from(switches), st.sampled_from(switches))
    edges |= {(a, b) for a, b in draw(st.sets(pairs, max_size=8)) if a < b}
    hosts = [f"h{i}" for i in range(draw(st.integers(1, 4)))]
    edges |= {(host, draw(st.sampled_from(switches))) for host in hosts}
    delays_s = st.sampled_from([0.0, 1e-3, 2e-3])
    return make_topology(hosts, switches, [(a, b, draw(delays_s)) for a, b in sorted(edges)])


@settings(deadline=None)  # how long depends on who else is busy on the machine
@given(connected())
def test_every_node_reaches_every_other_without_a_loop(topology: Topology) -> None:
    for source in topology.nodes:
        for destination in topology.nodes:
            assert path(topology, source, destination)[-1] == destination


def test_faces_follow_the_order_of_the_links(line: Callable[[], Topology]) -> None:
    assert [end.port for end in link_ends(line())["s0"]] == ["eth0", "eth1"]
