"""Puts and gets of key-value blocks: innet's pool beside Redis and Mooncake's store.

python benchmarks/kv_store.py --json

Every store has one client process and the blocks in another. Redis and Mooncake use TCP on the
loopback. innet has two hosts with an unshaped link between them, whose packets go through shared
memory; as ``innet_sockets`` the same over Unix sockets, where all bytes cross the kernel as the
peers' do. Clients take turns: in each, so many puts and gets one after the other (latency), and as
many with several outstanding (throughput).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec
from innet.cluster.launch import Session
from innet.lab.compare.progress import ProgressBar
from innet.lab.harness import Conductor, SessionRanks, Team, alternating
from innet.settings import Settings, TransportSettings
from innet.topology import parse_yaml
from shared.benchmark import Benchmark, Figures, argument_parser
from shared.block_stores import OWN as OWN_RANK
from shared.block_stores import (
    BlocksResult,
    BlocksTask,
    client_command,
    missing_requirement,
    start_mooncake,
    start_redis,
)

SIZES = {"256KiB": 256 << 10, "2MiB": 2 << 20}
OWN = {"innet": True, "innet_sockets": False}
"""innet's pools, and whether their links are shared memory."""
PEERS = ("redis", "redis_connections", "mooncake")
TURN_DEADLINE_S = 60.0
STORE_BYTES = 1 << 30
START_S = 60.0
TOPOLOGY = """
name: two-hosts
topology:
  nodes: {h0: {kind: host, cache: 0B}, h1: {kind: host, cache: 0B}}
  links: [{endpoints: ["h0:eth0", "h1:eth0"], mtu: 65000}]
"""


async def join_peers(
    stack: AsyncExitStack, conductor: Conductor, peers: Sequence[str]
) -> list[Team]:
    """Start the peers' servers and clients, which end with the stack."""
    processes = ProcessGroup("kv-store", lambda _label, _line: None)
    stack.push_async_callback(processes.terminate)
    arguments: dict[str, str] = {}
    if any(peer.startswith("redis") for peer in peers):
        arguments |= dict.fromkeys(("redis", "redis_connections"), await start_redis(processes))
    if "mooncake" in peers:
        arguments["mooncake"] = await start_mooncake(processes, STORE_BYTES)
    for peer in peers:
        command = client_command(peer, conductor.path, arguments[peer])
        processes.spawn(ProcessSpec(peer, command))
    return [await conductor.assemble(peer, 1, START_S) for peer in peers]


async def join_own(
    stack: AsyncExitStack, conductor: Conductor, name: str, outstanding: int
) -> Team:
    """Launch innet's two hosts, which end with the stack."""
    session = await stack.enter_async_context(
        Session(
            parse_yaml(TOPOLOGY),
            settings=Settings(transport=TransportSettings(shared_memory=OWN[name])),
            output=lambda _label, _line: None,
        )
    )
    arguments = (name, str(outstanding), str(STORE_BYTES))
    ranks = SessionRanks(session, client_command(OWN_RANK, conductor.path, *arguments))
    stack.push_async_callback(ranks.end)
    stack.callback(conductor.hang_up)
    await ranks.start()
    return await conductor.assemble(name, 1, START_S, ranks.job)


class Figuring:
    """Collects the results of one store with blocks of one size."""

    def __init__(self, block_bytes: int, blocks: int) -> None:
        self._turn_bytes = block_bytes * blocks
        self._results: list[BlocksResult] = []

    def add(self, result: BlocksResult) -> None:
        """A turn's result."""
        self._results.append(result)

    def figures(self, store: str, size: str) -> Figures:
        """Medians, and the quartiles over the turns."""
        found: Figures = {}
        for call in ("put", "get"):
            all_s = [getattr(result, f"{call}_all_s") for result in self._results]
            each_s = [getattr(result, f"{call}_s") for result in self._results]
            rates = [self._turn_bytes / 1e6 / duration_s for duration_s in all_s]
            p50s_ms = [1e3 * statistics.median(durations_s) for durations_s in each_s]
            for what, values in (("MBps", rates), ("p50_ms", p50s_ms)):
                key = f"{store}_{call}_{size}_{what}"
                found[key] = statistics.median(values)
                found[f"{key}_p25"], found[f"{key}_p75"] = _quartiles(values)
        return found


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 4:
        return min(values), max(values)
    first, _, third = statistics.quantiles(values, n=4)
    return first, third


async def take_turns(
    teams: Sequence[Team], arguments: argparse.Namespace, progress: ProgressBar
) -> Figures:
    """All stores in turns, size by size."""
    found: Figures = {}
    turns = arguments.turns + 1
    for place, (size, block_bytes) in enumerate(SIZES.items()):
        blocks = max(arguments.outstanding, arguments.bytes // block_bytes)
        collected = {team.name: Figuring(block_bytes, blocks) for team in teams}
        task = BlocksTask(block_bytes=block_bytes, blocks=blocks, outstanding=arguments.outstanding)
        for number, team in alternating(teams, lambda _: turns):
            progress((place + number / turns) / len(SIZES), f"{size}, turn {number}")
            turn = await team.take_turn(task, BlocksResult, TURN_DEADLINE_S)
            if number > 0:  # the first makes all warm
                collected[team.name].add(turn.results[0])
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
            best[f"{key}_by"] = "connections"
    return figures | best


def positive(text: str) -> int:
    """The type of arguments that count something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: it must be at least 1")
    return number


def main() -> None:
    """Measure and print."""
    parser = argument_parser("puts and gets of blocks: innet beside Redis and Mooncake's store")
    parser.add_argument(
        "--turns", type=positive, help="of each store and size; default 9, quick: 3"
    )
    parser.add_argument("--outstanding", type=positive, default=8, help="for throughput; default 8")
    parser.add_argument(
        "--bytes", type=positive, default=64 << 20, help="of the blocks of a turn; default 64 MiB"
    )
    choices = [*OWN, *PEERS]
    parser.add_argument("--without", nargs="*", default=[], choices=choices, help="left out")
    arguments = parser.parse_args()
    arguments.turns = arguments.turns or (3 if arguments.quick else 9)
    own = [name for name in OWN if name not in arguments.without]
    benchmark = Benchmark("kv_store", arguments, deadline_s=900)
    lacking = {peer: missing_requirement(peer) for peer in PEERS if peer not in arguments.without}
    for reason in dict.fromkeys(filter(None, lacking.values())):
        print(f"left out: {reason}")
    peers = [peer for peer, reason in lacking.items() if reason is None]

    async def measure(progress: ProgressBar) -> Figures:
        async with AsyncExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            conductor = await stack.enter_async_context(Conductor(directory / "turns.sock"))
            teams = [
                *[await join_own(stack, conductor, name, arguments.outstanding) for name in own],
                *await join_peers(stack, conductor, peers),
            ]
            figures = best_of_redis(await take_turns(teams, arguments, progress))
        return figures | {
            "turns": arguments.turns,
            "outstanding": arguments.outstanding,
            "versions": {team.name: team.version for team in teams},
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
