"""sum.q8: the kernels and the reference give the same bits, and nothing becomes a number that was
none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from innet._native import _core
from tests.plans import block_scaled

Floats = NDArray[np.float32]


def encode(numbers: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Natively: the blocks, and what encoding took away."""
    encoded = np.full(-(-numbers.size // 32) * 33, 0xAA, np.uint8)
    lost = np.full_like(numbers, 7)
    _core.q8_encode(numbers, encoded, lost)
    return encoded, lost


def decode(encoded: NDArray[np.uint8], elements: int) -> Floats:
    numbers = np.empty(elements, np.float32)
    _core.q8_decode(encoded, numbers)
    return numbers


def numbers_of(seed: int, elements: int) -> Floats:
    """Of a seed: ordinary numbers, numbers of all magnitudes, or arbitrary bits."""
    random = np.random.default_rng(seed)
    if seed % 3 == 0:
        return random.standard_normal(elements).astype(np.float32)
    bits = random.integers(0, 1 << 32, elements, np.uint32)
    if seed % 3 == 1:
        # One magnitude per block, from the subnormals to the largest.
        exponents = np.repeat(random.integers(0, 255, -(-elements // 32)), 32)[:elements]
        spread = random.integers(0, 6, elements)
        bits = (bits & 0x807FFFFF) | (np.maximum(exponents - spread, 0).astype(np.uint32) << 23)
    return bits.astype(np.uint32).view(np.float32)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 31, 32, 33, 1000]))
def test_encoding_equals_the_reference(seed: int, elements: int) -> None:
    numbers = numbers_of(seed, elements)
    encoded, lost = encode(numbers)
    assert encoded.tobytes() == block_scaled.encode(numbers).tobytes()
    decoded = decode(encoded, elements)
    np.testing.assert_array_equal(decoded, block_scaled.decode(encoded, elements))
    plain = ~np.isnan(decoded)
    np.testing.assert_array_equal(lost[plain], numbers[plain] - decoded[plain])
    assert not lost[~plain].any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([1, 5, 40]))
def test_sums_equal_the_reference(seed: int, operands: int, blocks: int) -> None:
    # Any bytes are blocks: those that nobody encodes have a meaning, too.
    random = np.random.default_rng(seed)
    tensors = [random.integers(0, 256, blocks * 33, np.uint8) for _ in range(operands)]
    if seed % 2:
        tensors = [encode(numbers_of(seed // 2 + 3 * k, blocks * 32))[0] for k in range(operands)]
    result = np.frombuffer(_core.reduce("sum.q8", tensors)[0], np.uint8)
    assert result.tobytes() == block_scaled.sum_operands(tensors).tobytes()


@given(st.integers(0, 2**32 - 1))
def test_rounding_takes_at_most_half_a_step_of_the_largest_number(seed: int) -> None:
    numbers = numbers_of(3 * seed, 32)
    _, lost = encode(numbers)
    assert np.abs(lost).max() <= np.abs(numbers).max() / 126


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_nan_and_infinity_mark_only_their_block(bad: float) -> None:
    numbers = np.ones(96, np.float32)
    numbers[40] = bad
    encoded, lost = encode(numbers)
    assert not lost.any()
    ones, _ = encode(np.ones(96, np.float32))
    for operands in ([encoded, ones, ones], [ones, ones, encoded]):
        total = decode(np.frombuffer(_core.reduce("sum.q8", operands)[0], np.uint8), 96)
        assert np.isnan(total[32:64]).all()
        assert (total[:32] == 3).all()
        assert (total[64:] == 3).all()


def test_a_sum_beyond_the_largest_number_is_marked() -> None:
    large, _ = encode(np.full(32, 2.0**127, np.float32))
    assert (decode(large, 32) == 2.0**127).all()
    assert np.isnan(
        decode(np.frombuffer(_core.reduce("sum.q8", [large] * 2)[0], np.uint8), 32)
    ).all()


def test_malformed_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="no whole number of blocks"):
        _core.reduce("sum.q8", [np.zeros(32, np.uint8)])
    with pytest.raises(ValueError, match="no reduction is called max"):
        _core.reduce("max.q8", [np.zeros(33, np.uint8)])
    with pytest.raises(ValueError, match="q8 of 33 elements has 66 bytes, not 33"):
        _core.q8_encode(np.zeros(33, np.float32), np.zeros(33, np.uint8))
