"""Text and pictures show every part of a network."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import pytest

from innet.errors import TopologyError
from innet.topology import load_topology, shipped_topologies
from innet.topology.picture import positions
from innet.topology.show import draw, text
from innet.topology.summary import is_tiered, tier_of_nodes

NAMES = sorted(shipped_topologies())


def test_the_text_of_a_star_names_its_parts_and_settings() -> None:
    shown = text(load_topology("star4").with_overrides(rate_bps=200e6, loss=0.01))
    for part in ("4 hosts, 1 switch, 4 links", "h3", "0-3", "200mbit", "1%", "4096", "64MiB"):
        assert part in shown


def test_existing_impairments_are_shown() -> None:
    star = load_topology("star4")
    assert "impairments" not in text(star)
    shown = text(star.with_overrides(jitter_s=1e-4, corrupt=0.001), width=200)
    assert "100us jitter, 0.1% corrupted" in shown


def test_the_text_of_a_large_network_is_short_and_narrow() -> None:
    lines = text(load_topology("fat-tree:8"), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 120


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_of_each_kind_names_all_nodes(name: str, tmp_path: Path) -> None:
    topology = load_topology(name)
    draw(topology, tmp_path / "net.svg")
    svg = (tmp_path / "net.svg").read_text(encoding="utf-8")
    for node in topology.nodes:
        assert f">{node}</text>" in svg
    draw(topology, str(tmp_path / "net.png"))
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_network_gives_the_same_picture(tmp_path: Path) -> None:
    for extension in ("svg", "png", "pdf"):
        first, second = (tmp_path / f"{name}.{extension}" for name in "ab")
        draw(load_topology("wan"), first)
        draw(load_topology("wan"), second)
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", [*NAMES, "wan:1", "wan:12x3", "wan:3", "fat-tree:6", "star:1"])
def test_no_two_nodes_are_drawn_at_one_place(name: str) -> None:
    place = positions(load_topology(name))
    assert set(place) == set(load_topology(name).nodes)
    assert min(math.dist(a, b) for a, b in combinations(place.values(), 2)) > 0.1


def test_trees_and_clos_networks_are_drawn_in_tiers_and_meshes_as_maps() -> None:
    tiered = {name for name in NAMES if is_tiered(load_topology(name))}
    assert tiered == set(NAMES) - {"wan"}
    for name in tiered:
        topology = load_topology(name)
        heights = {node: y for node, (_, y) in positions(topology).items()}
        assert heights == tier_of_nodes(topology)


def test_a_picture_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    star = load_topology("star4")
    with pytest.raises(TopologyError, match=r"expected a picture of type .svg, .png, .pdf"):
        draw(star, tmp_path / "net.gif")
    with pytest.raises(TopologyError, match="cannot be written"):
        draw(star, tmp_path / "missing" / "net.png")
    with pytest.raises(TopologyError, match="too many for a picture"):
        draw(load_topology("star:3000"), tmp_path / "net.png")


def test_a_map_of_many_switches_is_placed_without_scipy(tmp_path: Path) -> None:
    ring = "topology: [ Ring ]\nnpus_count: [ 600 ]\nbandwidth: [ 1 ]\nlatency: [ 9 ]\n"
    (tmp_path / "ring.yml").write_text(ring, encoding="utf-8")
    place = positions(load_topology(tmp_path / "ring.yml"))
    assert len(set(place.values())) == 1200
