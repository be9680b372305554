"""Rank 0's calls fail, each before it contributed; all ranks catch the errors and go on."""

import numpy as np

import innet
from innet.errors import PeerError, ReductionOverflow


def error_of(call):
    try:
        result = call()
    except Exception as error:
        return error
    raise AssertionError(f"a result without rank 0's part: {result}")


def main(comm):
    numbers = np.full(2, 2**62 if comm.rank == 0 else 1, np.int64)
    overflow = error_of(lambda: comm.reduce_by_key(np.zeros(2, np.int64), numbers))
    assert isinstance(overflow, ReductionOverflow), overflow
    assert comm.rank == 0 or "rank 0 (h0): reduce_by_key failed" in str(overflow), overflow

    def prepared_sum():
        with comm.collective("preparation"):
            return comm.allreduce(np.full(3, int("one" if comm.rank == 0 else "1")))

    unprepared = error_of(prepared_sum)
    assert isinstance(unprepared, ValueError if comm.rank == 0 else PeerError), unprepared
    assert "invalid literal" in str(unprepared), unprepared

    total = comm.allreduce(np.full(2, comm.rank + 1))
    assert total.tolist() == [sum(range(1, comm.size + 1))] * 2, total
    print("all right")


with innet.init() as comm:
    main(comm)
