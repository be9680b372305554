"""Blocks that a codec quantises: bytes, errors, names, and what a model makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.codec import CODECS, FLAT_GROUP, CodecName, decode_flat, encode_flat
from innet.kv.layout import BlockLayout, KVArray

PAGES = Path(__file__).resolve().parents[2] / "docs"


def layout_of(codec: CodecName | None, cache_type: str = "bf16", head_dim: int = 16) -> BlockLayout:
    return BlockLayout(
        layers=2,
        kv_heads=4,
        head_dim=head_dim,
        cache_type=cache_type,
        block_tokens=32,
        layers_per_block=2,
        codec=codec,
    )


def there_and_back(layout: BlockLayout, kv: KVArray) -> KVArray:
    (layers,) = layout.ranges
    joined = np.full_like(kv, 7)
    contents = layout.cut(kv, 0, layers)
    assert contents.nbytes == layout.size_bytes(layers)
    assert layout.join(joined, 0, layers, contents)
    return joined.astype(np.float32)


@pytest.mark.parametrize("cache_type", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("codec", "relative", "of_largest"), [("fp8", 1 / 14, 1 / 400), ("int8", 0.01, 1 / 250)]
)
def test_an_element_round_trips_within_the_precision_of_its_codec(
    codec: CodecName, relative: float, of_largest: float, cache_type: str
) -> None:
    layout = layout_of(codec, cache_type)
    kv = layout.empty(32)
    # Channels of keys and tokens of values of very different sizes.
    numbers = np.random.default_rng(1).standard_normal(kv.shape, np.float32)
    numbers[:, 0] *= np.geomspace(0.01, 100, 16, dtype=np.float32)
    numbers[:, 1] *= np.geomspace(0.01, 100, 32, dtype=np.float32)[:, None, None]
    numbers[0, :, :, 1] = 0
    kv[...] = numbers
    found, given = there_and_back(layout, kv), kv.astype(np.float32)
    sharing = {"fp8": ((1, 3), (1, 3)), "int8": ((1,), (3,))}[codec]
    for kind, axes in enumerate(sharing):
        largest = np.abs(given[:, kind]).max(axis=axes, keepdims=True)
        bound = relative * np.abs(given[:, kind]) + of_largest * largest
        assert (np.abs(found[:, kind] - given[:, kind]) <= bound).all()


@pytest.mark.parametrize("count", [1, FLAT_GROUP, 5 * FLAT_GROUP + 3])
@pytest.mark.parametrize(
    ("codec", "relative", "of_largest"), [("fp8", 1 / 14, 1 / 400), ("int8", 0.01, 1 / 250)]
)
def test_elements_of_an_engine_share_a_scale_with_their_neighbours(
    codec: CodecName, relative: float, of_largest: float, count: int
) -> None:
    groups = np.geomspace(1e-3, 1e3, -(-count // FLAT_GROUP)).repeat(FLAT_GROUP)[:count]
    given = (np.random.default_rng(1).standard_normal(count) * groups).astype(np.float16)
    contents = encode_flat(given, codec)
    found = decode_flat(contents, count, given.dtype, codec)
    assert found is not None
    assert found.dtype == given.dtype
    for start in range(0, count, FLAT_GROUP):
        group = given[start : start + FLAT_GROUP].astype(np.float32)
        error = np.abs(found[start : start + FLAT_GROUP].astype(np.float32) - group)
        assert (error <= relative * np.abs(group) + of_largest * np.abs(group).max()).all()
    assert decode_flat(contents[:-1], count, given.dtype, codec) is None
    assert encode_flat(np.ones(1 << 15, np.float16), codec).nbytes == (1 << 15) * 1.125


@pytest.mark.parametrize("codec", CODECS)
def test_nans_affect_no_other_head(codec: CodecName) -> None:
    layout = layout_of(codec)
    kv = layout.empty(32)
    kv[...] = 1.0
    kv[0, 0, 3, 0, 2] = np.nan
    kv[1, 1, 3, 2, 2] = np.inf
    found = there_and_back(layout, kv)
    assert np.isnan(found[0, 0, 3, 0, 2]) or found[0, 0, 3, 0, 2] == 0
    assert (found[:, :, :, [1, 3]] == 1.0).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("cache_type", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("codec", CODECS)
def test_an_infinity_becomes_the_largest_of_its_scale_and_affects_no_other_head(
    codec: CodecName, cache_type: str, sign: int
) -> None:
    layout = layout_of(codec, cache_type)
    kv = layout.empty(32)
    kv[...] = 2.0
    kv[1, :, 3, 2, 2] = sign * np.inf
    expected = kv.astype(np.float32)
    expected[1, :, 3, 2, 2] = sign * 2.0
    assert np.allclose(there_and_back(layout, kv), expected, rtol=1e-2)
    flat = encode_flat(kv.reshape(-1), codec)
    found = decode_flat(flat, kv.size, kv.dtype, codec)
    assert found is not None
    assert np.allclose(found.astype(np.float32), expected.reshape(-1), rtol=1e-2)


def test_the_codec_is_in_the_name_and_halves_the_bytes() -> None:
    plain, *coded = (layout_of(codec, head_dim=128) for codec in (None, *CODECS))
    names = {layout.families("a1", "00ff")[0].prefix for layout in (plain, *coded)}
    assert names >= {"/kv/a1/00ff/bf16-l2nhd-32/0-1", "/kv/a1/00ff/bf16-fp8-l2nhd-32/0-1"}
    assert len(names) == 3
    for layout in coded:
        (layers,) = layout.ranges
        assert layout.size_bytes(layers) < 0.6 * plain.size_bytes(layers)


def test_only_floats_are_quantised_and_only_by_known_codecs() -> None:
    with pytest.raises(KVError, match="leave the codec out"):
        layout_of("fp8", "f8e4m3fn")
    with pytest.raises(KVError, match="codecs: fp8, int8"):
        layout_of("zip")  # type: ignore[arg-type]


@pytest.mark.torch
def test_a_model_predicts_as_well_from_quantised_blocks() -> None:
    pytest.importorskip("torch")
    from shared.tiny_model import quality, text_of, trained

    text = text_of(PAGES)
    model = trained(text, 260, batch=4)
    plain, *coded = (quality(model, text, layout_of(codec)).perplexity for codec in (None, *CODECS))
    assert plain < 2  # without the prefix it is that of a guess
    for perplexity in coded:
        assert perplexity < 1.01 * plain
