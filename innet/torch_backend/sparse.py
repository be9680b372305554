"""Sums of sparse COO tensors: everybody's indices and values are gathered, and added here."""

from __future__ import annotations

import numpy as np
import torch

from innet.collectives import Communicator, Work
from innet.collectives.arrays import Array
from innet.errors import CollectiveError, MismatchError
from innet.torch_backend.agreement import Agreement
from innet.torch_backend.launcher import CalledOff, Step
from innet.torch_backend.reductions import Reduction
from innet.torch_backend.tensors import as_array, as_source


class SparseSum:
    """The steps of one allreduce of a sparse tensor.

    Ranks have different numbers of elements that are not zero. So the first step tells everybody's
    number, and the others gather the indices and values, padded to the largest. All ranks then add
    the same operands in the same order, and hold the same bits.
    """

    def __init__(
        self, communicator: Communicator, tensor: torch.Tensor, reduction: Reduction
    ) -> None:
        """Take the contribution of this rank.

        Raises:
            CollectiveError: the layout is not COO, or the operator is no sum.
        """
        if tensor.layout != torch.sparse_coo:
            raise CollectiveError(
                f"a tensor has the layout {tensor.layout}; all_reduce() takes dense tensors and "
                "sparse COO ones: tensor.to_sparse_coo() or tensor.to_dense()"
            )
        if reduction.name != "sum":
            raise CollectiveError(
                f"sparse tensors are added and averaged, not reduced with {reduction.name!r}; pass "
                "tensor.to_dense()"
            )
        self._communicator = communicator
        self._tensor = tensor
        self._reduction = reduction
        mine = reduction.prepared(tensor.detach()).coalesce()
        self._indices = as_source(mine.indices())
        self._values = as_source(mine.values())
        self._header = np.array([mine._nnz(), mine.sparse_dim(), *mine.shape], np.int64)
        self._agreement = Agreement(communicator, self._header)
        self._all_indices: Array = np.empty(0, np.int64)
        self._all_values: Array = np.empty(0, np.int64)

    def steps(self) -> list[Step]:
        """In order; they fill the tensor."""
        return [
            Step(self._agreement.start),
            Step(self._gather_indices, ready=self._read_headers),
            Step(self._gather_values, self._finish),
        ]

    def _read_headers(self) -> None:
        headers = self._agreement.headers()
        for rank, header in enumerate(headers):
            if not np.array_equal(header[1:], self._header[1:]):
                raise CalledOff(
                    MismatchError(
                        f"all_reduce of sparse tensors: this rank, {self._communicator.rank}, has "
                        f"{_shape(self._header)}, rank {rank} has {_shape(header)}"
                    )
                )
        self._counts = [int(count) for count in headers[:, 0]]
        size, largest = self._communicator.size, max(self._counts)
        self._all_indices = np.zeros((size, len(self._indices), largest), np.int64)
        self._all_values = np.zeros((size, largest, *self._values.shape[1:]), self._values.dtype)

    def _gather_indices(self) -> Work[Array]:
        own = np.zeros_like(self._all_indices[0])
        own[:, : self._indices.shape[1]] = self._indices
        return self._communicator.iallgather(own, out=self._all_indices)

    def _gather_values(self) -> Work[Array]:
        own = np.zeros_like(self._all_values[0])
        own[: len(self._values)] = self._values
        return self._communicator.iallgather(own, out=self._all_values)

    def _finish(self) -> None:
        rows = range(self._communicator.size)
        counts = self._counts
        indices = np.concatenate([self._all_indices[r][:, : counts[r]] for r in rows], axis=1)
        values = torch.empty((sum(counts), *self._values.shape[1:]), dtype=self._tensor.dtype)
        np.concatenate([self._all_values[r][: counts[r]] for r in rows], out=as_array(values))
        summed = torch.sparse_coo_tensor(
            torch.from_numpy(indices), values, self._tensor.shape
        ).coalesce()
        self._reduction.finish(summed.values(), self._communicator.size)
        with torch.no_grad():  # a detached view would get indices of its own
            self._tensor.copy_(summed)


def _shape(header: Array) -> str:
    return f"{header[1]} sparse dimensions of shape {tuple(int(extent) for extent in header[2:])}"
