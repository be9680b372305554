"""How much slower `auto` is than the best algorithm, over networks and sizes.

python benchmarks/auto.py --json            4 KiB to 64 MiB on eight networks: 15 minutes
python benchmarks/auto.py --quick --json    4 KiB, 64 KiB and 1 MiB on two networks

`NETWORK_SIZE_auto_ratio` compares the median of `auto` with that of the fastest algorithm, `auto`
included. Of two medians of one algorithm, one is always slower: `NETWORK_SIZE_choice_ratio` has in
place of `auto` the algorithm that it chose, measured as itself. Both contain the machine's noise;
where the choice is the best, the first ratio is that noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from innet.cluster.launch.calibration import machine_speed
from innet.cluster.launch.network_costs import network_costs
from innet.lab.compare.measurement import Comparison
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import Schedule, compare
from innet.node.node_config import Mode
from innet.plans import PlanChooser
from innet.quantities import parse_size_bytes
from innet.settings import Settings
from innet.topology import Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, measured

SIZES = ("4KiB", "64KiB", "1MiB", "16MiB", "64MiB")
QUICK_SIZES = SIZES[:3]
QUICK_NETWORKS = ("star8_local", "star8_netns_hosts_add")
ALGORITHMS = ("inc", "ring", "halving-doubling", "ps")


@dataclass(frozen=True)
class Network:
    """A network to compare on.

    Attributes:
        topology: a shipped topology or a generator.
        mode: of the launch.
        rate_bps: of each link; ``None`` without a limit.
        slots: of each switch; 0: hosts add.
    """

    topology: str
    mode: Mode
    rate_bps: float | None = None
    slots: int | None = None

    def load(self) -> Topology:
        """The topology with these links and switches."""
        loaded = load_topology(self.topology).with_overrides(rate_bps=self.rate_bps)
        return loaded if self.slots is None else loaded.with_overrides(slots=self.slots)


NETWORKS: Mapping[str, Network] = {
    "star8_local": Network("star8", "local"),
    "star8_netns": Network("star8", "netns"),
    "star8_netns_1gbit": Network("star8", "netns", 1e9),
    "star4_netns": Network("star:4", "netns"),
    "leafspine8_netns": Network("leaf-spine:4x2x2", "netns"),
    "star8_local_hosts_add": Network("star8", "local", slots=0),
    "star8_netns_hosts_add": Network("star8", "netns", slots=0),
    "star8_netns_1gbit_hosts_add": Network("star8", "netns", 1e9, slots=0),
}


def main() -> None:
    """Measure and print."""
    parser = argument_parser("how much slower auto is than the best algorithm")
    parser.add_argument("--only", nargs="+", choices=NETWORKS, metavar="NETWORK")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, metavar="SIZE")
    parser.add_argument("--repetitions", type=int, help="by default 3 to 30, by time; quick: 3")
    arguments = parser.parse_args()
    names = arguments.only or (QUICK_NETWORKS if arguments.quick else tuple(NETWORKS))
    sizes = arguments.sizes or (QUICK_SIZES if arguments.quick else SIZES)
    schedule = Schedule(
        sizes_bytes=tuple(parse_size_bytes(size) for size in sizes),
        repetitions=arguments.repetitions or (3 if arguments.quick else None),
    )
    benchmark = Benchmark("auto", arguments, deadline_s=120 if arguments.quick else 2400)

    async def measure(progress: ProgressBar) -> Figures:
        figures: Figures = {}
        for name in names:
            network = NETWORKS[name]
            comparison = await compare(
                network.load(),
                mode=network.mode,
                algorithms=(*ALGORITHMS, "auto"),
                baselines=(),
                schedule=schedule,
                progress=progress,
                output=lambda _label, _line: None,
            )
            benchmark.show(comparison, f"-{name}")
            figures |= _figures(name, network, comparison, sizes)
        return figures | _worst(figures, "auto") | _worst(figures, "choice")

    benchmark.run(measure)


def _figures(name: str, network: Network, comparison: Comparison, sizes: Sequence[str]) -> Figures:
    topology = network.load()
    costs = network_costs(topology, network.mode, Settings(), machine_speed())
    chooser = PlanChooser(topology, topology.hosts, processor=costs)
    figures: Figures = {}
    for size in sizes:
        size_bytes = parse_size_bytes(size)
        chosen = chooser.choose(size_bytes).plan.algorithm
        rows = measured(comparison, (*ALGORITHMS, "auto"), size_bytes)
        times_s = {row.method: row.median_s for row in rows}
        best_s = min(times_s.values())
        key = f"{name}_{size}"
        figures[f"{key}_chosen"] = chosen
        figures[f"{key}_best"] = min(ALGORITHMS, key=times_s.__getitem__)
        figures[f"{key}_auto_ratio"] = times_s["auto"] / best_s
        figures[f"{key}_choice_ratio"] = times_s[chosen] / min(times_s[a] for a in ALGORITHMS)
    return figures


def _worst(figures: Figures, kind: str) -> Figures:
    ratios = {key: value for key, value in figures.items() if key.endswith(f"_{kind}_ratio")}
    worst = max(ratios, key=ratios.__getitem__)
    return {
        f"worst_{kind}_ratio": ratios[worst],
        f"worst_{kind}_ratio_of": worst.removesuffix(f"_{kind}_ratio"),
    }


if __name__ == "__main__":
    main()
