"""Puts and gets of key-value blocks: innet's pool beside Redis and Mooncake's store.

python benchmarks/kv_store.py --json
python benchmarks/kv_store.py --machines --rate 10gbit --mtu 1500 --json

Every store has one client process and the blocks in another. Redis and Mooncake use TCP on the
loopback. innet has two hosts with an unshaped link between them, whose packets go through shared
memory; as ``innet_sockets`` the same over Unix sockets, where all bytes cross the kernel as the
peers' do. Clients take turns: in each, so many puts and gets one after the other (latency), and as
many with several outstanding (throughput). A turn's processor time is that of all of its calls.

innet has as many blocks outstanding as its pool's default window, 32 of 256 KiB or less. Each peer
has 8, 16 and 32 in every turn; its throughput is the best of these medians, for each size and call.

With ``--machines``, clients are on one machine and blocks on another. A machine is a network
namespace; the kernel may limit the rate of the link between them. innet runs in ``cluster`` mode.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import numpy as np
import psutil

from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec, SupervisedProcess
from innet.cluster.launch import Session
from innet.kv.pool import PoolSettings
from innet.lab.compare.progress import ProgressBar
from innet.lab.harness import Conductor, SessionRanks, Team, Turn, alternating
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.settings import Settings, TransportSettings
from innet.topology import Topology, parse_yaml
from shared.benchmark import Benchmark, Figures, argument_parser, quantity, quartiles
from shared.block_servers import (
    Place,
    client_command,
    missing_requirement,
    start_mooncake,
    start_nixl,
    start_redis,
)
from shared.block_stores import OWN as OWN_RANK
from shared.block_work import BlocksResult, BlocksTask
from shared.machines import Machines, machines_of

OWN = {"innet": True, "innet_sockets": False}
"""innet's pools, and whether their links are shared memory."""
PEERS = ("redis", "redis_connections", "mooncake", "nixl", "nixl_digest")
TURN_DEADLINE_S = 60.0
STORE_BYTES = 1 << 30
START_S = 60.0
CLIENTS, BLOCKS = "h0", "h1"
"""The machines of clients and of blocks."""
TOPOLOGY = """
name: two-hosts
topology:
  nodes: {h0: {kind: host, cache: 0B}, h1: {kind: host, cache: 0B}}
  links: [{endpoints: ["h0:eth0", "h1:eth0"], mtu: 65000}]
"""
CLUSTER = """
name: two-machines
topology:
  nodes: {h0: {kind: host, cache: 0B, machine: launcher}, h1: {kind: host, cache: 0B}}
  links: [{endpoints: ["h0:eth0", "h1:eth0"]}]
"""


async def join_peers(
    stack: AsyncExitStack, conductor: Conductor, peers: Sequence[str], machines: Machines | None
) -> list[Team]:
    """Start the peers' servers and clients, which end with the stack."""
    if machines is None:
        processes = ProcessGroup("kv-store", lambda _label, _line: None)
        stack.push_async_callback(processes.terminate)
        client = server = Place(processes.spawn)
    else:
        client, server = (_place(machines, machine) for machine in (CLIENTS, BLOCKS))
    addresses: dict[str, str] = {}
    if any(peer.startswith("redis") for peer in peers):
        addresses |= dict.fromkeys(("redis", "redis_connections"), await start_redis(server))
    if "mooncake" in peers:
        addresses["mooncake"] = await start_mooncake(server, STORE_BYTES)
    if any(peer.startswith("nixl") for peer in peers):
        addresses |= dict.fromkeys(("nixl", "nixl_digest"), await start_nixl(server, STORE_BYTES))
    for peer in peers:
        command = client_command(peer, conductor.path, addresses[peer], client.address)
        client.start(ProcessSpec(peer, command))
    return [await conductor.assemble(peer, 1, START_S) for peer in peers]


def _place(machines: Machines, machine: str) -> Place:
    def start(spec: ProcessSpec) -> SupervisedProcess:
        process = machines.start(machine, *spec.argv).process
        assert process is not None
        return process

    return Place(start, machines.address(machine))


async def join_own(stack: AsyncExitStack, conductor: Conductor, name: str, window: int) -> Team:
    """Launch innet's two hosts, which end with the stack."""
    session = await stack.enter_async_context(
        Session(
            parse_yaml(TOPOLOGY),
            settings=Settings(transport=TransportSettings(shared_memory=OWN[name])),
            output=lambda _label, _line: None,
        )
    )
    ranks = SessionRanks(session, _own_command(conductor, name, window))
    stack.push_async_callback(ranks.end)
    stack.callback(conductor.hang_up)
    await ranks.start()
    return await conductor.assemble(name, 1, START_S, ranks.job)


def _own_command(conductor: Conductor, name: str, window: int) -> tuple[str, ...]:
    return client_command(OWN_RANK, conductor.path, name, str(window), str(STORE_BYTES))


@asynccontextmanager
async def two_machines(rate_bps: float | None, mtu_bytes: int) -> AsyncIterator[Machines]:
    """Two machines with a link between them, and innet's network on them."""
    links: Topology = parse_yaml(TOPOLOGY).with_overrides(rate_bps=rate_bps, mtu_bytes=mtu_bytes)
    async with machines_of(links) as machines:
        await machines.launch(CLUSTER, CLIENTS, [BLOCKS])
        yield machines
        await machines.down(CLIENTS)


class Figuring:
    """Collects the turns of one store with blocks of one size."""

    def __init__(self, task: BlocksTask) -> None:
        self._outstanding = task.outstanding
        self._turn_bytes = task.block_bytes * task.blocks
        self._results: list[BlocksResult] = []
        self._machine_cpu_s: list[float] = []
        self._processes_cpu_s: list[float] = []

    def add(self, turn: Turn[BlocksResult], processes_cpu_s: float) -> None:
        """A turn, and the processor time of the store's own processes in it."""
        self._results.append(turn.results[0])
        self._machine_cpu_s.append(turn.machine_cpu_s)
        self._processes_cpu_s.append(processes_cpu_s)

    def figures(self, store: str, size: str) -> Figures:
        """Medians and quartiles over the turns; throughput with the best number outstanding."""
        found: Figures = {}
        for call in ("put", "get"):
            each_s = [getattr(result, f"{call}_s") for result in self._results]
            p50s_ms = [1e3 * statistics.median(durations_s) for durations_s in each_s]
            key = f"{store}_{call}_{size}"
            rates, outstanding = self._best_rates(call)
            if len(self._outstanding) > 1:
                found[f"{key}_outstanding"] = outstanding
            for what, values in (("MBps", rates), ("p50_ms", p50s_ms)):
                found[f"{key}_{what}"] = statistics.median(values)
                found[f"{key}_{what}_p25"], found[f"{key}_{what}_p75"] = quartiles(values)
            found[f"{key}_p99_ms"] = 1e3 * float(np.percentile(np.concatenate(each_s), 99))
        calls = 2 + 2 * len(self._outstanding)  # of each block
        us_per_mebibyte = 1e6 / (calls * self._turn_bytes / (1 << 20))
        for what, used_s in (("cpu", self._processes_cpu_s), ("machine_cpu", self._machine_cpu_s)):
            key = f"{store}_{size}_{what}_us_per_MiB"
            found[key] = us_per_mebibyte * statistics.median(used_s)
        return found

    def _best_rates(self, call: str) -> tuple[list[float], int]:
        """MB/s in each turn with the number outstanding whose median is the best; that number."""
        turns = [getattr(result, f"{call}_all_s") for result in self._results]
        of_numbers = [
            [self._turn_bytes / 1e6 / duration_s for duration_s in durations_s]
            for durations_s in zip(*turns, strict=True)
        ]
        return max(
            zip(of_numbers, self._outstanding, strict=True),
            key=lambda rates_with: statistics.median(rates_with[0]),
        )


def descendants_cpu_s() -> float:
    """Processor time of the processes of all stores so far; one of them is busy at a time.

    Other programs of the machine are not in it, and neither are the kernel's own threads.
    """
    used_s = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = process.cpu_times()
            used_s += times.user + times.system
    return used_s


async def take_turns(
    teams: Sequence[Team],
    sizes: Mapping[str, int],
    arguments: argparse.Namespace,
    progress: ProgressBar,
) -> Figures:
    """All stores in turns, size by size."""
    found: Figures = {}
    turns = arguments.turns + 1
    for place, (size, block_bytes) in enumerate(sizes.items()):
        blocks = max(*arguments.outstanding, arguments.bytes // block_bytes)
        tasks = {
            team.name: BlocksTask(
                block_bytes=block_bytes,
                blocks=blocks,
                outstanding=[arguments.window] if team.name in OWN else arguments.outstanding,
            )
            for team in teams
        }
        collected = {name: Figuring(task) for name, task in tasks.items()}
        for number, team in alternating(teams, lambda _: turns):
            progress((place + number / turns) / len(sizes), f"{size}, turn {number}")
            before_s = descendants_cpu_s()
            turn = await team.take_turn(tasks[team.name], BlocksResult, TURN_DEADLINE_S)
            if number > 0:  # the first makes all warm
                collected[team.name].add(turn, descendants_cpu_s() - before_s)
        for store, figuring in collected.items():
            found |= figuring.figures(store, size)
    return found


def best_of_redis(figures: Figures) -> Figures:
    """Of Redis' two ways to have several calls outstanding, the one with the better median."""
    best: Figures = {}
    for key, value in figures.items():
        other = figures.get(key.replace("redis_", "redis_connections_", 1))
        if key.endswith("_MBps") and other is not None and other > value:
            for suffix in ("", "_p25", "_p75"):
                better = key.replace("redis_", "redis_connections_", 1) + suffix
                best[key + suffix] = figures[better]
            number = key.removesuffix("MBps") + "outstanding"
            if number in figures:
                best[number] = figures[number.replace("redis_", "redis_connections_", 1)]
            best[f"{key}_by"] = "connections"
    return figures | best


def positive(text: str) -> int:
    """The type of arguments that count something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: it must be at least 1")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argument_parser("puts and gets of blocks: innet beside Redis and Mooncake's store")
    parser.add_argument(
        "--turns", type=positive, help="of each store and size; default 9, quick: 3"
    )
    parser.add_argument(
        "--outstanding",
        type=quantity(lambda text: [positive(number) for number in text.split(",")]),
        default=[8, 16, 32],
        help="numbers of a peer's calls at once, of which the best counts; default 8,16,32",
    )
    parser.add_argument(
        "--window",
        type=positive,
        default=PoolSettings.window,
        help=f"of innet's pool; default {PoolSettings.window}, as that of a pool",
    )
    parser.add_argument(
        "--bytes", type=positive, default=64 << 20, help="of the blocks of a turn; default 64 MiB"
    )
    parser.add_argument("--sizes", default="256KiB,2MiB", help="of blocks; default 256KiB,2MiB")
    parser.add_argument(
        "--machines", action="store_true", help="clients and blocks on two machines"
    )
    parser.add_argument(
        "--rate", type=quantity(parse_rate_bps), help="of the machines' link; default: none"
    )
    parser.add_argument("--mtu", type=int, default=1500, help="of the machines' link")
    choices = [*OWN, *PEERS]
    parser.add_argument("--without", nargs="*", default=[], choices=choices, help="left out")
    return parser


def main() -> None:
    """Measure and print."""
    arguments = _parser().parse_args()
    arguments.turns = arguments.turns or (3 if arguments.quick else 9)
    own = [name for name in OWN if name not in arguments.without]
    if arguments.machines:
        own = own[:1]  # links between machines are UDP
    sizes = {text: parse_size_bytes(text) for text in arguments.sizes.split(",")}
    benchmark = Benchmark("kv_store", arguments, deadline_s=900)
    lacking = {peer: missing_requirement(peer) for peer in PEERS if peer not in arguments.without}
    for reason in dict.fromkeys(filter(None, lacking.values())):
        print(f"left out: {reason}")
    peers = [peer for peer, reason in lacking.items() if reason is None]

    async def measure(progress: ProgressBar) -> Figures:
        async with AsyncExitStack() as stack:
            machines: Machines | None = None
            if arguments.machines:
                machines = await stack.enter_async_context(
                    two_machines(arguments.rate, arguments.mtu)
                )
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            conductor = await stack.enter_async_context(Conductor(directory / "turns.sock"))
            teams = []
            for name in own:
                if machines is None:
                    team = await join_own(stack, conductor, name, arguments.window)
                else:
                    machines.run(CLIENTS, *_own_command(conductor, name, arguments.window))
                    team = await conductor.assemble(name, 1, START_S)
                teams.append(team)
            teams += await join_peers(stack, conductor, peers, machines)
            figures = best_of_redis(await take_turns(teams, sizes, arguments, progress))
        link = {"rate_bps": arguments.rate, "mtu_bytes": arguments.mtu}
        return (
            figures
            | (link if arguments.machines else {})
            | {
                "turns": arguments.turns,
                "outstanding": ",".join(map(str, arguments.outstanding)),
                "window": arguments.window,
                "versions": {team.name: team.version for team in teams},
            }
        )

    benchmark.run(measure)


if __name__ == "__main__":
    main()
