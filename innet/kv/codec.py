"""Codecs of blocks: fewer bytes on links and in memory, for keys and values with less precision.

A codec quantises each element to one byte and keeps a scale in ``f32`` for a group of elements:

* ``fp8``: ``float8_e4m3fn`` of ml_dtypes, a scale for the keys and one for the values of each head;
* ``int8``: integers from -127 to 127, a scale for each channel of the keys and one for the values
  of each token and head, because outliers of keys stay in few channels (Z. Liu et al., "KIVI: A
  tuning-free asymmetric 2bit quantization for KV cache", ICML 2024).

The encoded block has the elements in the order of the block, then the scales of the keys, then
those of the values. Blocks of engines, whose dimensions have other orders, have a scale for each 32
elements that follow each other, because keys and values are contiguous in most of these orders.

A scale is that of the finite elements. An infinity becomes the largest element that its scale
allows, as in the fp8 caches of engines; NaN becomes 0 in ``int8``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from innet.plans.element_types import ELEMENT_TYPES

CodecName = Literal["fp8", "int8"]
CODECS: Final[tuple[CodecName, ...]] = get_args(CodecName)
CODED_TYPES: Final = ("f16", "bf16", "f32")
"""Element types of a cache that a codec can encode."""

FLAT_GROUP: Final = 32
"""Elements that share a scale in blocks of engines."""

Floats = npt.NDArray[np.float32]
_SCALE: Final = np.dtype("<f4")


@dataclass(frozen=True)
class Codec:
    """Quantises blocks of the shape ``(layers, 2, tokens, kv_heads, head_dim)``.

    Attributes:
        stored: type of an element in the encoded block.
        largest: of the stored numbers.
        axes: of an array ``(layers, tokens, kv_heads, head_dim)`` that share a scale: of keys, and
            of values.
    """

    stored: str
    largest: float
    axes: tuple[tuple[int, ...], tuple[int, ...]]

    def size_bytes(self, shape: tuple[int, ...]) -> int:
        """Size of an encoded block of ``shape``."""
        scales = sum(math.prod(self._scale_shape(shape, axes)) for axes in self.axes)
        return math.prod(shape) + scales * _SCALE.itemsize

    def encode(self, block: npt.NDArray[Any], into: npt.NDArray[np.uint8]) -> None:
        """Write the encoded block to ``into``, which has its size."""
        elements = into[: block.size].view(self._dtype).reshape(block.shape)
        scales = self._scales(into, block.shape)
        for kind, axes in enumerate(self.axes):
            values = block[:, kind].astype(np.float32)
            largest = _largest_finite(values, axes)
            scale = scales[kind]
            np.divide(np.minimum(largest, _LARGEST_F32), self.largest, out=scale)
            scale[scale == 0.0] = 1.0
            values /= scale
            if self.stored == "i8":
                values = np.nan_to_num(np.rint(values))
            elements[:, kind] = np.clip(values, -self.largest, self.largest).astype(self._dtype)

    def decode(
        self, contents: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> npt.NDArray[Any]:
        """The block of an encoded one, of the size for ``shape``."""
        count = math.prod(shape)
        elements = contents[:count].view(self._dtype).reshape(shape)
        block = np.empty(shape, dtype)
        for kind, scale in enumerate(self._scales(contents, shape)):
            block[:, kind] = (elements[:, kind].astype(np.float32) * scale).astype(dtype)
        return block

    @property
    def _dtype(self) -> np.dtype[Any]:
        return ELEMENT_TYPES[self.stored].dtype

    def _scales(self, contents: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> list[Floats]:
        """The scales of keys and of values, as views of an encoded block."""
        found, start = [], math.prod(shape)
        for axes in self.axes:
            scale_shape = self._scale_shape(shape, axes)
            end = start + math.prod(scale_shape) * _SCALE.itemsize
            found.append(contents[start:end].view(_SCALE).reshape(scale_shape))
            start = end
        return found

    @staticmethod
    def _scale_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
        layers, _, *rest = shape
        return tuple(1 if axis in axes else n for axis, n in enumerate((layers, *rest)))


_LARGEST_F32: Final = float(np.finfo(np.float32).max) / 2
"""Leaves room for the rounding of a scale."""
_TOKENS, _ELEMENTS = 1, 3

_BY_NAME: Final[dict[str, Codec]] = {
    "fp8": Codec("f8e4m3fn", 448.0, ((_TOKENS, _ELEMENTS), (_TOKENS, _ELEMENTS))),
    "int8": Codec("i8", 127.0, ((_TOKENS,), (_ELEMENTS,))),
}


def _largest_finite(values: Floats, axes: tuple[int, ...]) -> Floats:
    """The largest magnitude of the finite values that share a scale; 0 if none is finite."""
    magnitudes = np.abs(values)
    largest: Floats = magnitudes.max(axis=axes, keepdims=True, initial=0.0)
    if not np.isfinite(largest).all():
        magnitudes[~np.isfinite(magnitudes)] = 0.0
        largest = magnitudes.max(axis=axes, keepdims=True, initial=0.0)
    return largest


def codec_of(name: CodecName) -> Codec:
    """The codec of that name."""
    return _BY_NAME[name]


def encode_flat(elements: npt.NDArray[Any], name: CodecName) -> npt.NDArray[np.uint8]:
    """Quantise elements of any order, with a scale for each :data:`FLAT_GROUP` in a row."""
    shape = _flat_shape(elements.size)
    padded = np.zeros(math.prod(shape), elements.dtype)
    padded[: elements.size] = elements
    into = np.empty(flat_bytes(elements.size), np.uint8)
    _flat_codec(name).encode(padded.reshape(shape), into)
    return into


def decode_flat(
    contents: npt.NDArray[np.uint8], count: int, dtype: np.dtype[Any], name: CodecName
) -> npt.NDArray[Any] | None:
    """Decode ``count`` elements of :func:`encode_flat`; ``None``: the size does not fit."""
    if contents.size != flat_bytes(count):
        return None
    decoded = _flat_codec(name).decode(contents, _flat_shape(count), dtype)
    return decoded.reshape(-1)[:count]


def flat_bytes(count: int) -> int:
    """Size of that many elements that :func:`encode_flat` has encoded."""
    shape = _flat_shape(count)
    return math.prod(shape) + math.prod(shape) // FLAT_GROUP * _SCALE.itemsize


def _flat_shape(count: int) -> tuple[int, ...]:
    """The shape in which ``count`` elements are encoded: one layer and head, with two halves."""
    return (1, 2, -(-count // (2 * FLAT_GROUP)), 1, FLAT_GROUP)


def _flat_codec(name: CodecName) -> Codec:
    return replace(_BY_NAME[name], axes=((_ELEMENTS,), (_ELEMENTS,)))
