"""Homes of blocks: balanced, distinct, and moved as little as possible."""

from __future__ import annotations

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.pool.peers import Placement

NODES = st.dictionaries(
    st.sampled_from([f"h{number}" for number in range(8)]),
    st.sampled_from([0.5, 1.0, 4.0]),
    min_size=2,
)
BLOCKS = [number.to_bytes(32, "big") for number in range(60)]


@given(NODES, st.integers(1, 2))
def test_a_block_has_as_many_homes_as_replicas_on_different_nodes(
    weights: dict[str, float], replicas: int
) -> None:
    placement = Placement(weights, replicas=replicas)
    for block in BLOCKS[:20]:
        homes = placement.homes(block)
        assert len(set(homes)) == len(homes) == replicas
        assert set(homes) <= set(weights)


@given(NODES, st.data())
def test_a_leaving_node_moves_only_its_own_blocks(
    weights: dict[str, float], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(weights)))
    before = Placement(weights)
    after = Placement({node: weight for node, weight in weights.items() if node != gone})
    for block in BLOCKS:
        if before.homes(block) != (gone,):
            assert after.homes(block) == before.homes(block)


def test_nodes_keep_blocks_in_proportion_to_what_they_offer() -> None:
    placement = Placement({"h0": 1, "h1": 1, "h2": 2})
    blocks = [number.to_bytes(32, "big") for number in range(8000)]
    counts = collections.Counter(placement.homes(block)[0] for block in blocks)
    assert counts["h0"] == pytest.approx(2000, rel=0.1)
    assert counts["h2"] == pytest.approx(4000, rel=0.1)


@pytest.mark.parametrize(
    ("weights", "replicas", "message"),
    [
        ({"h0": 0.0}, 1, "weight of h0"),
        ({"h0": float("nan")}, 1, "weight of h0"),
        ({"h0": 1.0}, 2, "2 replicas"),
        ({}, 1, "at least one"),
    ],
)
def test_impossible_placements_are_refused(
    weights: dict[str, float], replicas: int, message: str
) -> None:
    with pytest.raises(KVError, match=message):
        Placement(weights, replicas=replicas)
