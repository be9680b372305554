"""What PyTorch's side of a small allreduce costs above the native operation, per call.

python benchmarks/torch_overhead.py --json

One rank on one host: its allreduce needs no network, so what is left is the calls themselves, which
cost the same with any number of ranks.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from innet.lab.compare.progress import ProgressBar
from innet.topology import load_topology
from shared.benchmark import (
    Benchmark,
    Figures,
    argument_parser,
    measured_by_workers,
    report,
    worker_arguments,
)

ELEMENTS = 16
WARM_UP_CALLS = 200


def main() -> None:
    """Measure and print."""
    given = worker_arguments()
    if given is not None:
        _measure_in_worker(*map(int, given))
        return
    arguments = argument_parser(
        "time of a small all_reduce above the native operation"
    ).parse_args()
    benchmark = Benchmark("torch_overhead", arguments, deadline_s=120)
    calls = 2000 if arguments.quick else 20000

    async def measure(_progress: ProgressBar) -> Figures:
        return await measured_by_workers(__file__, (calls,), load_topology("star:1"))

    benchmark.run(measure)


def _measure_in_worker(calls: int) -> None:
    import torch
    import torch.distributed as dist

    from innet.torch_backend.process_group import InnetProcessGroup

    torch.set_num_threads(1)
    dist.init_process_group("innet")
    group = dist.group.WORLD
    assert isinstance(group, InnetProcessGroup)
    tensor = torch.ones(ELEMENTS)
    array = tensor.numpy()
    communicator = group.communicator
    methods: dict[str, Callable[[], object]] = {
        "native": lambda: communicator.allreduce(array, out=array),
        "all_reduce": lambda: dist.all_reduce(tensor),
    }
    times_s: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(WARM_UP_CALLS + calls):
        for name, call in methods.items():
            start_s = time.perf_counter()
            call()
            if turn >= WARM_UP_CALLS:
                times_s[name].append(time.perf_counter() - start_s)
    medians_us = {name: 1e6 * statistics.median(times) for name, times in times_s.items()}
    figures = {f"{name}_us": value for name, value in medians_us.items()}
    figures["overhead_us"] = medians_us["all_reduce"] - medians_us["native"]
    report(figures)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
