"""The same allreduces on small topologies in local mode, in network namespaces and simulated.

python benchmarks/sim_validation.py --quick --json
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from innet.compare.benchmark import Benchmark, Figures, argument_parser, measured
from innet.compare.machine import Machine
from innet.compare.measurement import Comparison
from innet.compare.progress import ProgressBar
from innet.compare.quantities import format_bytes, format_seconds
from innet.compare.schedule import Schedule
from innet.compare.sweep import WARM_UP_TURNS, compare
from innet.emulation.node_config import Mode
from innet.settings import Settings
from innet.simulation.experiment.outcome import outcome
from innet.simulation.experiment.sweep import make_tasks, sweep
from innet.simulation.workload import load_workload
from innet.topology import Topology, load_topology

ALGORITHMS = ("inc", "ring", "ps")
MODES: tuple[Mode, ...] = ("local", "netns")
AIM = 0.05
_RATE_BPS = 100e6
_REPETITIONS = 5


def main() -> None:
    """Measure and print."""
    parser = argument_parser("simulated times against those of local mode and network namespaces")
    parser.add_argument(
        "--topologies", nargs="+", help="default star:4 star:8 leaf-spine:2x2x2, quick: star:4"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    arguments = parser.parse_args()
    quick = arguments.quick
    names = arguments.topologies or (
        ["star:4"] if quick else ["star:4", "star:8", "leaf-spine:2x2x2"]
    )
    sizes_bytes = (1 << 20,) if quick else (1 << 20, 4 << 20)
    benchmark = Benchmark("sim_validation", arguments, deadline_s=120 if quick else 900)

    async def measure(progress: ProgressBar) -> Figures:
        pairs: list[Figures] = []
        for name in names:
            topology = load_topology(name).with_overrides(rate_bps=_RATE_BPS)
            for mode in arguments.modes:
                real = await compare(
                    topology,
                    mode=mode,
                    algorithms=ALGORITHMS,
                    baselines=(),
                    schedule=Schedule(sizes_bytes, _REPETITIONS),
                    progress=progress,
                    output=lambda _label, _line: None,
                )
                simulated = _simulated(_as_in(mode, topology), sizes_bytes)
                pairs += _pairs(topology, mode, sizes_bytes, real, simulated)
        _print(pairs)
        worst = max(pairs, key=lambda pair: abs(pair["difference"]))
        return {
            "largest_difference": abs(worst["difference"]),
            "largest_of": f"{worst['topology']} {worst['mode']} {worst['algorithm']}",
            "within_aim": sum(abs(pair["difference"]) <= AIM for pair in pairs),
            "pairs": pairs,
            "rate_bps": _RATE_BPS,
        }

    benchmark.run(measure)


def _as_in(mode: Mode, topology: Topology) -> Topology:
    """The topology as that mode has it: queues of the kernel mark nothing."""
    if mode == "local":
        return topology
    most_bytes = min(link.queue_bytes for link in topology.links)
    return topology.with_overrides(mark_bytes=most_bytes)


def _simulated(topology: Topology, sizes_bytes: tuple[int, ...]) -> Comparison:
    workload = load_workload(f"allreduce:4,warm-up={WARM_UP_TURNS + 1},repetitions={_REPETITIONS}")
    tasks = make_tasks(topology, workload, algorithms=ALGORITHMS, sizes_bytes=sizes_bytes)
    runs = sweep(tasks, processes=1, told=lambda _standing: None)
    return outcome(topology, workload.name, Settings(), Machine.here(), runs)


def _pairs(
    topology: Topology,
    mode: Mode,
    sizes_bytes: tuple[int, ...],
    real: Comparison,
    simulated: Comparison,
) -> list[Figures]:
    return [
        {
            "topology": topology.name,
            "mode": mode,
            "algorithm": there.method,
            "size_bytes": size_bytes,
            "real_s": there.median_s,
            "real_p10_s": there.p10_s,
            "real_p90_s": there.p90_s,
            "simulated_s": here.median_s,
            "bound_s": there.bound_s,
            "difference": here.median_s / there.median_s - 1.0,
        }
        for size_bytes in sizes_bytes
        for there, here in zip(
            measured(real, ALGORITHMS, size_bytes),
            measured(simulated, ALGORITHMS, size_bytes),
            strict=True,
        )
    ]


def _print(pairs: list[Figures]) -> None:
    table = Table(title=f"simulated by real time; aim: within {AIM:.0%}", title_justify="left")
    for heading in ("topology", "mode", "size", "algorithm", "real", "simulated", "difference"):
        table.add_column(heading)
    for pair in pairs:
        table.add_row(
            pair["topology"],
            pair["mode"],
            format_bytes(pair["size_bytes"]),
            pair["algorithm"],
            format_seconds(pair["real_s"]),
            format_seconds(pair["simulated_s"]),
            f"{pair['difference']:+.1%}",
            style="" if abs(pair["difference"]) <= AIM else "bold red",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
