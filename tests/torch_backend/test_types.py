"""Every type and operator that PyTorch has, beside plain arithmetic on the same tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks, everybody, total, values, with_op, with_root

pytestmark = pytest.mark.torch

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
COMPLEX = (torch.complex64, torch.complex128)
REDUCIBLE = (*FLOATS, *FP8, *SIGNED, *UNSIGNED, *COMPLEX)
COPIED = (
    *REDUCIBLE,
    torch.bool,
    torch.complex32,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
ELEMENTS = 700


def allreduced(ranks: Ranks, op: object, tensor_of: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """The result, which all ranks hold alike."""

    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = tensor_of(group.rank())
        group.allreduce([tensor], with_op(dist.AllreduceOptions(), op)).wait()
        return tensor

    results = ranks.run(program)
    for result in results[1:]:
        assert same_bits(result, results[0])
    first: torch.Tensor = results[0]
    return first


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def exact_total(dtype: torch.dtype) -> torch.Tensor:
    """The sum before it is rounded, which fp8 needs to be: it has 2 or 3 bits after the first."""
    return total(ELEMENTS, dtype=wide(dtype))


def same_bits(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(tensor.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
def test_every_summable_type_is_summed(ranks: Ranks, dtype: torch.dtype) -> None:
    result = allreduced(ranks, ReduceOp.SUM, lambda rank: values(rank, ELEMENTS, dtype=dtype))
    assert same_bits(result, exact_total(dtype).to(dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *FP8, *COMPLEX], ids=str)
def test_averages_divide_the_sum(ranks: Ranks, dtype: torch.dtype) -> None:
    result = allreduced(ranks, ReduceOp.AVG, lambda rank: values(rank, ELEMENTS, dtype=dtype))
    assert same_bits(result, (exact_total(dtype).to(dtype).to(wide(dtype)) / SIZE).to(dtype))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=str)
@pytest.mark.parametrize(
    ("op", "combine"),
    [
        (ReduceOp.BAND, torch.bitwise_and),
        (ReduceOp.BOR, torch.bitwise_or),
        (ReduceOp.BXOR, torch.bitwise_xor),
    ],
    ids=["band", "bor", "bxor"],
)
def test_bitwise_operations_on_integers(
    ranks: Ranks, dtype: torch.dtype, op: object, combine: Callable[..., torch.Tensor]
) -> None:
    result = allreduced(ranks, op, lambda rank: values(rank, ELEMENTS, dtype=dtype))
    expected = functools.reduce(combine, everybody(ELEMENTS, dtype=torch.int64))
    assert torch.equal(result.to(torch.int64), expected)


@pytest.mark.parametrize(
    ("op", "combine"),
    [
        (ReduceOp.BAND, torch.logical_and),
        (ReduceOp.BOR, torch.logical_or),
        (ReduceOp.BXOR, torch.logical_xor),
        (ReduceOp.MIN, torch.logical_and),
        (ReduceOp.MAX, torch.logical_or),
        (ReduceOp.PRODUCT, torch.logical_and),
        (ReduceOp.SUM, torch.logical_or),
    ],
    ids=["band", "bor", "bxor", "min", "max", "product", "sum"],
)
def test_logical_operations_on_booleans(
    ranks: Ranks, op: object, combine: Callable[..., torch.Tensor]
) -> None:
    def truths(rank: int) -> torch.Tensor:
        return values(rank, ELEMENTS) > 1

    result = allreduced(ranks, op, truths)
    assert torch.equal(result, functools.reduce(combine, map(truths, range(SIZE))))


@pytest.mark.parametrize(
    "factor", [0.5, torch.tensor([0.25]), torch.tensor([2.0], dtype=torch.float64)], ids=str
)
def test_scaled_sums_multiply_before_they_add(ranks: Ranks, factor: float | torch.Tensor) -> None:
    op = dist._make_nccl_premul_sum(factor)
    result = allreduced(ranks, op, lambda rank: values(rank, ELEMENTS))
    assert torch.equal(result, total(ELEMENTS) * float(factor))


def test_scaled_sums_leave_the_input_of_a_reduce_scatter_alone(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        mine, output = values(group.rank(), SIZE * 5), torch.empty(5)
        options = with_op(dist.ReduceScatterOptions(), dist._make_nccl_premul_sum(0.5))
        group.reduce_scatter_single(output, mine, options).wait()
        return output, mine

    for rank, (output, mine) in enumerate(ranks.run(program)):
        assert torch.equal(output, total(SIZE * 5)[5 * rank : 5 * rank + 5] / 2)
        assert torch.equal(mine, values(rank, SIZE * 5))


@pytest.mark.parametrize("dtype", COPIED, ids=str)
def test_every_type_is_copied_to_the_bit(ranks: Ranks, dtype: torch.dtype) -> None:
    def bits(rank: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(rank)
        limit = 2 if dtype == torch.bool else 256
        raw = torch.randint(0, limit, (64 * dtype.itemsize,), generator=generator)
        return raw.to(torch.uint8).view(dtype)

    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        me = group.rank()
        broadcast = bits(me)
        group.broadcast([broadcast], with_root(dist.BroadcastOptions(), 3)).wait()
        gathered = torch.empty(64 * SIZE, dtype=dtype)
        group.all_gather_single(gathered, bits(me)).wait()
        received = torch.empty(64, dtype=dtype)
        sent = group.send([bits(me)], (me + 1) % SIZE, 0)
        group.recv([received], (me - 1) % SIZE, 0).wait()
        sent.wait()
        return broadcast, gathered, received

    for rank, (broadcast, gathered, received) in enumerate(ranks.run(program)):
        assert same_bits(broadcast, bits(3))
        for peer, block in enumerate(gathered.split(64)):
            assert same_bits(block, bits(peer))
        assert same_bits(received, bits((rank - 1) % SIZE))


def test_infinities_and_nans_survive(ranks: Ranks) -> None:
    def special(rank: int) -> torch.Tensor:
        inf = float("inf")
        return torch.tensor([inf if rank == 1 else 1.0, float("nan") if rank == 2 else 1.0, 1.0])

    result = allreduced(ranks, ReduceOp.SUM, special)
    assert result[0] == float("inf")
    assert result[1].isnan()
    assert result[2] == SIZE


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED], ids=str)
def test_integers_wrap_around_as_with_gloo(ranks: Ranks, dtype: torch.dtype) -> None:
    """Also on the way to a sum that fits, in small tensors, large ones and lists of them."""
    limits = torch.iinfo(dtype)
    for elements in (3, 40_000):
        for numbers in ([limits.max, 1, 0, 0], [limits.max, limits.max, 0, 2]):
            modulus = limits.max - limits.min + 1
            wrapped = (sum(numbers) - limits.min) % modulus + limits.min
            expected = torch.full((elements,), wrapped, dtype=dtype)
            full = functools.partial(torch.full, (elements,), dtype=dtype)
            found = allreduced(ranks, ReduceOp.SUM, lambda rank: full(numbers[rank]))  # noqa: B023
            assert same_bits(found, expected)
    pairs = [3, 5, limits.max, 1]
    product = allreduced(
        ranks, ReduceOp.PRODUCT, lambda rank: torch.tensor([pairs[rank]], dtype=dtype)
    )
    modulus = limits.max - limits.min + 1
    wrapped = (15 * limits.max - limits.min) % modulus + limits.min
    assert product.tolist() == [wrapped]
