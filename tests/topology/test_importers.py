"""Other tools' files become the networks that they describe there."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.errors import TopologyError
from innet.topology import Switch, load_topology
from innet.topology.importers.graphml import parse_graphml
from innet.topology.importers.mini_ndn import parse_mini_ndn

FIXTURES = Path(__file__).parent / "fixtures"


def test_mini_ndn_units_are_those_of_mininet() -> None:
    topology = load_topology(FIXTURES / "mini_ndn.conf")
    assert topology.name == "mini_ndn"
    slow = topology.link_between("north", "east")
    assert (slow.rate_bps, slow.delay_s) == (10e6, 0.01)
    lossy = topology.link_between("east", "south")
    assert (lossy.rate_bps, lossy.loss, lossy.queue_bytes) == (100e6, 0.005, 900000)
    assert topology.link_between("south", "west").delay_s == 250e-6


def test_a_mini_ndn_node_is_a_switch_with_a_host_but_a_mini_ndn_switch_has_none() -> None:
    topology = load_topology(FIXTURES / "mini_ndn.conf")
    assert topology.switches == ("east", "hub", "north", "south", "west")
    assert topology.hosts == ("h-east", "h-north", "h-south", "h-west")
    assert "h-east" in topology.graph()["east"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: _", 1, "expected [nodes] before anything else"),
        ("[nodes]\na: _\n[link]\n", 3, "did you mean 'links'?"),
        ("[stations]\n", 1, "no meaning for a wired network"),
        ("[nodes]\na: _\n[links]\na:b delay=1ms\n", 4, "unknown node 'b'"),
        ("[nodes]\na: _\na: _\n", 3, "two nodes are called 'a'"),
        ("[nodes]\nb/c: _\n", 2, "expected a name of 1 to 32"),
        ("[nodes]\na: _\nb: _\n[links]\na:b dealy=1ms\n", 5, "did you mean 'delay'?"),
        ("[nodes]\na: _\nb: _\n[links]\na:b bw=fast\n", 5, "bw: expected a rate"),
        ("[nodes]\na: _\nb: _\n[links]\na:b bw\n", 5, "unknown link parameter 'bw'"),
        ("[nodes]\na: _\nb: _\n", None, "falls into 2 parts"),
        ("", None, "at least one node of kind 'host'"),
    ],
)
def test_mistakes_in_mini_ndn_files_are_reported_with_their_line(
    text: str, line: int | None, message: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_mini_ndn(text, Path("n.conf"))
    assert message in str(caught.value)
    assert (caught.value.path, caught.value.line) == (Path("n.conf"), line)


def test_graphml_takes_speeds_from_the_file_and_delays_from_the_map() -> None:
    topology = load_topology(FIXTURES / "zoo.graphml")
    atlantic = topology.link_between("New_York", "London")
    assert atlantic.rate_bps == 10e9
    assert atlantic.delay_s == pytest.approx(5570e3 / 2.04e8, rel=0.01)
    assert topology.link_between("New_York", "London-2").rate_bps is None
    assert topology.link_between("New_York", "London-2").delay_s == 0


def test_graphml_merges_parallel_edges_and_drops_loops() -> None:
    topology = load_topology(FIXTURES / "zoo.graphml")
    assert topology.link_between("London", "London-2").rate_bps == 3e6
    assert len(topology.links) == 3 + len(topology.hosts)


def test_every_graphml_node_has_a_host_in_the_order_of_the_file() -> None:
    topology = load_topology(FIXTURES / "zoo.graphml")
    assert [next(iter(topology.graph()[host])) for host in topology.hosts] == [
        "New_York",
        "London",
        "London-2",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphml", "not valid XML"),
        ("<a/>", "not valid GraphML"),
        ("", "not valid XML"),
        ('<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
         '<node id="0"><data key="x">1</data></node></graph></graphml>', "data: no key x"),
    ],
)  # fmt: skip
def test_malformed_graphml_is_refused(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        parse_graphml(text, Path("n.graphml"))


def test_a_non_numeric_speed_is_refused() -> None:
    text = (FIXTURES / "zoo.graphml").read_text(encoding="utf-8")
    broken = text.replace('"double" for="edge"', '"string" for="edge"').replace("1000000.0", "T3")
    with pytest.raises(TopologyError, match="LinkSpeedRaw: expected a number"):
        parse_graphml(broken, Path("n.graphml"))


def test_astra_sim_dimensions_become_rings_and_switches() -> None:
    topology = load_topology(FIXTURES / "astra_sim.yml")
    assert len(topology.hosts) == 8
    npus = topology.graph().subgraph([f"npu{i}" for i in range(8)])
    assert sorted(map(len, nx.connected_components(npus))) == [4, 4]
    assert {degree for _, degree in npus.degree()} == {2}
    ring, up = topology.link_between("npu0", "npu1"), topology.link_between("npu0", "sw1-0")
    assert (ring.rate_bps, up.rate_bps) == (1.6e12, 4e11)
    assert (ring.delay_s, up.delay_s) == (50e-9, 500e-9)
    assert set(topology.graph()["sw1-0"]) == {"npu0", "npu4"}
    npu, switch = topology.nodes["npu0"], topology.nodes["sw1-0"]
    assert isinstance(npu, Switch)
    assert isinstance(switch, Switch)
    assert (npu.slots, switch.slots) == (0, 4096)


@pytest.mark.parametrize(
    ("block", "npus", "links"),
    [("Switch", 8, 8), ("Ring", 8, 16), ("Ring", 2, 3), ("FullyConnected", 5, 15), ("Ring", 1, 1)],
)
def test_one_astra_sim_dimension_has_the_links_of_its_block(
    tmp_path: Path, block: str, npus: int, links: int
) -> None:
    file = tmp_path / "net.yml"
    file.write_text(
        f"topology: [ {block} ]\nnpus_count: [ {npus} ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n",
        encoding="utf-8",
    )
    topology = load_topology(file)
    assert (len(topology.hosts), len(topology.links)) == (npus, links)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("npus_count: [ 2 ]\ntopology: [ Torus ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n", 2,
         "expected 'Ring', 'FullyConnected' or"),
        ("npus_count: [ 2, 2 ]\ntopology: [ Ring ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n", 1,
         "expected 1 entries in 'npus_count'"),
        ("npus_count: [ 2 ]\nbandwith: [ 1 ]\n", 2, "did you mean 'bandwidth'?"),
        ("topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 0 ]\n"
         "latency: [ 1 ]\n", 3, "expected at least"),
        ("topology: [ Ring, Ring ]\nnpus_count: [ 9999, 9999 ]\nbandwidth: [ 1, 1 ]\n"
         "latency: [ 1, 1 ]\n", 2, "99980001 NPUs; expected at most"),
    ],
)  # fmt: skip
def test_mistakes_in_astra_sim_files_are_reported_with_their_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    (tmp_path / "net.yml").write_text(text, encoding="utf-8")
    with pytest.raises(TopologyError) as caught:
        load_topology(tmp_path / "net.yml")
    assert message in str(caught.value)
    assert caught.value.line == line


@settings(max_examples=80, deadline=None)
@given(st.text() | st.text(alphabet="[]nodeslinks:=_ \nab1%m"), st.data())
def test_damaged_imports_raise_topology_errors_only(text: str, data: st.DataObject) -> None:
    for name, parse in (("mini_ndn.conf", parse_mini_ndn), ("zoo.graphml", parse_graphml)):
        whole = (FIXTURES / name).read_text(encoding="utf-8")
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, min(len(whole), start + 30)))
        for candidate in (text, whole[:start] + text + whole[end:]):
            with suppress(TopologyError):
                parse(candidate, Path(name))
