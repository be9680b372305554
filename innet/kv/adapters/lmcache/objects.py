"""LMCache's objects in a pool: their names, and their bytes."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import numpy as np
import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.memory_management import MemoryFormat, MemoryObj

from innet.kv.adapters.identity import engine_digest, key_hash, model_facts
from innet.kv.adapters.tensors import block_bytes, coded_order, decoded, encoded
from innet.kv.codec import CodecName
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.network import Contents

_LAYOUT: Final = "lmcache"


class ObjectNames:
    """The names of one tenant's objects.

    A local model's weights are read for the first name, in a thread, as the event loop serves
    blocks.

    Args:
        tenant: its component in names.
        weights: identity of the weights, beside the model's name.
        codec: of the objects.
        engine: settings of the engine that keys and values depend on, where they are known.
    """

    def __init__(
        self,
        tenant: str,
        weights: str,
        codec: CodecName | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        self._tenant = tenant
        self._layout = coded_order(_LAYOUT, codec)
        self._weights = weights
        self._engine = {"engine": engine} if engine else {}
        self._lock = threading.Lock()
        self._families: dict[str, BlockFamily] = {}

    async def of_objects(self, keys: Sequence[ObjectKey]) -> list[BlockKey]:
        """The names of objects in L2.

        Raises:
            KVError: a key's model is a path whose weights cannot be identified.
        """
        return [
            BlockKey(
                await self._family(key.model_name),
                key_hash(
                    "object",
                    str(key.kv_rank),
                    str(key.object_group_id),
                    key.cache_salt,
                    key.chunk_hash,
                ),
            )
            for key in keys
        ]

    async def of_chunks(self, keys: Sequence[CacheEngineKey]) -> list[BlockKey]:
        """The names of chunks, or of one layer of each, in a remote store.

        Raises:
            KVError: as of :meth:`of_objects`.
        """
        return [
            BlockKey(await self._family(key.model_name), key_hash("chunk", key.to_string()))
            for key in keys
        ]

    async def digest(self, model: str) -> str:
        """The digest in names of a model's objects.

        Raises:
            KVError: as of :meth:`of_objects`.
        """
        return (await self._family(model)).model_digest

    async def _family(self, model: str) -> BlockFamily:
        known = self._families.get(model)
        return await asyncio.to_thread(self._identify, model) if known is None else known

    def _identify(self, model: str) -> BlockFamily:
        with self._lock:  # the first tasks start together, and one of them reads the weights
            if model not in self._families:
                digest = engine_digest("lmcache", model_facts(model, self._weights) | self._engine)
                # An object's layers are part of its contents, or of LMCache's key.
                self._families[model] = BlockFamily(self._tenant, digest, self._layout, 0, 1)
            return self._families[model]


_LENGTH_BYTES: Final = 4


@dataclass(frozen=True)
class Description:
    """A memory object without its bytes.

    Attributes:
        shapes: of its tensors.
        dtypes: of each, by PyTorch's names: ``bfloat16``.
        format: the name of LMCache's memory format.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    format: str

    @classmethod
    def of(cls, memory: MemoryObj) -> Self:
        """The description of a memory object."""
        # The shape of a single tensor may be in the singular field only.
        shapes = memory.meta.shapes or [memory.get_shape()]
        dtypes = memory.meta.dtypes or [memory.get_dtype()]
        return cls(
            shapes=tuple(tuple(map(int, shape)) for shape in shapes),
            dtypes=tuple(str(dtype).removeprefix("torch.") for dtype in dtypes),
            format=memory.get_memory_format().name,
        )

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """The description at the start of a block.

        Raises:
            ValueError: it is invalid.
        """
        try:
            fields = json.loads(text)
            return cls(
                shapes=tuple(tuple(map(int, shape)) for shape in fields["shapes"]),
                dtypes=tuple(map(str, fields["dtypes"])),
                format=str(fields["format"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"invalid description of a memory object: {error!r}") from error

    def encode(self) -> bytes:
        """Its form in a block."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    def torch_shapes(self) -> list[torch.Size]:
        """The shapes, as LMCache allocates by them."""
        return [torch.Size(shape) for shape in self.shapes]

    def torch_dtypes(self) -> Sequence[torch.dtype]:
        """The types.

        Raises:
            ValueError: PyTorch has no such type.
        """
        found = [getattr(torch, name, None) for name in self.dtypes]
        dtypes = [dtype for dtype in found if isinstance(dtype, torch.dtype)]
        if len(dtypes) != len(found):
            raise ValueError(f"PyTorch has not all of the types {', '.join(self.dtypes)}")
        return dtypes

    def tensors(self) -> Iterator[tuple[int, torch.dtype]]:
        """Elements and type of each tensor; those of the last type that is given for more shapes.

        Raises:
            ValueError: PyTorch has not all types.
        """
        dtypes = self.torch_dtypes()
        for place, shape in enumerate(self.shapes):
            yield math.prod(shape), dtypes[min(place, len(dtypes) - 1)]

    def memory_format(self) -> Any:
        """LMCache's memory format.

        Raises:
            ValueError: LMCache has no such format.
        """
        if self.format not in MemoryFormat.__members__:
            raise ValueError(f"LMCache has no memory format {self.format}")
        return MemoryFormat[self.format]


def pack(memory: MemoryObj, codec: CodecName | None = None) -> Contents:
    """A memory object as a block, with a copy of its bytes."""
    description = Description.of(memory)
    text = description.encode()
    head = np.frombuffer(len(text).to_bytes(_LENGTH_BYTES, "big") + text, np.uint8)
    contents, parts, start = _bytes_of(memory), [head], 0
    for count, dtype in description.tensors():
        end = start + count * dtype.itemsize
        parts.append(encoded(contents[start:end], dtype, codec))
        start = end
    return np.concatenate([*parts, contents[start:]])


def unpack(block: Contents, codec: CodecName | None = None) -> tuple[Description, Contents]:
    """A block's description, and its object's bytes.

    Raises:
        ValueError: it does not begin with a description, or is too short.
    """
    start = _LENGTH_BYTES + int.from_bytes(block[:_LENGTH_BYTES].tobytes(), "big")
    description = Description.parse(block[_LENGTH_BYTES:start].tobytes())
    if codec is None:
        return description, block[start:]
    parts = []
    for count, dtype in description.tensors():
        end = start + block_bytes(count, dtype, codec)
        part = decoded(block[start:end], count, dtype, codec)
        if part is None:
            raise ValueError("a memory object is shorter than its description says")
        parts.append(part)
        start = end
    return description, np.concatenate([*parts, block[start:]])


def unpack_into(block: Contents, memory: MemoryObj, codec: CodecName | None = None) -> bool:
    """Load a block into memory; ``False``, and nothing written, if it is another kind of object."""
    try:
        description, contents = unpack(block, codec)
    except ValueError:
        return False
    into = _bytes_of(memory)
    if description != Description.of(memory) or contents.nbytes != into.nbytes:
        return False
    into[:] = contents
    return True


def _bytes_of(memory: MemoryObj) -> Contents:
    return np.frombuffer(memory.byte_array, np.uint8)
