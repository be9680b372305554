"""How near each method comes to its bound on regular networks without loss, simulated.

python benchmarks/sweep.py --json           every case of at most a million packets: an hour
python benchmarks/sweep.py --quick --json   two minutes at most
python benchmarks/sweep.py --results FILE   the same, and continues where an earlier run ended

The bound is completion_bound_s of innet.plans.completion: the payload that the links carry, with
the latency of the requests and answers that wait for each other; see docs/bounds.md. Networks have
the default queues and links of 1 µs. The figures end with the worst ratio of each method and its
case. The ratio to the time of the bytes alone (innet.plans.bound_s) is told beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path

import innet
from innet.cluster.emulation.segmentation import segment_bytes
from innet.collectives import Communicator
from innet.lab.compare.progress import ProgressBar
from innet.plans import bound_s
from innet.plans.completion import completion_bound_s
from innet.quantities import format_rate, format_size
from innet.topology import Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser

METHODS = ("ring", "halving-doubling", "ps", "inc")
TOPOLOGIES = (
    *("star:8", "leaf-spine:2x2x4", "fat-tree:4", "star:32", "leaf-spine:8x4x8", "star:64"),
    *("fat-tree:8", "star:256", "leaf-spine:16x8x16", "fat-tree:16", "star:1024"),
)
RATES_BPS = (1e9, 10e9, 100e9)
SIZES_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
QUICK_TOPOLOGIES = ("star:8", "leaf-spine:2x2x4", "star:32", "fat-tree:8")
QUICK_RATES_BPS = (1e9, 100e9)
DELAY_S = 1e-6
VIRTUAL_SCALE = 16
"""Packets hold a 16th of their bytes: 64 MiB on 36 nodes would need 13 GB of memory."""

MOST_PACKETS = 1e6
QUICK_MOST_PACKETS = 2e5
"""Of one case, by estimate; larger ones are left out, and counted."""
PACKETS_PER_SEGMENT_AND_HOST = 8
MOST_HOSTS_IN_A_RING = 512
"""The plan of a ring has as many rules as pairs of hosts, which a larger one takes minutes for."""


@dataclass(frozen=True)
class Case:
    """One allreduce."""

    topology: str
    method: str
    size_bytes: int
    rate_bps: float

    def __str__(self) -> str:
        size, rate = format_size(self.size_bytes), format_rate(self.rate_bps)
        return f"{self.method} {size} {self.topology} {rate}"


@dataclass(frozen=True)
class Result:
    """The result of one case, and the bounds that it is compared with."""

    case: Case
    took_s: float
    bound_s: float
    transfer_s: float
    drops: int
    resent: int

    @property
    def over_bound(self) -> float:
        """At least 1."""
        return self.took_s / self.bound_s


def cases(quick: bool) -> Iterator[Case]:
    """Every case, whether it fits or not."""
    topologies = QUICK_TOPOLOGIES if quick else TOPOLOGIES
    rates_bps = QUICK_RATES_BPS if quick else RATES_BPS
    for case in product(topologies, METHODS, SIZES_BYTES, rates_bps):
        yield Case(*case)


@cache
def load_network(topology: str, rate_bps: float) -> Topology:
    """The network of a case."""
    return load_topology(topology).with_overrides(rate_bps=rate_bps, delay_s=DELAY_S)


def estimated_packets(case: Case) -> float:
    """Packets that the links of the case carry; infinite where its plan takes too long."""
    topology = load_network(case.topology, case.rate_bps)
    hosts = len(topology.hosts)
    if case.method == "ring" and hosts > MOST_HOSTS_IN_A_RING:
        return float("inf")
    segments = -(-case.size_bytes // segment_bytes(topology))
    return segments * hosts * PACKETS_PER_SEGMENT_AND_HOST


def chosen_cases(only: str, quick: bool) -> tuple[list[Case], int]:
    """The cases that contain ``only`` and are small enough, and the number of the others.

    Ordered by hosts, then by packets, so that the quick ones come first.
    """
    packets = {case: estimated_packets(case) for case in cases(quick) if only in str(case)}
    most_packets = QUICK_MOST_PACKETS if quick else MOST_PACKETS
    chosen = [case for case in packets if packets[case] <= most_packets]
    hosts = {case: len(load_network(case.topology, case.rate_bps).hosts) for case in chosen}
    chosen.sort(key=lambda case: (hosts[case], packets[case]))
    return chosen, len(packets) - len(chosen)


def load_results(path: Path | None) -> dict[Case, Result]:
    """The results that earlier runs wrote to ``path``."""
    if path is None or not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    results = (Result(Case(**line.pop("case")), **line) for line in lines)
    return {result.case: result for result in results}


def save_result(path: Path | None, result: Result) -> None:
    """Append a line of JSON to ``path``."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def run(case: Case) -> Result:
    """Simulate one case."""
    topology = load_network(case.topology, case.rate_bps)
    with innet.Simulation(topology, virtual_scale=VIRTUAL_SCALE) as sim:
        group = sim.group(algorithm=case.method)

        async def program(communicator: Communicator) -> None:
            array = sim.array(case.size_bytes)
            await communicator.iallreduce(array, out=array)

        sim.run(*map(program, group))
        plan = group[0].plan_for(case.size_bytes)
        statuses = [node.status() for node in sim.network.nodes.values()]
        links = sim.network.link_counters().values()
        return Result(
            case,
            took_s=sim.now_s,
            bound_s=completion_bound_s(plan, topology, case.size_bytes, segment_bytes(topology)),
            transfer_s=bound_s(plan, topology, case.size_bytes),
            drops=sum(link["dropped_queue"] for link in links),
            resent=sum(
                status["endpoint"]["retransmissions_by_gap"]
                + status["endpoint"]["retransmissions_by_timeout"]
                + status["reducer"]["operand_retransmissions"]
                for status in statuses
            ),
        )


def show(result: Result) -> None:
    """Print a line about one case."""
    print(
        f"{result.case!s:45} {result.took_s * 1e3:10.3f} ms  {result.over_bound:6.3f} of the "
        f"bound, {result.took_s / result.transfer_s:7.2f} of the bytes alone, "
        f"{result.drops} dropped, {result.resent} resent",
        flush=True,
    )


def figures(results: list[Result], left_out: int) -> Figures:
    """The worst of each method, and what was lost."""
    found: Figures = {"cases": len(results), "left_out": left_out}
    for method in METHODS:
        key = method.replace("-", "_")
        of_method = [result for result in results if result.case.method == method]
        if not of_method:
            continue
        worst = max(of_method, key=lambda result: result.over_bound)
        found[f"worst_{key}_over_bound"] = round(worst.over_bound, 4)
        found[f"worst_{key}_case"] = str(worst.case)
        found[f"worst_{key}_over_bytes_alone"] = round(worst.took_s / worst.transfer_s, 4)
    found["drops"] = sum(result.drops for result in results)
    found["resent"] = sum(result.resent for result in results)
    return found


def main() -> None:
    """Simulate every case that fits."""
    parser = argument_parser("simulated time over its lower bound, for each method and network")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="append results there; skip cases it has"
    )
    arguments = parser.parse_args()
    benchmark = Benchmark("sweep", arguments, deadline_s=600 if arguments.quick else 7200)

    async def measure(progress: ProgressBar) -> Figures:
        chosen, left_out = chosen_cases(arguments.only, arguments.quick)
        known = load_results(arguments.results)
        results: list[Result] = []
        for number, case in enumerate(chosen):
            progress(number / len(chosen), str(case))
            if case not in known:
                known[case] = await asyncio.to_thread(run, case)
                save_result(arguments.results, known[case])
            results.append(known[case])
            show(known[case])
        return figures(results, left_out)

    benchmark.run(measure)


if __name__ == "__main__":
    main()
