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
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.errors import EmulationError
from innet.lab.compare.contender import ADDRESS_VARIABLE, AllreduceResult, AllreduceTask
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import WARM_UP_TURNS
from innet.lab.harness import Conductor, Team
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.topology import Link, Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

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
_INNET: Final = (sys.executable, "-m", "innet")
_CONTENDER: Final = ("-m", "innet.lab.compare.contender")
_LISTEN_PORT: Final = 4711
_GLOO_PORT: Final = 29600
_DEADLINE_S: Final = 90.0
# Of the namespace, as a node; a machine's own programs know nothing of it.
_VARIABLES: Final = ("INNET_NODE", "INNET_NODE_CONFIG", "INNET_RUN_ID")


def machines_of(rate_bps: float, switch_rate_bps: float, mtu_bytes: int) -> Topology:
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


@dataclass
class Program:
    """A program on a machine, and what it has printed."""

    lines: list[str] = field(default_factory=list)
    printed: asyncio.Event = field(default_factory=asyncio.Event)
    process: SupervisedProcess | None = None

    def take(self, _label: str, line: str) -> None:
        """Take a line that it prints."""
        self.lines.append(line)
        self.printed.set()

    async def says(self, text: str) -> None:
        """Wait until it has printed ``text``.

        Raises:
            EmulationError: it has ended before.
        """
        assert self.process is not None
        ended = asyncio.ensure_future(self.process.wait())
        while not any(text in line for line in self.lines):
            if ended.done():
                raise EmulationError(f"{self.process.describe()}: {'; '.join(self.lines[-5:])}")
            self.printed.clear()
            printed = asyncio.ensure_future(self.printed.wait())
            await asyncio.wait([printed, ended], return_when=asyncio.FIRST_COMPLETED)
            printed.cancel()
        ended.cancel()


class Cluster:
    """The machines, innet's network on them, and the ranks of both contenders."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self._labels = count(1)

    def start(self, machine: str, *argv: str, **environment: str) -> Program:
        """Start a program on a machine, which has a registry of its own."""
        runtime = self.folder / machine
        runtime.mkdir(mode=0o700, exist_ok=True)
        program = Program()
        variables = {"XDG_RUNTIME_DIR": str(runtime), **environment}
        drop = [part for name in _VARIABLES for part in ("-u", name)]
        spec = ProcessSpec(
            f"{machine}.{next(self._labels)}", ("env", *drop, *argv), environment=variables
        )
        program.process = self.network.start(machine, spec, program.take)
        return program

    def address(self, machine: str) -> str:
        """The address of a machine."""
        return str(self.network.config(machine).ip_address)

    async def launch(self) -> None:
        """Bring up innet's network, and join it on each machine."""
        (self.folder / "bench.yaml").write_text(cluster_file())
        listen, token = f"{self.address(LAUNCHER)}:{_LISTEN_PORT}", self.folder / "token"
        up = self.start(
            *(LAUNCHER, *_INNET, "up", str(self.folder / "bench.yaml"), "--listen", listen),
            *("--token-file", str(token), "--name", "bench"),
        )
        await up.says("0 of")
        for machine in MACHINES:
            own = self.folder / machine / "token"
            own.parent.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(token, own)
            join = ("node", "join", listen, "--token-file", str(own), "--name", machine)
            self.start(machine, *_INNET, *join)
        await up.says("is up")

    def start_ranks(self, contender: str, socket: Path) -> None:
        """Start the ranks of a contender, which join the conductor at ``socket``."""
        calls = [call for of, call in METHODS.values() if of == contender]
        rank = (*_CONTENDER, contender, str(socket), *calls)
        if contender == "innet":
            job = ("run", "--on", "bench", "--", "python", *rank)
            self.start(LAUNCHER, *_INNET, *job)
            return
        for number in range(RANKS):
            machine = MACHINES[number // WORKERS]
            variables = {
                "RANK": str(number),
                "WORLD_SIZE": str(RANKS),
                "MASTER_ADDR": self.address(MACHINES[0]),
                "MASTER_PORT": str(_GLOO_PORT),
                ADDRESS_VARIABLE: self.address(machine),
            }
            self.start(machine, sys.executable, *rank, **variables)

    async def link_bytes(self) -> dict[tuple[str, str], int]:
        """What the kernel has sent on each machine's link so far, out of it and into it."""
        found = {}
        for direction, counters in (await self.network.link_counters()).items():
            if direction.node in MACHINES:
                found[direction.node, "out"] = counters.bytes
            elif direction.peer in MACHINES:
                found[direction.peer, "in"] = counters.bytes
        return found

    async def down(self) -> None:
        """Take innet's network down."""
        down = self.start(LAUNCHER, *_INNET, "down", "bench")
        assert down.process is not None
        await down.process.wait()


@asynccontextmanager
async def cluster(machines: Topology) -> AsyncIterator[Cluster]:
    """Machines with innet's network on them."""
    # Short enough for the paths of sockets.
    with tempfile.TemporaryDirectory(prefix="innet-b-") as folder:
        async with Network(machines, "netns") as network:
            opened = Cluster(network, Path(folder))
            await opened.launch()
            yield opened
            await opened.down()


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
    machines = machines_of(arguments.rate, arguments.switch_rate, arguments.mtu)
    async with cluster(machines) as there:
        socket = there.folder / "turns"
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
