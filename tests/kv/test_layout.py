"""Blocks are cut out of a prompt's keys and values, and joined to them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.layout import BlockLayout, RankPart
from innet.kv.model import ModelIdentity
from innet.kv.names import BlockFamily, BlockKey

LAYOUTS = st.builds(
    BlockLayout,
    layers=st.integers(1, 5),
    kv_heads=st.integers(1, 3),
    head_dim=st.integers(1, 4),
    cache_type=st.sampled_from(["f32", "f16", "bf16", "f8e4m3fn"]),
    block_tokens=st.integers(1, 4),
    layers_per_block=st.integers(1, 6),
)


def _numbered(layout: BlockLayout, tokens: int) -> np.ndarray:
    """Keys and values whose bytes all differ from their neighbours'."""
    kv = layout.empty(tokens)
    size_bytes = kv.nbytes
    kv.reshape(-1).view(np.uint8)[:] = np.arange(size_bytes) % 251
    return kv


@given(LAYOUTS, st.integers(0, 3), st.booleans())
def test_cutting_and_joining_restores_the_bits(
    layout: BlockLayout, blocks: int, strided: bool
) -> None:
    kv = _numbered(layout, blocks * layout.block_tokens)
    source = np.asfortranarray(kv) if strided else kv
    joined = layout.empty(blocks * layout.block_tokens)
    for number in range(blocks):
        for layers in layout.ranges:
            start = number * layout.block_tokens
            contents = layout.cut(source, start, layers)
            assert contents.nbytes == layout.size_bytes(layers)
            assert not np.shares_memory(contents, source)
            assert layout.join(joined, start, layers, contents)
    assert joined.tobytes() == kv.tobytes()
    assert kv.nbytes == layout.token_bytes * blocks * layout.block_tokens


def test_the_bytes_of_a_block_are_as_documented() -> None:
    layout = BlockLayout(
        layers=3, kv_heads=2, head_dim=4, cache_type="bf16", block_tokens=2, layers_per_block=2
    )
    kv = _numbered(layout, 6)
    last = layout.ranges[-1]
    assert (last.first, last.end) == (2, 3)
    assert layout.cut(kv, 2, last).tobytes() == kv[2:3, :, 2:4].tobytes()
    families = layout.families("a1", "00ff")
    assert [f.prefix for f in families] == [
        "/kv/a1/00ff/bf16-l2nhd-2/0-1",
        "/kv/a1/00ff/bf16-l2nhd-2/2-2",
    ]


def test_a_block_of_another_size_is_not_joined() -> None:
    layout = BlockLayout(
        layers=1, kv_heads=1, head_dim=2, cache_type="f32", block_tokens=2, layers_per_block=1
    )
    kv = _numbered(layout, 2)
    before = kv.copy()
    for size in (0, 8, 31, 33):
        assert not layout.join(kv, 0, layout.ranges[0], np.zeros(size, np.uint8))
    assert (kv == before).all()


def test_arrays_of_other_shapes_and_types_are_refused() -> None:
    layout = BlockLayout.of_model(
        ModelIdentity(
            architecture="llama", weights="w", compute="f32", cache_type="f32",
            layers=2, kv_heads=1, head_dim=2,
        ),
        block_tokens=2,
    )  # fmt: skip
    layout.require_fitting(layout.empty(3), 3)
    layout.require_fitting([tuple(pair) for pair in layout.empty(3)], 3)
    for wrong in (layout.empty(2), layout.empty(3).view(np.int32)):
        with pytest.raises(KVError, match=r"\(3, 1, 2\)"):
            layout.require_fitting(wrong, 3)
    whole = layout.empty(3)
    for other in (whole[:1], whole[0, 0, 0, 0], whole.tolist(), None, 3, [whole]):
        with pytest.raises(KVError, match="2 layers"):
            layout.require_fitting(other, 3)  # type: ignore[arg-type]
    layout.require_room(layout.empty(4), 3)
    with pytest.raises(KVError, match=r"\(3, 1, 2\)"):
        layout.require_room(layout.empty(2), 3)
    whole.flags.writeable = False
    with pytest.raises(KVError, match="read-only"):
        layout.require_room(whole, 3)
    with pytest.raises(KVError, match="block_tokens"):
        BlockLayout.of_model(
            ModelIdentity(
                architecture="llama", weights="w", compute="f32", cache_type="f32",
                layers=2, kv_heads=1, head_dim=2,
            ),
            block_tokens=0,
        )  # fmt: skip


PARTS = st.integers(1, 12).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size)))
LAYERS = st.tuples(st.integers(0, 3), st.integers(1, 12)).map(lambda t: (t[0], t[0] + t[1]))
FACTS = st.tuples(
    st.sampled_from(["vllm-bhnc", "sglang-page"]),
    st.sampled_from(["bfloat16", "float16", "float8_e4m3fn", "uint8"]),
    st.integers(1, 1024),
    PARTS,
    PARTS,
    LAYERS,
)
"""All that a rank's blocks depend on beside the model: order, type, tokens, parts and layers."""


def _name(facts: tuple[Any, ...]) -> str:
    order, element_type, tokens, tensor, pipeline, layers = facts
    part = RankPart(
        tensor_rank=tensor[0],
        tensor_size=tensor[1],
        pipeline_rank=pipeline[0],
        pipeline_size=pipeline[1],
    )
    family = BlockFamily("a1b2", "00ff", part.layout(order, element_type, tokens), *layers)
    return family.name(bytes(32))


@given(FACTS, FACTS)
def test_blocks_of_two_ranks_share_a_name_only_if_their_layouts_are_equal(one, other) -> None:
    assert (_name(one) == _name(other)) == (one == other)
    assert BlockKey.parse(_name(one)).name == _name(one)


def test_names_of_a_ranks_blocks_survive_a_restart() -> None:
    # A restarted engine, perhaps of a later version, looks for blocks of the one before.
    name = _name(("vllm-bhnc", "float8_e4m3fn", 1024, (7, 12), (0, 3), (8, 12)))
    layout = "vllm-bhnc-float8_e4m3fn-1024-tp7of12-pp0of3"
    assert name == f"/kv/a1b2/00ff/{layout}/8-11/{'00' * 32}"


@pytest.mark.parametrize("part", [{"tensor_rank": 2, "tensor_size": 2}, {"pipeline_rank": -1}])
def test_a_rank_beyond_its_size_is_refused(part) -> None:
    with pytest.raises(KVError, match="_rank"):
        RankPart(**part)


def test_an_ambiguous_element_type_is_refused() -> None:
    with pytest.raises(KVError, match="invalid element type"):
        RankPart().layout("vllm-bhnc", "int4-16", 16)
