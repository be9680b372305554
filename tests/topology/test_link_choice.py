"""Links as people name them."""

from __future__ import annotations

import pytest

from innet.errors import TopologyError
from innet.topology import load_topology
from innet.topology.link_choice import links_at

TWO_LEAVES = load_topology("leaf-spine:2x2x1")


def test_links_are_selected_by_nodes_and_links() -> None:
    (host,) = links_at(TWO_LEAVES, ["h0"])
    assert set(host) == {"h0", "leaf0"}
    assert links_at(TWO_LEAVES, ["h0 -- leaf0"]) == links_at(TWO_LEAVES, ["leaf0--h0", "h0"])
    assert len(links_at(TWO_LEAVES, ["leaf0"])) == 3
    assert len(links_at(TWO_LEAVES, list(TWO_LEAVES.nodes))) == len(TWO_LEAVES.links)


@pytest.mark.parametrize("place", ["h99", "h0--h1", "h0--leaf0--spine0", ""])
def test_unknown_places_are_reported(place: str) -> None:
    with pytest.raises(TopologyError, match=f"no node or link '{place}'"):
        links_at(TWO_LEAVES, [place])


def test_an_unknown_link_is_refused_with_the_existing_ones() -> None:
    with pytest.raises(TopologyError, match=r"its links are h0--s0, h1--s0$"):
        links_at(load_topology("star:2"), ["h0--h1"])
    with pytest.raises(TopologyError, match=r"and 24 more \(`innet topology show` lists them\)"):
        links_at(load_topology("star:40"), ["x"])
