"""Allreduce over four machines with two workers each: innet in `cluster` mode against Gloo.

python benchmarks/cluster.py --json

A machine is a network namespace here, with an address of its own and a link whose rate the kernel
limits. On each of the four, `innet node join` runs two ranks and their node. A fifth one runs
`innet up` and the switch; its link is as fast as the four together, like that of a server at a
faster port of the rack. All that machines send each other passes these links, and the kernel counts
it. Gloo has eight ranks on the same four machines, in the order of innet's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from innet.errors import EmulationError
from innet.lab.compare.contender import ADDRESS_VARIABLE, AllreduceResult, AllreduceTask
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import WARM_UP_TURNS
from innet.lab.harness import Conductor, Team
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.topology import Link, Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, quantity
from shared.machines import Machines, machines_of

LAUNCHER: Final = "h0"
MACHINES: Final = ("h1", "h2", "h3", "h4")
WORKERS: Final = 2
RANKS: Final = len(MACHINES) * WORKERS
METHODS: Final = {
    "inc": ("innet", "inc"),
    "ring": ("innet", "ring"),
    "gloo": ("gloo", "ring"),
}
"""The contender and the algorithm of each method, by how its keys begin."""
_CONTENDER: Final = ("-m", "innet.lab.compare.contender")
_GLOO_PORT: Final = 29600
_DEADLINE_S: Final = 90.0


def links_of(rate_bps: float, switch_rate_bps: float, mtu_bytes: int) -> Topology:
    """The machines and their links; ``switch_rate_bps`` is that of the launcher's."""
    star = load_topology(f"star:{1 + len(MACHINES)}").with_overrides(
        rate_bps=rate_bps, mtu_bytes=mtu_bytes
    )
    other = {"rate_bps": switch_rate_bps}
    links = tuple(
        Link(**(link.given | other)) if LAUNCHER in link.nodes else link for link in star.links
    )
    return star.model_copy(update={"links": links})


def cluster_file() -> str:
    """The topology file of the network that is measured."""
    hosts = "".join(f"    {name}: {{kind: host, workers: {WORKERS}}}\n" for name in MACHINES)
    links = "".join(
        f'    - endpoints: ["{name}:eth0", "s0:eth{port}"]\n' for port, name in enumerate(MACHINES)
    )
    return f"name: bench\ntopology:\n  nodes:\n{hosts}    s0: {{kind: switch}}\n  links:\n{links}"


class Cluster:
    """The ranks of both contenders on the machines."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def start_ranks(self, contender: str, socket: Path) -> None:
        """Start the ranks of a contender, which join the conductor at ``socket``."""
        calls = [call for of, call in METHODS.values() if of == contender]
        rank = (*_CONTENDER, contender, str(socket), *calls)
        if contender == "innet":
            self.machines.run(LAUNCHER, "python", *rank)
            return
        for number in range(RANKS):
            machine = MACHINES[number // WORKERS]
            variables = {
                "RANK": str(number),
                "WORLD_SIZE": str(RANKS),
                "MASTER_ADDR": self.machines.address(MACHINES[0]),
                "MASTER_PORT": str(_GLOO_PORT),
                ADDRESS_VARIABLE: self.machines.address(machine),
            }
            self.machines.start(machine, sys.executable, *rank, **variables)

    async def link_bytes(self) -> dict[tuple[str, str], int]:
        """What the kernel has sent on each machine's link so far, out of it and into it."""
        found = {}
        for direction, counters in (await self.machines.network.link_counters()).items():
            if direction.node in MACHINES:
                found[direction.node, "out"] = counters.bytes
            elif direction.peer in MACHINES:
                found[direction.peer, "in"] = counters.bytes
        return found


@asynccontextmanager
async def cluster(links: Topology) -> AsyncIterator[Cluster]:
    """Machines with innet's network on them."""
    async with machines_of(links) as machines:
        await machines.launch(cluster_file(), LAUNCHER, MACHINES)
        yield Cluster(machines)
        await machines.down(LAUNCHER)


@dataclass
class Samples:
    """What the turns of a method took.

    Attributes:
        times_s: of the slowest rank.
        cpu_s: of the whole machine, with all that runs on it.
        link_bytes: by direction, of the machine's link with the most.
    """

    times_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    link_bytes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def figures(self, name: str, size_bytes: int) -> Figures:
        """Medians and spread."""
        low_s, high_s = np.percentile(self.times_s, (10, 90))
        figures: Figures = {
            f"{name}_s": statistics.median(self.times_s),
            f"{name}_p10_s": float(low_s),
            f"{name}_p90_s": float(high_s),
            f"{name}_cpu_s": statistics.median(self.cpu_s),
        }
        for way, counts in self.link_bytes.items():
            most = statistics.median(counts)
            figures[f"{name}_link_bytes_{way}"] = most
            figures[f"{name}_link_{way}_per_tensor"] = most / size_bytes
        return figures


async def take_turn(
    there: Cluster, team: Team, call: str, samples: Samples, size_bytes: int
) -> None:
    """Let all ranks of a contender sum once, and keep what it took."""
    before = await there.link_bytes()
    task = AllreduceTask(call=call, size_bytes=size_bytes, operations=1)
    turn = await team.take_turn(task, AllreduceResult, _DEADLINE_S)
    after = await there.link_bytes()
    if not all(result.correct for result in turn.results):
        raise EmulationError(f"{team.name} gave wrong results at {size_bytes} bytes")
    samples.times_s.append(max(result.durations_s[0] for result in turn.results))
    samples.cpu_s.append(turn.machine_cpu_s)
    for way in ("out", "in"):
        counts = (after[machine, way] - before[machine, way] for machine in MACHINES)
        samples.link_bytes[way].append(max(counts))


async def measure_all(
    arguments: argparse.Namespace, sizes: Mapping[str, int], progress: ProgressBar
) -> Figures:
    """Alternate between the methods, at each size."""
    figures: Figures = {}
    turns = WARM_UP_TURNS + arguments.repetitions
    links = links_of(arguments.rate, arguments.switch_rate, arguments.mtu)
    async with cluster(links) as there:
        socket = there.machines.folder / "turns"
        async with Conductor(socket) as conductor:
            teams = {}
            for contender in ("innet", "gloo"):
                there.start_ranks(contender, socket)
                teams[contender] = await conductor.assemble(contender, RANKS, _DEADLINE_S)
            for position, (suffix, size_bytes) in enumerate(sizes.items()):
                samples = {name: Samples() for name in METHODS}
                for turn in range(turns):
                    progress((position + turn / turns) / len(sizes), suffix)
                    for name, (contender, call) in METHODS.items():
                        kept = samples[name] if turn >= WARM_UP_TURNS else Samples()
                        await take_turn(there, teams[contender], call, kept, size_bytes)
                for name, taken in samples.items():
                    found = taken.figures(name, size_bytes)
                    figures |= {f"{key}_{suffix}": value for key, value in found.items()}
                busiest = max(1 / arguments.rate, len(MACHINES) / arguments.switch_rate)
                figures[f"bound_s_{suffix}"] = size_bytes * 8 * busiest
                figures[f"inc_speedup_vs_gloo_{suffix}"] = (
                    figures[f"gloo_s_{suffix}"] / figures[f"inc_s_{suffix}"]
                )
            for team in teams.values():
                team.dismiss()
    return figures


def main() -> None:
    """Measure and print."""
    parser = argument_parser("innet against Gloo on four machines, which are network namespaces")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="1gbit")
    parser.add_argument(
        "--switch-rate",
        type=quantity(parse_rate_bps),
        help="of the switch's machine; by default that of the four others together",
    )
    parser.add_argument("--mtu", type=int, default=1500, help="of the machines' links")
    parser.add_argument("--sizes", default=None, help="default 1MiB,16MiB; quick: 4MiB")
    parser.add_argument("--repetitions", type=int, help="default 9, quick: 5")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.switch_rate = arguments.switch_rate or arguments.rate * len(MACHINES)
    arguments.repetitions = arguments.repetitions or (5 if quick else 9)
    texts = (arguments.sizes or ("4MiB" if quick else "1MiB,16MiB")).split(",")
    sizes = {text: parse_size_bytes(text) for text in texts}
    # The ranks of both contenders share the processors.
    os.environ["OMP_NUM_THREADS"] = "1"
    benchmark = Benchmark("cluster", arguments, deadline_s=120 if quick else 600)

    async def measure(progress: ProgressBar) -> Figures:
        figures = await measure_all(arguments, sizes, progress)
        return figures | {
            "machines": len(MACHINES),
            "workers": WORKERS,
            "rate_bps": arguments.rate,
            "switch_rate_bps": arguments.switch_rate,
            "mtu_bytes": arguments.mtu,
            "repetitions": arguments.repetitions,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
