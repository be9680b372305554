"""Recorded requests to a language model: one store of any size, and a cluster of 16 hosts.

INNET_CONVERSATION_TRACE=conversation_trace.jsonl python benchmarks/kv_trace.py --json
python benchmarks/kv_trace.py --quick

* ``one_store_*``: one store with LRU for all requests.
* ``modelled_*``: the whole trace over the cluster, the memory spread in each design, block by block
  (:mod:`shared.block_model`): no time, no overlap.
* ``chats_*``, ``agents_*``, ``documents_*``, ``handbooks_*``: the same for generated requests
  (:mod:`shared.request_traces`), whose blocks are used again in other ways; means over the seeds.
* ``simulated_*``, ``modelled_part_*``: the trace's beginning, packet by packet and block by block,
  which says what the model is worth.
* ``hot_prefix_copies``: how often the link of the host that computed a prompt carries each of its
  blocks when the 15 others ask for it at once, packet by packet.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from innet.cli.experiments import SimulationProgress
from innet.errors import SimulationError
from innet.lab.compare.measurement import Comparison
from innet.lab.compare.progress import ProgressBar
from innet.lab.experiment.outcome import outcome
from innet.lab.experiment.run import run_task
from innet.lab.experiment.sweep import make_tasks, sweep
from innet.lab.replay.plan import DESIGNS, Design, ReplayPlan, with_switch_memory
from innet.lab.replay.single_store import BlockStore, belady_rate, hit_rate
from innet.lab.traces import PromptRequest, load_trace
from innet.lab.workload import load_workload
from innet.lab.workload.model import KvJob
from innet.quantities import parse_size_bytes
from innet.settings import Settings
from innet.topology import Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, computed, quantity
from shared.block_model import BlockModel, busiest_link
from shared.request_traces import GENERATED, recorded

STORES_BLOCKS = (1000, 10_000, 30_000, 50_000, 100_000, None)
MTU_BYTES = 65_000
QUEUE_BYTES = 16 << 20
HOT_BLOCKS = 8
BLOCK_TOKENS = 512


def main() -> None:
    """One store, the whole trace by blocks, a part of it by packets, and a hot prefix."""
    parser = argument_parser("hit rates and bytes on the links of a replay of recorded requests")
    parser.add_argument("trace", nargs="?", type=Path, help="default: $INNET_CONVERSATION_TRACE")
    parser.add_argument("--topology", default="leaf-spine:4x2x4", help="default leaf-spine:4x2x4")
    parser.add_argument(
        "--memory",
        type=int,
        nargs="+",
        default=[10_000, 30_000, 100_000],
        help="of the cluster, in blocks; default 10000 30000 100000",
    )
    parser.add_argument(
        "--block", type=quantity(parse_size_bytes), default=64 << 10, help="default 64KiB"
    )
    parser.add_argument(
        "--generated", type=int, help="requests of each generated trace; default 6000, quick: 300"
    )
    parser.add_argument(
        "--part", type=int, help="requests to simulate packet by packet; default 300, quick: 50"
    )
    parser.add_argument("--seeds", type=int, help="of each generated trace; default 3, quick: 1")
    arguments = parser.parse_args()
    arguments.trace = arguments.trace or recorded(quick=arguments.quick)
    benchmark = Benchmark("kv_trace", arguments, deadline_s=3600)

    async def measure(progress: ProgressBar) -> Figures:
        async def add(what: str, work: Callable[[], Figures]) -> None:
            progress(0.0, what)
            benchmark.done.update(await computed(work))

        requests = await computed(
            lambda: load_trace(arguments.trace, arguments.trace.read_text("utf-8"))
        )
        topology = load_topology(arguments.topology).with_overrides(
            rate_bps=10e9, mtu_bytes=MTU_BYTES, queue_bytes=QUEUE_BYTES
        )
        by_blocks = partial(modelled, topology=topology, arguments=arguments)
        await add("one store", lambda: one_store(requests))
        for memory in arguments.memory:
            work = partial(by_blocks, requests, memory_blocks=memory, key=f"modelled_{memory}")
            await add(f"{memory} blocks of memory, block by block", work)
        for name, generate in GENERATED.items():
            for memory in arguments.memory:
                work = partial(generated, generate, topology, arguments, memory, f"{name}_{memory}")
                await add(f"{name}, block by block", work)
        comparison = await computed(lambda: simulated(topology, arguments, benchmark, progress))
        benchmark.show(comparison)
        benchmark.done.update(by_design(comparison))
        part = requests[: part_of(arguments)]
        work = partial(by_blocks, part, memory_blocks=arguments.memory[0], key="modelled_part")
        await add("a part, block by block", work)
        await add("a hot prefix", lambda: hot_prefix(topology))
        return benchmark.done

    benchmark.run(measure)


def one_store(requests: tuple[PromptRequest, ...]) -> Figures:
    """Hit rates of one store with LRU, by its size."""
    return {
        f"one_store_{'unlimited' if blocks is None else blocks}_hit_rate": hit_rate(
            requests, BlockStore(blocks)
        )
        for blocks in STORES_BLOCKS
    }


def generated(
    generate: Callable[[int, int], tuple[PromptRequest, ...]],
    topology: Topology,
    arguments: argparse.Namespace,
    memory_blocks: int,
    key: str,
) -> Figures:
    """:func:`modelled` for generated requests: the means over the seeds."""
    number = arguments.generated or (300 if arguments.quick else 6000)
    seeds = range(1, 1 + (arguments.seeds or (1 if arguments.quick else 3)))
    each = [
        modelled(generate(number, seed), topology, arguments, memory_blocks, key) for seed in seeds
    ]
    return {
        name: value if isinstance(value, str) else fmean(figures[name] for figures in each)
        for name, value in each[0].items()
    }


def modelled(
    requests: Sequence[PromptRequest],
    topology: Topology,
    arguments: argparse.Namespace,
    memory_blocks: int,
    key: str,
) -> Figures:
    """The designs block by block; ``network`` without the switches' part as well."""
    figures: Figures = {
        f"{key}_one_store_hit_rate": hit_rate(requests, BlockStore(memory_blocks)),
        f"{key}_belady_hit_rate": belady_rate(requests, memory_blocks),
        f"{key}_ideal_hit_rate": hit_rate(requests, BlockStore(None)),
    }
    written = {"": "", "_without_switches": ",switch-share=0"}
    cases = [(design, "") for design in DESIGNS] + [("network", "_without_switches")]
    for design, suffix in cases:
        job = kv_job(arguments, memory_blocks, written[suffix])
        plan = ReplayPlan.of(
            job.written,
            Design.parse(design),
            len(topology.hosts),
            dict.fromkeys(topology.hosts, 1.0),
            put_timeout_s=60.0,
        )
        model = BlockModel(with_switch_memory(topology, job.written, design), plan, topology.hosts)
        model.replay(requests)
        counts, asked = model.counts, sum(len(request.blocks) for request in requests)
        link, blocks = busiest_link(model.link_blocks.items())
        figures |= {
            f"{key}_{design}{suffix}_hit_rate": 1 - counts.computed / asked,
            f"{key}_{design}{suffix}_local_rate": counts.local / asked,
            f"{key}_{design}{suffix}_switches_rate": counts.switches / asked,
            f"{key}_{design}{suffix}_homes_rate": counts.homes / asked,
            f"{key}_{design}{suffix}_busiest_link": link,
            f"{key}_{design}{suffix}_busiest_link_blocks_per_request": blocks / len(requests),
        }
    return figures


def simulated(
    topology: Topology, arguments: argparse.Namespace, benchmark: Benchmark, progress: ProgressBar
) -> Comparison:
    """The trace's beginning in every design, packet by packet."""
    memory_bytes = arguments.memory[0] * arguments.block
    workload = load_workload(f"kv:{arguments.trace},block={arguments.block}")
    tasks = make_tasks(
        topology,
        workload.with_repetitions(part_of(arguments)),
        algorithms=list(DESIGNS),
        sizes_bytes=[memory_bytes],
    )
    runs = sweep(
        tasks,
        processes=max(2, len(os.sched_getaffinity(0))),
        progress=SimulationProgress(progress),
    )
    return outcome(topology, workload.name, Settings(), benchmark.machine, runs)


def by_design(comparison: Comparison) -> Figures:
    """What the simulated cluster gave in each design."""
    figures: Figures = {}
    for design in DESIGNS:
        (row,) = comparison.of_method(design)
        if row.blocks is None or row.busiest_link is None:
            raise SimulationError(f"{design} was not measured")
        asked = max(row.blocks.asked, 1)
        figures |= {
            f"simulated_{design}_hit_rate": row.blocks.hit_rate,
            f"simulated_{design}_local_rate": row.blocks.local / asked,
            f"simulated_{design}_switches_rate": row.blocks.switches / asked,
            f"simulated_{design}_homes_rate": row.blocks.homes / asked,
            f"simulated_{design}_late": row.blocks.late,
            f"simulated_{design}_busiest_link": str(row.busiest_link),
            f"simulated_{design}_busiest_link_bytes_per_request": (
                row.busiest_link.bytes_per_operation
            ),
            f"simulated_{design}_first_token_p50_s": row.median_s,
            f"simulated_{design}_first_token_p95_s": row.p95_s,
        }
    return figures


def hot_prefix(topology: Topology) -> Figures:
    """All other hosts ask at once for a prompt that the first has computed."""
    prompt = {
        "input_length": HOT_BLOCKS * BLOCK_TOKENS,
        "output_length": 1,
        "hash_ids": list(range(HOT_BLOCKS)),
    }
    times_ms = [0] + [60_000] * (len(topology.hosts) - 1)
    block_bytes = 64 << 10
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "hot.jsonl"
        trace.write_text("\n".join(json.dumps({"timestamp": at} | prompt) for at in times_ms))
        workload = load_workload(f"kv:{trace},block={block_bytes}")
        (task,) = make_tasks(topology, workload, algorithms=["network"])
        result = run_task(replace(task, payloads="real"))
    producer = topology.hosts[0]
    sent_bytes = sum(link.bytes_per_operation for link in result.links if link.source == producer)
    return {
        "hot_prefix_askers": len(topology.hosts) - 1,
        "hot_prefix_copies": sent_bytes / (HOT_BLOCKS * block_bytes),
    }


def kv_job(arguments: argparse.Namespace, memory_blocks: int, options: str) -> KvJob:
    """The job as a workload has it, with so much memory."""
    memory_bytes = memory_blocks * arguments.block
    text = f"kv:{arguments.trace},block={arguments.block},cache={memory_bytes}{options}"
    (job,) = load_workload(text).jobs
    assert isinstance(job, KvJob)
    return job


def part_of(arguments: argparse.Namespace) -> int:
    """Requests that are simulated packet by packet."""
    return int(arguments.part or (50 if arguments.quick else 300))


if __name__ == "__main__":
    main()
