"""LMCache's memory objects as blocks: a description, and the bytes.

A block is

* 4 bytes: how long the description is, big-endian;
* the description: a JSON object of ``shapes``, ``dtypes`` and ``format``;
* the object's bytes.

LMCache's keys do not say what type and shape an object has, so the block does: an object is loaded
into memory of the same description, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import numpy as np
import torch
from lmcache.v1.memory_management import MemoryFormat, MemoryObj

from innet.kv.pool.network import Contents

_LENGTH_BYTES: Final = 4


@dataclass(frozen=True)
class Description:
    """What a memory object is, without its bytes.

    Attributes:
        shapes: of its tensors.
        dtypes: of each, as PyTorch calls them: ``bfloat16``.
        format: the name of LMCache's memory format.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    format: str

    @classmethod
    def of(cls, memory: MemoryObj) -> Self:
        """The description of a memory object."""
        # One tensor's shape may stand in the singular alone.
        shapes = memory.meta.shapes or [memory.get_shape()]
        dtypes = memory.meta.dtypes or [memory.get_dtype()]
        return cls(
            shapes=tuple(tuple(map(int, shape)) for shape in shapes),
            dtypes=tuple(str(dtype).removeprefix("torch.") for dtype in dtypes),
            format=memory.get_memory_format().name,
        )

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """The description that a block begins with.

        Raises:
            ValueError: it is none.
        """
        try:
            fields = json.loads(text)
            return cls(
                shapes=tuple(tuple(map(int, shape)) for shape in fields["shapes"]),
                dtypes=tuple(map(str, fields["dtypes"])),
                format=str(fields["format"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no description of a memory object: {error!r}") from error

    def encode(self) -> bytes:
        """As it stands in a block."""
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

    def memory_format(self) -> Any:
        """LMCache's memory format.

        Raises:
            ValueError: LMCache has no such format.
        """
        if self.format not in MemoryFormat.__members__:
            raise ValueError(f"LMCache has no memory format {self.format}")
        return MemoryFormat[self.format]


def pack(memory: MemoryObj) -> Contents:
    """A memory object as a block, with a copy of its bytes."""
    description = Description.of(memory).encode()
    head = len(description).to_bytes(_LENGTH_BYTES, "big") + description
    return np.concatenate([np.frombuffer(head, np.uint8), _bytes_of(memory)])


def unpack(block: Contents) -> tuple[Description, Contents]:
    """A block's description, and its object's bytes.

    Raises:
        ValueError: it does not begin with a description.
    """
    start = _LENGTH_BYTES + int.from_bytes(block[:_LENGTH_BYTES].tobytes(), "big")
    return Description.parse(block[_LENGTH_BYTES:start].tobytes()), block[start:]


def unpack_into(block: Contents, memory: MemoryObj) -> bool:
    """Load a block into memory; ``False``, and nothing written, if it is another kind of object."""
    try:
        description, contents = unpack(block)
    except ValueError:
        return False
    into = _bytes_of(memory)
    if description != Description.of(memory) or contents.nbytes != into.nbytes:
        return False
    into[:] = contents
    return True


def _bytes_of(memory: MemoryObj) -> Contents:
    return np.frombuffer(memory.byte_array, np.uint8)
