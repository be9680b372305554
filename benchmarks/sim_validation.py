"""The same allreduces on small topologies in local mode, in network namespaces and simulated.

python benchmarks/sim_validation.py --quick --json
"""

from __future__ import annotations

import asyncio

from rich.console import Console
from rich.table import Table

from innet.compare.benchmark import Benchmark, Figures, argument_parser, measured, quantity
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
from innet.topology.quantities import parse_rate_bps

ALGORITHMS = ("inc", "ring", "ps")
MODES: tuple[Mode, ...] = ("local", "netns")
AIM = 0.05
_REPETITIONS = 5
_FITTED_BYTES = 512 << 10
_LATENESSES_S = (0.0, 25e-6, 50e-6, 100e-6, 200e-6, 300e-6, 400e-6, 500e-6, 650e-6, 800e-6)


def main() -> None:
    """Measure and print."""
    parser = argument_parser("simulated times against those of local mode and network namespaces")
    parser.add_argument(
        "--topologies", nargs="+", help="default star:4 star:8 leaf-spine:2x2x2, quick: star:4"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="100mbit")
    arguments = parser.parse_args()
    quick = arguments.quick
    names = arguments.topologies or (
        ["star:4"] if quick else ["star:4", "star:8", "leaf-spine:2x2x2"]
    )
    sizes_bytes = (_FITTED_BYTES, (1 if quick else 4) << 20)
    benchmark = Benchmark("sim_validation", arguments, deadline_s=120 if quick else 900)

    async def measure(progress: ProgressBar) -> Figures:
        pairs: list[Figures] = []
        for name in names:
            topology = load_topology(name).with_overrides(rate_bps=arguments.rate)
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
                late = await asyncio.to_thread(_late, topology, mode, real, _FITTED_BYTES)
                simulated = await asyncio.to_thread(_simulated, late, mode, sizes_bytes)
                pairs += _pairs(late, mode, sizes_bytes, real, simulated)
        _print(pairs)
        predicted = [pair for pair in pairs if not pair["fitted"]]
        worst = max(predicted, key=lambda pair: abs(pair["difference"]))
        return {
            "largest_difference": abs(worst["difference"]),
            "largest_of": f"{worst['topology']} {worst['mode']} {worst['algorithm']}",
            "predicted": len(predicted),
            "within_aim": sum(abs(pair["difference"]) <= AIM for pair in predicted),
            "pairs": pairs,
            "rate_bps": arguments.rate,
        }

    benchmark.run(measure)


def _late(topology: Topology, mode: Mode, real: Comparison, size_bytes: int) -> Topology:
    """The topology with links whose jitter is how late this machine's processes are.

    Many processes share few cores, and each wakes up some time after its packets have come. That
    is one number, which is fitted at the smallest size; larger ones are predicted with it.
    """

    def distance(jitter_s: float) -> float:
        late = topology.with_overrides(jitter_s=jitter_s)
        simulated = _simulated(late, mode, (size_bytes,))
        pairs = _pairs(late, mode, (size_bytes,), real, simulated)
        return max(abs(float(pair["difference"])) for pair in pairs)

    best_s = min(_LATENESSES_S, key=distance)
    return topology.with_overrides(jitter_s=best_s)


def _simulated(topology: Topology, mode: Mode, sizes_bytes: tuple[int, ...]) -> Comparison:
    workload = load_workload(f"allreduce:4,warm-up={WARM_UP_TURNS + 1},repetitions={_REPETITIONS}")
    tasks = make_tasks(
        topology, workload, algorithms=ALGORITHMS, sizes_bytes=sizes_bytes, like=mode
    )
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
            "lateness_s": topology.links[0].jitter_s,
            "fitted": size_bytes == _FITTED_BYTES,
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
    for heading in ("topology", "mode", "size", "algorithm", "real", "simulated", "late",
                    "difference"):  # fmt: skip
        table.add_column(heading)
    for pair in pairs:
        table.add_row(
            pair["topology"],
            pair["mode"],
            format_bytes(pair["size_bytes"]),
            pair["algorithm"],
            format_seconds(pair["real_s"]),
            format_seconds(pair["simulated_s"]),
            format_seconds(pair["lateness_s"]),
            f"{pair['difference']:+.1%}{' (fitted)' if pair['fitted'] else ''}",
            style="" if abs(pair["difference"]) <= AIM else "bold red",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
