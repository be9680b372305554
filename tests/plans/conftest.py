"""Networks for the tests of plans: factories as fixtures, and a hypothesis strategy for any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from innet.topology import Topology
from innet.topology.blueprint import Blueprint, PartDefaults

RATE_BPS = 1e9
NetworkFactory = Callable[..., Topology]


def _finish(blueprint: Blueprint, name: str, switch: dict[str, Any], **link: Any) -> Topology:
    defaults = PartDefaults(switch=switch, link={"rate_bps": RATE_BPS, "delay_s": 1e-4} | link)
    return blueprint.topology(name, defaults)


def build_star(hosts: int, **switch: Any) -> Topology:
    """``hosts`` hosts on switch ``s0``."""
    blueprint = Blueprint()
    blueprint.add_switch("s0")
    for host in range(hosts):
        blueprint.add_host(f"h{host}")
        blueprint.connect(f"h{host}", "s0")
    return _finish(blueprint, f"star{hosts}", switch)


def build_leaf_spine(leaves: int, per_leaf: int, spines: int, **switch: Any) -> Topology:
    """Hosts ``h0 …`` below ``leaf0 …``, each leaf joined to every one of ``spine0 …``."""
    blueprint = Blueprint()
    for spine in range(spines):
        blueprint.add_switch(f"spine{spine}")
    for leaf in range(leaves):
        blueprint.add_switch(f"leaf{leaf}")
        for spine in range(spines):
            blueprint.connect(f"leaf{leaf}", f"spine{spine}")
    for host in range(leaves * per_leaf):
        blueprint.add_host(f"h{host}")
        blueprint.connect(f"h{host}", f"leaf{host // per_leaf}")
    return _finish(blueprint, "leaf-spine", switch)


def build_fat_tree(k: int) -> Topology:
    """The fat-tree of k pods: edges ``e<pod>-<i>``, aggregation ``a<pod>-<i>``, cores ``c<i>``."""
    half = k // 2
    blueprint = Blueprint()
    for core in range(half * half):
        blueprint.add_switch(f"c{core}")
    for pod in range(k):
        for i in range(half):
            blueprint.add_switch(f"a{pod}-{i}")
            blueprint.add_switch(f"e{pod}-{i}")
            for core in range(half):
                blueprint.connect(f"a{pod}-{i}", f"c{i * half + core}")
        for i in range(half):
            for j in range(half):
                blueprint.connect(f"e{pod}-{i}", f"a{pod}-{j}")
                host = f"h{(pod * half + i) * half + j}"
                blueprint.add_host(host)
                blueprint.connect(host, f"e{pod}-{i}")
    return _finish(blueprint, "fat-tree", {})


def build_rails(rails: int, leaves: int, per_leaf: int) -> Topology:
    """Hosts with a link to a leaf of each rail; ``spine<rail>`` joins the leaves of one rail."""
    blueprint = Blueprint()
    for host in range(leaves * per_leaf):
        blueprint.add_host(f"h{host}")
    for rail in range(rails):
        blueprint.add_switch(f"spine{rail}")
        for leaf in range(leaves):
            blueprint.add_switch(f"r{rail}-{leaf}")
            blueprint.connect(f"r{rail}-{leaf}", f"spine{rail}")
            for host in range(leaf * per_leaf, (leaf + 1) * per_leaf):
                blueprint.connect(f"h{host}", f"r{rail}-{leaf}")
    return _finish(blueprint, "rails", {})


@st.composite
def random_trees(draw: st.DrawFn) -> Topology:
    """Switches in a random tree, some without slots; 1 to 33 hosts hang on any of them."""
    blueprint = Blueprint()
    switches = draw(st.integers(1, 6))
    for switch in range(switches):
        blueprint.add_switch(f"s{switch}", slots=draw(st.sampled_from([0, 4, 4096])))
        if switch:
            parent = draw(st.integers(0, switch - 1))
            blueprint.connect(
                f"s{switch}", f"s{parent}", delay_s=draw(st.sampled_from([0.0, 0.01]))
            )
    for host in range(draw(st.integers(1, 33))):
        blueprint.add_host(f"h{host}")
        blueprint.connect(f"h{host}", f"s{draw(st.integers(0, switches - 1))}")
    return _finish(blueprint, "tree", {})


def _networks() -> st.SearchStrategy[Topology]:
    return st.one_of(
        random_trees(),
        st.builds(build_star, st.integers(1, 33), slots=st.sampled_from([0, 4096])),
        st.builds(build_leaf_spine, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3)),
        st.just(4).map(build_fat_tree),
        st.builds(build_rails, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)),
    )


st.register_type_strategy(Topology, _networks())


@pytest.fixture(scope="session")
def star() -> NetworkFactory:
    return build_star


@pytest.fixture(scope="session")
def leaf_spine() -> NetworkFactory:
    return build_leaf_spine


@pytest.fixture(scope="session")
def fat_tree() -> NetworkFactory:
    return build_fat_tree


@pytest.fixture(scope="session")
def rails() -> NetworkFactory:
    return build_rails


@pytest.fixture(scope="session")
def thin_middle() -> Topology:
    """Two switches without slots, four hosts each, joined at a tenth of the other links' rate."""
    blueprint = Blueprint()
    for side in range(2):
        blueprint.add_switch(f"s{side}", slots=0)
    blueprint.connect("s0", "s1", rate_bps=RATE_BPS / 10)
    for host in range(8):
        blueprint.add_host(f"h{host}")
        blueprint.connect(f"h{host}", f"s{host // 4}")
    return _finish(blueprint, "thin-middle", {})
