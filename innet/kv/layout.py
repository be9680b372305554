"""The bytes of a block: keys and values of some tokens in some layers.

A block is an array of the shape ``(layers, 2, block_tokens, kv_heads, head_dim)`` in C order: the
layers of a range, of each the keys and then the values, of each token in turn, all heads. Elements
are little-endian. With a codec (:mod:`innet.kv.codec`) its bytes are those of the encoded array.

A prompt's keys and values are ``(layers, 2, tokens, kv_heads, head_dim)``, with any strides, in one
array or in a pair of arrays for each layer.
Cutting a block out of them copies it once, because signed bytes may not change; joining copies each
block once, to its place in the whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from innet.errors import KVError
from innet.kv.codec import CODECS, CODED_TYPES, Codec, CodecName, codec_of
from innet.kv.model import ModelIdentity
from innet.kv.names import BlockFamily
from innet.plans.element_types import ELEMENT_TYPES

KVArray = npt.NDArray[Any]
"""Keys and values: ``(layers, 2, tokens, kv_heads, head_dim)``."""

KVSource = KVArray | Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]]
"""The same, or for each layer the keys and the values, ``(tokens, kv_heads, head_dim)`` each: views
of a library's own cache, which is copied once."""

_ORDER: Final = "l2nhd"
"""Order of the dimensions: layers, keys and values, tokens (n), heads, elements of one."""


@dataclass(frozen=True)
class LayerRange:
    """Layers that are in a block together.

    Attributes:
        first: the first layer.
        end: the layer after the last.
    """

    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first


STATE_WINDOW: Final = 1
"""Window of state-space layers in a layout: a block is their state behind a chunk."""
_GROUP: Final = re.compile(r"-g(\d+)(?:w(\d+))?-")


def group_order(order: str, group: int, window: int) -> str:
    """The order of dimensions in a layout, for one of several groups of a model's layers.

    Args:
        order: of all groups.
        group: its number.
        window: tokens of its sliding window; 0: full attention.

    >>> group_order("vllm-bhnc", 1, 512), group_order("vllm-bhnc", 0, 0)
    ('vllm-bhnc-g1w512', 'vllm-bhnc-g0')
    """
    return f"{order}-g{group}w{window}" if window else f"{order}-g{group}"


def group_of(layout: str) -> tuple[int, int]:
    """The group and its sliding window in a layout; 0 where it has none.

    >>> group_of("vllm-bhnc-g1w512-bfloat16-16-tp0of2-pp0of1"), group_of("bf16-l2nhd-16")
    ((1, 512), (0, 0))
    """
    found = _GROUP.search(layout)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


@dataclass(frozen=True, kw_only=True)
class RankPart:
    """The part of a model's cache that one rank of an engine holds.

    Data-parallel ranks hold the same parts of different prompts, and share blocks.

    Attributes:
        tensor_rank: which part of the heads.
        tensor_size: of how many.
        pipeline_rank: which part of the layers.
        pipeline_size: of how many.
    """

    tensor_rank: int = 0
    tensor_size: int = 1
    pipeline_rank: int = 0
    pipeline_size: int = 1

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: a rank is not below its size.
        """
        for what in ("tensor", "pipeline"):
            rank, size = (getattr(self, f"{what}_{each}") for each in ("rank", "size"))
            if not 0 <= rank < size:
                raise KVError(f"invalid {what}_rank {rank}, expected 0 to {size - 1}")

    def layout(self, order: str, element_type: str, block_tokens: int) -> str:
        """The layout of an engine's blocks, as their names have it: no two layouts share a name.

        Args:
            order: the engine and its order of dimensions: letters and digits with ``-``.
            element_type: of the cache's elements, without ``-``.
            block_tokens: tokens of a block of the cache.

        >>> RankPart(tensor_rank=2, tensor_size=8).layout("vllm-bhnc", "bfloat16", 16)
        'vllm-bhnc-bfloat16-16-tp2of8-pp0of1'
        """
        if "-" in element_type:
            raise KVError(f"invalid element type {element_type!r} of a layout, expected no '-'")
        tensor = f"tp{self.tensor_rank}of{self.tensor_size}"
        pipeline = f"pp{self.pipeline_rank}of{self.pipeline_size}"
        return f"{order}-{element_type}-{block_tokens}-{tensor}-{pipeline}"


@dataclass(frozen=True, kw_only=True)
class BlockLayout:
    """How a model's blocks are cut.

    Attributes:
        layers: of the model.
        kv_heads: of a layer's cache.
        head_dim: elements of a key, and of a value.
        cache_type: of the elements, a name such as ``bf16``.
        block_tokens: tokens of a block.
        layers_per_block: with 1, decoding starts soonest; with all, there are the fewest blocks.
            The last range of layers may have fewer.
        codec: quantises blocks; ``None``: their bytes are those of the cache.

    Example:
        >>> layout = BlockLayout(
        ...     layers=5, kv_heads=2, head_dim=8, cache_type="bf16", block_tokens=16,
        ...     layers_per_block=2,
        ... )
        >>> layout.component, len(layout.ranges), layout.shape(layout.ranges[0])
        ('bf16-l2nhd-16', 3, (2, 2, 16, 2, 8))
    """

    layers: int
    kv_heads: int
    head_dim: int
    cache_type: str
    block_tokens: int
    layers_per_block: int
    codec: CodecName | None = None

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: a value is out of its range.
        """
        for name in ("layers", "kv_heads", "head_dim", "block_tokens", "layers_per_block"):
            if getattr(self, name) < 1:
                raise KVError(f"{name} of a block is at least 1, not {getattr(self, name)}")
        if self.cache_type not in ELEMENT_TYPES:
            raise KVError(
                f"invalid cache_type {self.cache_type!r}; types: {', '.join(ELEMENT_TYPES)}"
            )
        if self.codec is None:
            return
        if self.codec not in CODECS:
            raise KVError(f"there is no codec {self.codec!r}; codecs: {', '.join(CODECS)}")
        if self.cache_type not in CODED_TYPES:
            raise KVError(
                f"codec {self.codec} cannot quantise a cache of {self.cache_type}; it quantises "
                f"{', '.join(CODED_TYPES)}: leave the codec out"
            )

    @classmethod
    def of_model(
        cls,
        model: ModelIdentity,
        block_tokens: int,
        layers_per_block: int | None = None,
        codec: CodecName | None = None,
    ) -> BlockLayout:
        """The layout of a model's blocks; by default all layers are in one block."""
        return cls(
            layers=model.layers,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            cache_type=model.cache_type,
            block_tokens=block_tokens,
            layers_per_block=model.layers if layers_per_block is None else layers_per_block,
            codec=codec,
        )

    @property
    def component(self) -> str:
        """Its component in names: type, codec if any, order of the dimensions, tokens of a block.

        The layers of a block are a component of their own; heads and their size are in the model's
        digest.
        """
        codec = "" if self.codec is None else f"-{self.codec}"
        return f"{self.cache_type}{codec}-{_ORDER}-{self.block_tokens}"

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return ELEMENT_TYPES[self.cache_type].dtype

    @cached_property
    def ranges(self) -> tuple[LayerRange, ...]:
        """The ranges of layers, from the first layer on."""
        step = self.layers_per_block
        return tuple(
            LayerRange(first, min(first + step, self.layers))
            for first in range(0, self.layers, step)
        )

    def families(self, tenant: str, model_digest: str) -> tuple[BlockFamily, ...]:
        """The block family of each range of layers."""
        return tuple(
            BlockFamily(tenant, model_digest, self.component, layers.first, layers.end)
            for layers in self.ranges
        )

    def shape(self, layers: LayerRange) -> tuple[int, ...]:
        """Shape of a block of those layers."""
        return (len(layers), 2, self.block_tokens, self.kv_heads, self.head_dim)

    def size_bytes(self, layers: LayerRange) -> int:
        """Size of a block of those layers, encoded."""
        if self._codec is not None:
            return self._codec.size_bytes(self.shape(layers))
        return math.prod(self.shape(layers)) * self.dtype.itemsize

    @property
    def _codec(self) -> Codec | None:
        return None if self.codec is None else codec_of(self.codec)

    @property
    def token_bytes(self) -> int:
        """Size of a token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize

    def empty(self, tokens: int, layers: LayerRange | None = None) -> KVArray:
        """Memory for the keys and values of that many tokens in some layers, by default in all."""
        count = self.layers if layers is None else len(layers)
        return np.empty((count, 2, tokens, self.kv_heads, self.head_dim), self.dtype)

    def arrays_of(self, kv: KVSource | bytes | bytearray | memoryview, tokens: int) -> KVSource:
        """Keys and values as arrays, where the caller has the bytes of one array.

        Raises:
            KVError: they are not the bytes of that many tokens.
        """
        if not isinstance(kv, bytes | bytearray | memoryview):
            return kv
        shape = (self.layers, 2, tokens, self.kv_heads, self.head_dim)
        expected = math.prod(shape) * self.dtype.itemsize
        found = memoryview(kv).nbytes
        if found != expected:
            raise KVError(
                f"invalid keys and values: {found} bytes, expected {expected} of an array {shape} "
                f"(layers, 2, tokens, kv_heads, head_dim) of {self.dtype}"
            )
        return np.frombuffer(memoryview(kv).tobytes(), self.dtype).reshape(shape)

    def require_fitting(self, kv: KVSource, tokens: int) -> None:
        """
        Raises:
            KVError: ``kv`` is not the keys and values of that many tokens.
        """
        expected = (tokens, self.kv_heads, self.head_dim)
        for array in self._arrays(kv):
            if array.shape != expected or array.dtype != self.dtype:
                raise KVError(
                    f"invalid keys or values of a layer: {array.shape} of {array.dtype}, expected "
                    f"{expected} (tokens, kv_heads, head_dim) of {self.dtype}"
                )

    def require_room(self, into: KVSource, tokens: int) -> None:
        """
        Raises:
            KVError: the keys and values of that many tokens cannot be written there.
        """
        arrays = self._arrays(into)
        self.require_fitting(into, max((tokens, *arrays[0].shape[:1])))
        if not all(array.flags.writeable for array in arrays):
            raise KVError(
                "keys and values cannot be loaded into read-only arrays; give writable ones"
            )

    def cut(
        self,
        kv: KVSource,
        start: int,
        layers: LayerRange,
        into: npt.NDArray[np.uint8] | None = None,
    ) -> npt.NDArray[np.uint8]:
        """A copy of the bytes of a block.

        Args:
            kv: keys and values, of all layers.
            start: place of the block's first token in ``kv``.
            layers: of the block.
            into: memory for them, as long as the block or longer; allocated by default.
        """
        size_bytes = self.size_bytes(layers)
        contents = np.empty(size_bytes, np.uint8) if into is None else into[:size_bytes]
        shape, codec = self.shape(layers), self._codec
        block = (
            contents.view(self.dtype).reshape(shape)
            if codec is None
            else np.empty(shape, self.dtype)
        )
        tokens = slice(start, start + self.block_tokens)
        for index, part in enumerate(block, layers.first):
            keys, values = kv[index]
            part[0] = keys[tokens]
            part[1] = values[tokens]
        if codec is not None:
            codec.encode(block, contents)
        return contents

    def join(
        self,
        kv: KVSource,
        start: int,
        layers: LayerRange,
        contents: npt.NDArray[np.uint8],
        *,
        first_layer: int = 0,
    ) -> bool:
        """Write a block's bytes to their place in ``kv``.

        Args:
            kv: keys and values, of the layers from ``first_layer`` on.
            start: place of the block's first token in ``kv``.
            layers: of the block.
            contents: the block, from :meth:`cut`.
            first_layer: of ``kv``.

        Returns:
            ``False``, and nothing is written, if the block has another size.
        """
        if contents.size != self.size_bytes(layers):
            return False
        shape, codec = self.shape(layers), self._codec
        block = (
            contents.view(self.dtype).reshape(shape)
            if codec is None
            else codec.decode(contents, shape, self.dtype)
        )
        tokens = slice(start, start + self.block_tokens)
        for index, part in enumerate(block, layers.first - first_layer):
            keys, values = kv[index]
            keys[tokens] = part[0]
            values[tokens] = part[1]
        return True

    def _arrays(self, kv: KVSource) -> list[npt.NDArray[Any]]:
        """
        Raises:
            KVError: they are not two arrays for each layer.
        """
        try:
            arrays = [array for keys, values in kv for array in (keys, values)]
        except (TypeError, ValueError):  # not a sequence of pairs
            arrays = []
        if len(arrays) != 2 * self.layers or any(not isinstance(a, np.ndarray) for a in arrays):
            raise KVError(
                f"keys and values of this model are those of {self.layers} layers: a pair of NumPy "
                "arrays for each, or one array (layers, 2, tokens, kv_heads, head_dim)"
            )
        return arrays
