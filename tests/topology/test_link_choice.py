"""Links as people name them."""

from __future__ import annotations

import pytest

from innet.errors import TopologyError
from innet.topology import load_topology
from innet.topology.link_choice import links_at

TWO_LEAVES = load_topology("leaf-spine:2x2x1")


def test_nodes_and_links_name_links() -> None:
    (host,) = links_at(TWO_LEAVES, ["h0"])
    assert set(host) == {"h0", "leaf0"}
    assert links_at(TWO_LEAVES, ["h0 -- leaf0"]) == links_at(TWO_LEAVES, ["leaf0--h0", "h0"])
    assert len(links_at(TWO_LEAVES, ["leaf0"])) == 3
    assert len(links_at(TWO_LEAVES, list(TWO_LEAVES.nodes))) == len(TWO_LEAVES.links)


@pytest.mark.parametrize("place", ["h99", "h0--h1", "h0--leaf0--spine0", ""])
def test_places_that_are_none_are_told(place: str) -> None:
    with pytest.raises(TopologyError, match=f"no node or link '{place}'"):
        links_at(TWO_LEAVES, [place])


def test_the_links_that_there_are_are_listed() -> None:
    with pytest.raises(TopologyError, match=r"its links are h0--s0, h1--s0$"):
        links_at(load_topology("star:2"), ["h0--h1"])
    with pytest.raises(TopologyError, match=r"and 24 more \(`innet topology show` lists them\)"):
        links_at(load_topology("star:40"), ["x"])
