"""Parameters as one vector, of which each server holds a shard."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch

from innet.errors import CollectiveError


class FlatParameters:
    """The tensors of a model in their order, as one vector.

    Attributes:
        size: elements of all tensors.
        dtype: of all tensors.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        """``parameters`` may be a generator, such as ``model.parameters()``.

        Raises:
            CollectiveError: there are none, their types differ, or they are not on the CPU.
        """
        self._tensors = list(parameters)
        kinds = {(tensor.dtype, tensor.device.type) for tensor in self._tensors}
        if len(kinds) != 1 or next(iter(kinds))[1] != "cpu":
            named = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            raise CollectiveError(
                "a parameter server takes parameters of one type, in the CPU's memory; got "
                f"{named or 'none'}"
            )
        self.size = sum(tensor.numel() for tensor in self._tensors)
        self.dtype = self._tensors[0].dtype

    def empty(self) -> torch.Tensor:
        """A vector for them."""
        return torch.zeros(self.size, dtype=self.dtype)

    def read(self, into: torch.Tensor) -> None:
        """Copy the parameters into a vector."""
        self.flatten(self._tensors, into)

    def flatten(self, tensors: Sequence[torch.Tensor], into: torch.Tensor) -> None:
        """Copy tensors of the parameters' shapes into a vector.

        Raises:
            CollectiveError: the shapes differ.
        """
        shapes = [tuple(tensor.shape) for tensor in self._tensors]
        if [tuple(tensor.shape) for tensor in tensors] != shapes:
            raise CollectiveError(
                "the tensors to push must have the shapes of the parameters, in their order: one "
                f"for each of {len(shapes)}"
            )
        first = 0
        for tensor in tensors:
            into[first : first + tensor.numel()].copy_(tensor.detach().reshape(-1))
            first += tensor.numel()

    def write(self, vector: torch.Tensor) -> None:
        """Copy a vector into the parameters."""
        first = 0
        with torch.no_grad():
            for tensor in self._tensors:
                part = vector[first : first + tensor.numel()]
                tensor.copy_(part.view(tensor.shape))
                first += tensor.numel()


def shards(size: int, servers: int) -> list[slice]:
    """Contiguous parts of a vector of ``size`` elements, of about equal size.

    >>> shards(10, 3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    ends = [size * number // servers for number in range(servers + 1)]
    return [slice(first, end) for first, end in itertools.pairwise(ends)]


def shard_name(name: str, shard: int) -> str:
    """Name of the registered array of one shard."""
    return f"{name}/shard/{shard}"


def clocks_name(name: str) -> str:
    """Name of the registered array of the workers' clocks, on the first server."""
    return f"{name}/clocks"
