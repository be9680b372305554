"""What PyTorch's side of an allreduce costs: of a small one, and of tensors on a CUDA device.

python benchmarks/torch_overhead.py --json
python benchmarks/torch_overhead.py --device cuda --ranks 2 4 --sizes 1MiB,16MiB,128MiB --json

Of a small one: one rank on one host. Its allreduce needs no network, so what is left is the calls
themselves, which cost the same with any number of ranks.

With ``--device cuda`` ranks on hosts of a star share one device. Their allreduce of its tensors,
which are copied to the host and back, alternates with one of the host's tensors, with Gloo's, and
with other sizes of chunks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil

from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_size_bytes
from innet.topology import load_topology
from shared.benchmark import (
    Benchmark,
    Figures,
    argument_parser,
    measured_by_workers,
    report,
    times_in_turns_s,
    worker_arguments,
)

if TYPE_CHECKING:
    import torch

ELEMENTS = 16
WARM_UP_CALLS = 200
CHUNKS_MIB = (2, 4, 16, 32)
"""Sizes of chunks beside the usual one."""


def main() -> None:
    """Measure and print."""
    given = worker_arguments()
    if given is not None:
        if given[0] == "cuda":
            _measure_staged(given[1], int(given[2]))
        else:
            _measure_calls(int(given[1]))
        return
    arguments = _arguments()
    benchmark = Benchmark("torch_overhead", arguments, deadline_s=300)

    async def measure(progress: ProgressBar) -> Figures:
        if arguments.device == "cpu":
            calls = 2000 if arguments.quick else 20000
            return await measured_by_workers(__file__, ("cpu", calls), load_topology("star:1"))
        figures: Figures = {}
        for done, ranks in enumerate(arguments.ranks):
            progress(done / len(arguments.ranks), f"{ranks} ranks")
            given = ("cuda", arguments.sizes, 3 if arguments.quick else arguments.turns)
            found = await measured_by_workers(__file__, given, load_topology(f"star:{ranks}"))
            figures |= {f"{key}_{ranks}_ranks": value for key, value in found.items()}
        return figures

    benchmark.run(measure)


def _arguments() -> argparse.Namespace:
    parser = argument_parser("time of all_reduce above the network's part")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="on the device")
    parser.add_argument(
        "--sizes", default="1MiB,16MiB,128MiB", help="of tensors on the device; default %(default)s"
    )
    parser.add_argument("--turns", type=int, default=9, help="on the device; default %(default)s")
    arguments = parser.parse_args()
    if arguments.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print("torch_overhead: there is no CUDA device here; omit --device", file=sys.stderr)
            sys.exit(1)
    return arguments


def _measure_calls(calls: int) -> None:
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


class StagedSums:
    """The methods that sum tensors of one size, on the device and on the host.

    Attributes:
        machine_s: processor seconds of the whole machine in each call after the first, by method.
    """

    def __init__(self, size_bytes: int, gloo: Any) -> None:
        import torch

        self._on_host = torch.ones(size_bytes // 4)
        self._on_device = self._on_host.cuda()
        self._gloo = gloo
        self._calls = {"cuda": 0, "cpu": 0}
        self.machine_s: dict[str, list[float]] = {}

    def methods(self, chunks_mib: Sequence[int]) -> dict[str, Callable[[int], object]]:
        """What is timed, by name."""
        found: dict[str, Callable[[int], object]] = {
            "innet_cuda": partial(self._sum, "innet_cuda", self._on_device, None, 8),
            "innet_cpu": partial(self._sum, "innet_cpu", self._on_host, None, 8),
            "gloo_cuda": partial(self._sum, "gloo_cuda", self._on_device, self._gloo, 8),
            "gloo_cpu": partial(self._sum, "gloo_cpu", self._on_host, self._gloo, 8),
        }
        for chunk in chunks_mib:
            name = f"innet_cuda_chunk_{chunk}MiB"
            found[name] = partial(self._sum, name, self._on_device, None, chunk)
        return found

    def check(self, _turn: int) -> None:
        """Compare what the calls of a turn gave, and begin again with ones."""
        import torch.distributed as dist

        for tensor in (self._on_host, self._on_device):
            expected = dist.get_world_size() ** self._calls[tensor.device.type]
            assert bool((tensor == expected).all()), f"not {expected}: {tensor}"
            self._calls[tensor.device.type] = 0
            tensor.fill_(1)

    def _sum(self, name: str, tensor: torch.Tensor, group: Any, chunk_mib: int, turn: int) -> None:
        import torch
        import torch.distributed as dist

        from innet.torch_backend import staging

        staging.CHUNK_BYTES = chunk_mib << 20
        self._calls[tensor.device.type] += 1
        before_s = _machine_busy_s()
        dist.all_reduce(tensor, group=group)
        torch.cuda.synchronize()
        if turn > 0:
            self.machine_s.setdefault(name, []).append(_machine_busy_s() - before_s)


def _machine_busy_s() -> float:
    times = psutil.cpu_times()
    busy: float = sum(times) - times.idle - getattr(times, "iowait", 0)
    return busy


def _measure_staged(sizes: str, turns: int) -> None:
    import torch
    import torch.distributed as dist

    from innet.torch_backend.process_group import InnetProcessGroup

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("innet")
    group = dist.group.WORLD
    assert isinstance(group, InnetProcessGroup)
    gloo = dist.new_group(backend="gloo")
    figures: Figures = {}
    for size in sizes.split(","):
        size_bytes = parse_size_bytes(size)
        sums = StagedSums(size_bytes, gloo)
        chunks = [each for each in CHUNKS_MIB if each << 20 < size_bytes]
        times_s = times_in_turns_s(
            group.communicator, sums.methods(chunks), turns, after_turn=sums.check
        )
        for name, found_s in times_s.items():
            key = f"{name}_{size}"
            figures[f"{key}_s"] = statistics.median(found_s)
            figures[f"{key}_min_s"], figures[f"{key}_max_s"] = min(found_s), max(found_s)
            figures[f"{key}_machine_cpu_s"] = statistics.mean(sums.machine_s[name])
    if dist.get_rank() == 0:
        report(figures)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
