"""Processor time of the whole machine for an allreduce, beside Gloo and Open MPI.

python benchmarks/processor.py --json            1 KiB to 64 MiB: 12 minutes
python benchmarks/processor.py --quick --json    1 KiB to 4 MiB

Eight hosts on one switch: in network namespaces at 1 Gbit/s, and without a rate in namespaces and
in local mode. The time is all that /proc/stat does not count as idle (innet.lab.harness), so other
work on the machine makes it too long. A linear fit over the sizes divides it into a part of each
operation, of each packet that innet's nodes count, and of each byte. A part that the sizes cannot
tell apart from the others is missing there and contained in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from innet.lab.compare.launchers import missing_requirement
from innet.lab.compare.measurement import Comparison, Measurement
from innet.lab.compare.methods import BASELINES
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import Schedule, compare
from innet.node.node_config import Mode
from innet.topology import load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, measured
from shared.processor_fit import fit_processor_time

# The first two are one segment in memory: the others have packets in proportion to their bytes.
QUICK_SIZES_BYTES = (1 << 10, 32 << 10, 1 << 20, 4 << 20)
SIZES_BYTES = (*QUICK_SIZES_BYTES, 16 << 20, 64 << 20)
HEADLINE_BYTES, QUICK_HEADLINE_BYTES = 16 << 20, 4 << 20
OWN = ("inc", "ring", "halving-doubling")
PEERS = ("gloo", "openmpi", "openmpi-shared")


@dataclass(frozen=True)
class Network:
    """Links to measure over.

    Attributes:
        name: begins the keys of its figures.
        mode: of the comparison.
        rate_bps: of each link; ``None`` without a limit.
    """

    name: str
    mode: Mode
    rate_bps: float | None


NETWORKS = (
    Network("netns_1gbit", "netns", 1e9),
    Network("netns", "netns", None),
    Network("local", "local", None),
)


def main() -> None:
    """Measure and print."""
    parser = argument_parser("processor time of the whole machine for an allreduce on star8")
    parser.add_argument("--only", nargs="+", choices=[n.name for n in NETWORKS], metavar="NETWORK")
    parser.add_argument("--repetitions", type=int, help="default 5, quick: 3")
    arguments = parser.parse_args()
    networks = [n for n in NETWORKS if not arguments.only or n.name in arguments.only]
    schedule = Schedule(
        sizes_bytes=QUICK_SIZES_BYTES if arguments.quick else SIZES_BYTES,
        repetitions=arguments.repetitions or (3 if arguments.quick else 5),
    )
    benchmark = Benchmark("processor", arguments, deadline_s=120 if arguments.quick else 1200)

    async def measure(progress: ProgressBar) -> Figures:
        figures: Figures = {}
        headline_bytes = QUICK_HEADLINE_BYTES if arguments.quick else HEADLINE_BYTES
        for network in networks:
            comparison = await compare(
                load_topology("star8").with_overrides(rate_bps=network.rate_bps),
                mode=network.mode,
                algorithms=OWN,
                baselines=_peers(network),
                schedule=schedule,
                progress=progress,
                output=lambda _label, _line: None,
            )
            benchmark.show(comparison, f"-{network.name}")
            figures |= _figures(network, comparison, schedule.sizes_bytes)
        return figures | _headline(figures, networks[0], headline_bytes)

    benchmark.run(measure)


def _peers(network: Network) -> list[str]:
    peers = {name: missing_requirement(BASELINES[name].contender, network.mode) for name in PEERS}
    for name, lacking in peers.items():
        if lacking is not None:
            print(f"{network.name}: without {name}: {lacking}")
    return [name for name, lacking in peers.items() if lacking is None]


def _figures(network: Network, comparison: Comparison, sizes_bytes: Sequence[int]) -> Figures:
    figures: Figures = {}
    for method in comparison.methods:
        rows = [measured(comparison, (method,), size)[0] for size in sizes_bytes]
        key = f"{network.name}_{method.replace('-', '_')}"
        for row in rows:
            size = _label(row.size_bytes)
            figures[f"{key}_{size}_s"] = row.median_s
            figures[f"{key}_{size}_machine_cpu_s"] = row.machine_cpu_s
            figures[f"{key}_{size}_process_cpu_s"] = row.cpu_s
            if row.packets:
                figures[f"{key}_{size}_packets"] = row.packets
                figures[f"{key}_{size}_calls"] = row.calls
        figures |= _parts(key, rows)
    for size_bytes in sizes_bytes:
        own, gloo = (comparison.measurement(name, size_bytes) for name in ("inc", "gloo"))
        if own and gloo and own.machine_cpu_s and gloo.machine_cpu_s:
            ratio = own.machine_cpu_s / gloo.machine_cpu_s
            figures[f"{network.name}_{_label(size_bytes)}_cpu_ratio_to_gloo"] = ratio
    return figures


def _parts(key: str, rows: Sequence[Measurement]) -> Figures:
    """The parts of the time that the sizes tell apart, and their standard errors."""
    timed = [row for row in rows if row.machine_cpu_s]  # a short one may fall between two ticks
    if len(timed) < 2:
        return {}
    fit = fit_processor_time(
        [row.machine_cpu_s or 0.0 for row in timed],
        [row.packets for row in timed],
        [row.size_bytes for row in timed],
    )
    figures: Figures = {f"{key}_cpu_terms": "+".join(fit.parts_s)}
    for term, part_s in fit.parts_s.items():
        unit, units = ("mib", 1 << 20) if term == "byte" else (term, 1)
        figures[f"{key}_cpu_per_{unit}_s"] = part_s * units
        figures[f"{key}_cpu_per_{unit}_error_s"] = fit.errors_s[term] * units
    return figures


def _headline(figures: Figures, network: Network, size_bytes: int) -> Figures:
    """The figures that a reader looks for first, of one network and size."""
    size = _label(size_bytes)
    found = {
        f"{method}_machine_cpu_s": figures.get(f"{network.name}_{method}_{size}_machine_cpu_s")
        for method in ("inc", "gloo")
    }
    found["cpu_ratio_to_gloo"] = figures.get(f"{network.name}_{size}_cpu_ratio_to_gloo")
    return {"headline": f"{network.name}_{size}"} | {k: v for k, v in found.items() if v}


def _label(size_bytes: int) -> str:
    return f"{size_bytes >> 20}MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10}KiB"


if __name__ == "__main__":
    main()
