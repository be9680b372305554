"""Every operation and type against the plan's expression evaluated with NumPy, to the bit."""

import sys

import ml_dtypes
import numpy as np

import innet
from innet.plans import evaluate_allreduce

SEED = int(sys.argv[1])
TYPES = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
}
SIZES = (0, 1, 1000, 40_001)


def contribution(rank, size, dtype, op):
    """Floats whose sum depends on the order of adding, integers that cannot overflow."""
    random = np.random.default_rng((SEED, rank, size, dtype.num % 64))
    if dtype.kind in "iu":
        largest = 25 if op != "prod" else 2 if rank < 4 else 1
        return random.integers(0, largest + 1, size).astype(dtype)
    values = random.standard_normal(size) * 10.0 ** random.integers(-3, 4, size)
    values[: size // 50] = np.nan
    values[size // 50 : size // 25] = np.inf
    return values.astype(dtype)


def main():
    comm = innet.init()
    for name, dtype in TYPES.items():
        for op in ("sum", "min", "max", "prod"):
            for size in SIZES:
                check(comm, name, dtype, op, size)
    comm.close()
    print("all equal")


def check(comm, name, dtype, op, size):
    everybody = [contribution(rank, size, dtype, op) for rank in range(comm.size)]
    mine = everybody[comm.rank].copy()
    plan = comm.plan_for(mine.nbytes)
    with np.errstate(all="ignore"):
        expected = evaluate_allreduce(plan, everybody, op, comm.segment_bytes // dtype.itemsize)
    result = comm.allreduce(mine, op)
    same = result.tobytes() == expected.tobytes() or same_but_for_nan_payload(result, expected)
    assert same, f"{op} of {size} {name} differs"
    comm.allreduce(mine, op, out=mine)
    assert mine.tobytes() == result.tobytes(), f"in place, {op} of {size} {name} differs"
    digests = comm.allgather(np.frombuffer(result.tobytes()[:64].ljust(64, b"\0"), np.uint8))
    assert (digests == digests[0]).all(), f"ranks hold different bits of {op} of {name}"


def same_but_for_nan_payload(result, expected):
    """IEEE 754 leaves the payload of a NaN open; everything else must be the same to the bit."""
    if result.dtype.kind in "iu":
        return False
    nan = np.isnan(result.astype(np.float64))
    if not (nan == np.isnan(expected.astype(np.float64))).all():
        return False
    return result[~nan].tobytes() == expected[~nan].tobytes()


main()
