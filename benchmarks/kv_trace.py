"""Recorded requests to a language model: one store of any size, and a cluster of 16 hosts.

python benchmarks/kv_trace.py conversation_trace.jsonl --json
python benchmarks/kv_trace.py --quick --memory 500
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from innet.cli.simulation_progress import SimulationProgress
from innet.compare.benchmark import Benchmark, Figures, argument_parser, quantity
from innet.compare.measurement import Comparison
from innet.compare.progress import ProgressBar
from innet.errors import SimulationError
from innet.kv.block_store import BlockStore
from innet.kv.designs import DESIGNS
from innet.kv.replay import hit_rate
from innet.kv.traces import Request, load_trace
from innet.settings import Settings
from innet.simulation.experiment.outcome import outcome
from innet.simulation.experiment.sweep import make_tasks, sweep
from innet.simulation.workload import load_workload
from innet.topology import load_topology
from innet.topology.quantities import parse_size_bytes

SLICE = Path(__file__).resolve().parents[1] / "workloads" / "traces" / "conversation.jsonl"
STORES_BLOCKS = (1000, 10_000, 30_000, 50_000, 100_000, None)
MTU_BYTES = 65_000
QUEUE_BYTES = 16 << 20


def main() -> None:
    """Replay over one store, then over the cluster in every design."""
    parser = argument_parser("hit rates and bytes on the links of a replay of recorded requests")
    parser.add_argument("trace", nargs="?", type=Path, default=SLICE, help="default: a slice")
    parser.add_argument("--topology", default="leaf-spine:4x2x4", help="default leaf-spine:4x2x4")
    parser.add_argument("--memory", type=int, default=10_000, help="of the cluster, in blocks")
    parser.add_argument(
        "--block", type=quantity(parse_size_bytes), default=64 << 10, help="default 64KiB"
    )
    arguments = parser.parse_args()
    benchmark = Benchmark("kv_trace", arguments, deadline_s=3600)

    async def measure(progress: ProgressBar) -> Figures:
        text = await asyncio.to_thread(arguments.trace.read_text, encoding="utf-8")
        figures = one_store(load_trace(arguments.trace, text))
        topology = load_topology(arguments.topology).with_overrides(
            rate_bps=10e9, mtu_bytes=MTU_BYTES, queue_bytes=QUEUE_BYTES
        )
        workload = load_workload(f"kv:{arguments.trace},block={arguments.block}")
        if arguments.quick:
            workload = workload.with_repetitions(50)
        tasks = make_tasks(
            topology,
            workload,
            algorithms=list(DESIGNS),
            sizes_bytes=[arguments.memory * arguments.block],
        )
        runs = await asyncio.to_thread(
            sweep,
            tasks,
            processes=max(2, len(os.sched_getaffinity(0))),
            told=SimulationProgress(progress),
        )
        comparison = outcome(topology, workload.name, Settings(), benchmark.machine, runs)
        benchmark.show(comparison)
        return figures | by_design(comparison)

    benchmark.run(measure)


def one_store(requests: tuple[Request, ...]) -> Figures:
    """Hit rates of one store with LRU, by its size."""
    return {
        f"one_store_{'unlimited' if blocks is None else blocks}_hit_rate": hit_rate(
            requests, BlockStore(blocks)
        )
        for blocks in STORES_BLOCKS
    }


def by_design(comparison: Comparison) -> Figures:
    """What the cluster gave in each design."""
    figures: Figures = {}
    for design in DESIGNS:
        (row,) = comparison.of_method(design)
        if row.blocks is None or row.busiest_link is None:
            raise SimulationError(f"{design} was not measured")
        asked = max(row.blocks.asked, 1)
        figures |= {
            f"{design}_hit_rate": row.blocks.hit_rate,
            f"{design}_local_rate": row.blocks.local / asked,
            f"{design}_switches_rate": row.blocks.switches / asked,
            f"{design}_homes_rate": row.blocks.homes / asked,
            f"{design}_late": row.blocks.late,
            f"{design}_busiest_link": str(row.busiest_link),
            f"{design}_busiest_link_bytes_per_request": row.busiest_link.bytes_per_operation,
            f"{design}_first_token_p50_s": row.median_s,
            f"{design}_first_token_p95_s": row.p95_s,
        }
    return figures


if __name__ == "__main__":
    main()
