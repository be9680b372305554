"""PyTorch's tensors and reductions as the network takes them.

Tensors are NumPy arrays over the same memory, with as few copies as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from torch.distributed import ReduceOp

from innet.collectives.arrays import Array, reduction_type
from innet.errors import CollectiveError

_AVERAGE = ReduceOp.AVG.value
_SCALED_SUM = ReduceOp.PREMUL_SUM.value


@dataclass(frozen=True, slots=True)
class Reduction:
    """An operator of the network, and what each rank computes before and after it.

    Attributes:
        name: of the network's operator.
        averages: whether each rank divides the result by the number of ranks.
        factor: multiplies the input of each rank; ``None`` for 1.
    """

    name: str
    averages: bool = False
    factor: float | torch.Tensor | None = None

    def prepared(self, tensor: torch.Tensor) -> torch.Tensor:
        """The contribution of this rank: the tensor, or a multiple of it."""
        factor = self.factor
        if factor is None:
            return tensor
        if isinstance(factor, torch.Tensor):  # on the device, where the tensor is its host copy
            factor = factor.to(tensor.device)
        return (tensor.detach() * factor).to(tensor.dtype)

    def finish(self, result: torch.Tensor, size: int) -> None:
        """Turn the network's result into the caller's, in place."""
        if not self.averages:
            return
        plain = result.detach()
        if result.dtype.itemsize == 1:  # fp8 has no division of its own
            plain.copy_(plain.float() / size)
        else:
            plain.div_(size)


_PLAIN = {
    ReduceOp.SUM.value: Reduction("sum"),
    ReduceOp.AVG.value: Reduction("sum", averages=True),
    ReduceOp.MIN.value: Reduction("min"),
    ReduceOp.MAX.value: Reduction("max"),
    ReduceOp.PRODUCT.value: Reduction("prod"),
    ReduceOp.BAND.value: Reduction("band"),
    ReduceOp.BOR.value: Reduction("bor"),
    ReduceOp.BXOR.value: Reduction("bxor"),
}


def reduction_of(op: ReduceOp, dtype: torch.dtype) -> Reduction:
    """The operator ``op`` for tensors of ``dtype``.

    Raises:
        CollectiveError: innet has no such reduction.
    """
    stated: Any = op  # PyTorch's stub leaves out most of it
    kind = stated.op.value
    if kind == _SCALED_SUM:
        _require_inexact(dtype, "PREMUL_SUM")
        return Reduction("sum", factor=stated.__getstate__()[1])
    if kind == _AVERAGE:
        _require_inexact(dtype, "AVG")
    reduction = _PLAIN.get(kind)
    if reduction is None:
        raise CollectiveError(
            f"{stated.op} is not a reduction; take SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or "
            "PREMUL_SUM of torch.distributed.ReduceOp"
        )
    return reduction


_WIDENED = frozenset({torch.float16, torch.float8_e4m3fn, torch.float8_e5m2})


def widened(tensor: torch.Tensor, op: ReduceOp) -> torch.Tensor | None:
    """A copy in float32 for a mean whose sum may not fit the tensor's type; else ``None``."""
    stated: Any = op
    if stated.op.value != _AVERAGE or tensor.dtype not in _WIDENED:
        return None
    return tensor.detach().float()


def plain_reduction(tensor: torch.Tensor, op: ReduceOp) -> str | None:
    """The network's operator for a small dense tensor that needs nothing before or after it.

    ``None`` where each rank computes as well (AVG, PREMUL_SUM), where NumPy has no view of the
    tensor's memory, and where the tensor is large.
    """
    if type(tensor) not in _PLAIN_TENSORS or tensor.dtype not in _TYPES_OF_NUMPY:
        return None
    if tensor.nbytes > _SHORT_BYTES:
        return None
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        return None
    if tensor.is_neg() or tensor._is_zerotensor():
        return None
    stated: Any = op
    reduction = _PLAIN.get(stated.op.value)
    return None if reduction is None or reduction.averages else reduction.name


def _require_inexact(dtype: torch.dtype, operator: str) -> None:
    if not (dtype.is_floating_point or dtype.is_complex):
        raise CollectiveError(
            f"{operator} of {dtype} would not be an integer; reduce with ReduceOp.SUM and divide "
            "the sum yourself"
        )


# Types that torch does not convert to NumPy: viewed as integers of their size, then as types of
# NumPy, or as opaque bytes, which can be copied but not reduced.
_SEEN_AS_BITS: dict[torch.dtype, tuple[torch.dtype, npt.DTypeLike]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: (torch.uint8, np.dtype("V1")),
    torch.float8_e5m2fnuz: (torch.uint8, np.dtype("V1")),
    torch.float8_e8m0fnu: (torch.uint8, np.dtype("V1")),
    torch.float4_e2m1fn_x2: (torch.uint8, np.dtype("V1")),
    torch.complex32: (torch.int32, np.dtype("V4")),
}

_CARRIERS: dict[np.dtype[Any], tuple[npt.DTypeLike, torch.dtype]] = {
    np.dtype(ml_dtypes.bfloat16): (np.int16, torch.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn): (np.uint8, torch.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2): (np.uint8, torch.float8_e5m2),
}
"""Types of NumPy that torch takes as integers of their size, then views as its own types."""

_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_TYPES_OF_NUMPY = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64}
)
_SHORT_BYTES = 64 << 10
"""Largest tensors that a blocking call sums on its own thread; equals the node's limit."""

_reducible: set[tuple[torch.dtype, str]] = set()
"""Types and operators that were checked before: a check takes as long as a small operation."""


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The elements of a tensor in memory that the network can read and write.

    Attributes:
        array: the elements, in the tensor's shape.
        finish: copies ``array`` into the tensor; ``None`` if they share memory.
    """

    array: Array
    finish: Callable[[], None] | None = None


def as_source(tensor: torch.Tensor) -> Array:
    """The elements of ``tensor`` for reading; a copy only where NumPy has no view of them.

    Raises:
        CollectiveError: as :func:`as_array`.
    """
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    return as_array(tensor)


def as_target(tensor: torch.Tensor) -> HostMemory:
    """The elements of ``tensor`` for reading and writing.

    Raises:
        CollectiveError: as :func:`as_array`.
    """
    if not (tensor.is_conj() or tensor.is_neg()):
        return HostMemory(as_array(tensor))
    plain = tensor.detach().resolve_conj().resolve_neg().clone()
    return HostMemory(as_array(plain), lambda: copy_into(tensor, plain))


def as_array(tensor: torch.Tensor) -> Array:
    """The memory of ``tensor`` as an array of the same shape, strides and type.

    Raises:
        CollectiveError: the tensor is not in the processor's memory, is sparse, or is of a type
            that NumPy cannot see.
    """
    if not tensor.is_cpu:
        raise CollectiveError(
            f"a tensor is on {tensor.device}, and this operation of the innet backend needs CPU "
            "memory; pass tensor.cpu() and copy the result back"
        )
    if tensor.is_nested:
        raise CollectiveError(
            "a tensor is nested: its rows differ in length; pass tensor.to_padded_tensor(0), or "
            "each of tensor.unbind()"
        )
    if tensor.layout != torch.strided:
        raise CollectiveError(
            f"a tensor has the layout {tensor.layout}; pass tensor.to_dense(), or make the module "
            "with sparse=False (all_reduce() alone takes sparse COO tensors)"
        )
    if tensor.is_quantized:
        raise CollectiveError(
            f"a tensor of {tensor.dtype} is quantised, and its scale and zero point are not among "
            "its elements; send tensor.int_repr() and those, or tensor.dequantize()"
        )
    bits = _SEEN_AS_BITS.get(tensor.dtype)
    try:
        if bits is None:
            return tensor.detach().numpy()
        carrier, seen_as = bits
        array: npt.NDArray[Any] = tensor.detach().view(carrier).numpy().view(seen_as)
        return array
    except (RuntimeError, TypeError) as error:
        if type(tensor) not in _PLAIN_TENSORS:
            raise CollectiveError(
                f"a {type(tensor).__name__} is more than its elements, which alone would be sent; "
                "pass the tensor in it, such as to_local() of a DTensor or get_data() of a "
                "MaskedTensor"
            ) from error
        raise CollectiveError(
            f"a tensor of {tensor.dtype} cannot be sent: {error}. Send its bits as "
            "tensor.contiguous().view(torch.uint8)."
        ) from error


def on_host(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors in the processor's memory: those of devices are copied, contiguous.

    CUDA's are copied together, to pinned memory, and awaited once.
    """
    found = []
    for tensor in tensors:
        if tensor.is_cuda:
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host.copy_(tensor.detach(), non_blocking=True)
        else:
            host = tensor.cpu()
        found.append(host)
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return found


def as_tensor(array: Array) -> torch.Tensor:
    """The memory of ``array`` as a tensor of the same shape, strides and type.

    The inverse of :func:`as_array`, for the types that the network can reduce.
    """
    if array.dtype not in _CARRIERS:
        return torch.from_numpy(array)
    carrier, dtype = _CARRIERS[array.dtype]
    return torch.from_numpy(array.view(carrier)).view(dtype)


def require_reducible(tensor: torch.Tensor, array: Array, operator: str) -> None:
    """Refuse elements of a type that the network cannot reduce.

    Raises:
        CollectiveError: the network has no such reduction.
    """
    if (tensor.dtype, operator) in _reducible:
        return
    try:
        reduction_type(array, operator)
    except CollectiveError as error:
        raise CollectiveError(
            f"tensors of {tensor.dtype} cannot be reduced with {operator!r}. Convert with "
            f"tensor.to(...), and back, or gather them and combine. The network says: {error}"
        ) from error
    _reducible.add((tensor.dtype, operator))


def copy_into(tensor: torch.Tensor, result: torch.Tensor) -> None:
    """Copy ``result`` into ``tensor``, with any strides, unseen by autograd."""
    tensor.detach().copy_(result)


def only(tensors: Sequence[torch.Tensor], operation: str) -> torch.Tensor:
    """The single tensor of a list: PyTorch's interface has lists for several devices at once.

    Raises:
        CollectiveError: there is not exactly one.
    """
    if len(tensors) != 1:
        raise CollectiveError(
            f"{operation} got {len(tensors)} tensors at once, the innet backend takes one; call "
            "it for each, or concatenate them"
        )
    return tensors[0]


def only_list(lists: Sequence[Sequence[torch.Tensor]], operation: str) -> list[torch.Tensor]:
    """The single list of a list of lists.

    Raises:
        CollectiveError: there is not exactly one.
    """
    if len(lists) != 1:
        raise CollectiveError(
            f"{operation} got {len(lists)} lists of tensors, the innet backend takes one"
        )
    return list(lists[0])


def require_one_each(
    tensors: Sequence[torch.Tensor], dtype: torch.dtype, size: int, operation: str
) -> None:
    """One tensor for each rank, all of one type.

    Raises:
        CollectiveError: there are more or fewer, or their types differ.
    """
    if len(tensors) != size:
        raise CollectiveError(
            f"{operation} over {size} ranks takes a list of {size} tensors, one for each rank; "
            f"got {len(tensors)}"
        )
    types = {tensor.dtype for tensor in tensors} | {dtype}
    if len(types) > 1:
        raise CollectiveError(
            f"{operation} takes tensors of one type; got {', '.join(sorted(map(str, types)))}"
        )


def require_elements(tensor: torch.Tensor, elements: int, operation: str, which: str) -> None:
    """The tensor holds that many elements.

    Raises:
        CollectiveError: it holds another number.
    """
    if tensor.numel() != elements:
        raise CollectiveError(
            f"{operation}: the {which} must hold {elements} elements; it has shape "
            f"{tuple(tensor.shape)}"
        )


def hold_alike(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all hold as many elements."""
    return len({tensor.numel() for tensor in tensors}) <= 1


def require_multiple(large: torch.Tensor, small: torch.Tensor, size: int, operation: str) -> None:
    """``large`` holds ``size`` times what ``small`` holds.

    Raises:
        CollectiveError: it holds another number of elements, or another type.
    """
    if large.numel() != size * small.numel() or large.dtype != small.dtype:
        raise CollectiveError(
            f"{operation} over {size} ranks: the large tensor must have {size} times the "
            f"{small.numel()} elements of the small one, of {small.dtype}; it has {large.numel()} "
            f"of {large.dtype}"
        )


def split_sizes(tensor: torch.Tensor, sizes: Sequence[int], ranks: int, which: str) -> list[int]:
    """How many rows of ``tensor`` belong to each rank: what was said, or equal shares.

    Raises:
        CollectiveError: the sizes do not fit the tensor.
    """
    rows = tensor.shape[0] if tensor.dim() else 0
    if not sizes:
        if rows % ranks:
            raise CollectiveError(
                f"all_to_all_single over {ranks} ranks: the {which} has {rows} rows, which do not "
                f"divide; pass {which}_split_sizes"
            )
        return [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows or min(sizes) < 0:
        raise CollectiveError(
            f"all_to_all_single over {ranks} ranks: {which}_split_sizes are {list(sizes)}; they "
            f"must be {ranks} numbers of rows that sum up to the {rows} of the {which}"
        )
    return list(sizes)
