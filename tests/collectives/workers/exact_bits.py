"""Operations and types against the plan's expression evaluated with NumPy, to the bit.

exact_bits.py SEED [TYPE...]     all operations on all types by default, or sums of these
"""

import sys

import numpy as np

import innet
from innet.plans import evaluate_allreduce
from innet.plans.element_types import ELEMENT_TYPES

SEED = int(sys.argv[1])
TYPES = sys.argv[2:] or list(ELEMENT_TYPES)
SIZES = (0, 1, 1000, 40_001)
SIZE_OF_OTHER_TYPES = 10_001


def contribution(rank, size, dtype, op):
    """Floats whose sum depends on the order of adding, integers that cannot overflow."""
    random = np.random.default_rng((SEED, rank, size, dtype.num % 64))
    if dtype.kind in "iub":
        largest = 15 if op != "prod" else 2 if rank < 4 else 1
        return random.integers(0, largest + 1, size).astype(dtype)
    values = random.standard_normal(size) * 10.0 ** random.integers(-3, 4, size)
    values[: size // 50] = np.nan
    values[size // 50 : size // 25] = np.inf
    with np.errstate(all="ignore"):  # what is too large for the type
        if dtype.kind == "c":
            values = values + 1j * values[::-1]
        return values.astype(dtype)


def main():
    comm = innet.init()
    for name in TYPES:
        element = ELEMENT_TYPES[name]
        for op in element.operations if len(sys.argv) == 2 else ["sum"]:
            for size in SIZES if name in ("f32", "i64", "bf16") else (SIZE_OF_OTHER_TYPES,):
                check(comm, name, element.dtype, op, size)
    comm.close()
    print("all equal")


def check(comm, name, dtype, op, size):
    everybody = [contribution(rank, size, dtype, op) for rank in range(comm.size)]
    mine = everybody[comm.rank].copy()
    plan = comm.plan_for(mine.nbytes)
    with np.errstate(all="ignore"):
        step = comm.segment_bytes_of(mine.nbytes) // dtype.itemsize
        expected = evaluate_allreduce(plan, everybody, op, step)
    result = comm.allreduce(mine, op)
    same = result.tobytes() == expected.tobytes() or same_but_for_nan_payload(result, expected)
    assert same, f"{op} of {size} {name} differs"
    comm.allreduce(mine, op, out=mine)
    assert mine.tobytes() == result.tobytes(), f"in place, {op} of {size} {name} differs"
    digests = comm.allgather(np.frombuffer(result.tobytes()[:64].ljust(64, b"\0"), np.uint8))
    assert (digests == digests[0]).all(), f"ranks hold different bits of {op} of {name}"


def same_but_for_nan_payload(result, expected):
    """IEEE 754 leaves the payload of a NaN open; everything else must be the same to the bit."""
    if result.dtype.kind in "iub":
        return False
    if result.dtype.kind == "c":  # the parts of a number may be NaN one by one
        part = result.real.dtype
        return same_but_for_nan_payload(result.view(part), expected.view(part))
    nan = np.isnan(result.astype(np.float64))
    if not (nan == np.isnan(expected.astype(np.float64))).all():
        return False
    return result[~nan].tobytes() == expected[~nan].tobytes()


main()
