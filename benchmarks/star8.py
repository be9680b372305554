"""Eight hosts on one switch: innet's algorithms against Gloo over the same kernel-shaped links.

python benchmarks/star8.py --rate 200mbit --size 16MiB --json
"""

from __future__ import annotations

from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import Schedule, compare
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.topology import load_topology
from shared.benchmark import (
    Benchmark,
    Figures,
    argument_parser,
    measured,
    quantity,
)

OWN = ("inc", "ring", "ps")
PEERS = ("gloo", "gloo-push")


def main() -> None:
    """Measure and print."""
    parser = argument_parser("innet against Gloo on star8, in network namespaces")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="200mbit")
    parser.add_argument(
        "--size", type=quantity(parse_size_bytes), help="default 16MiB, quick: 4MiB"
    )
    parser.add_argument("--repetitions", type=int, help="default 5, quick: 3")
    arguments = parser.parse_args()
    size_bytes = arguments.size or (4 << 20 if arguments.quick else 16 << 20)
    repetitions = arguments.repetitions or (3 if arguments.quick else 5)
    benchmark = Benchmark("star8", arguments, deadline_s=300 if arguments.quick else 1200)

    async def measure(progress: ProgressBar) -> Figures:
        comparison = await compare(
            load_topology("star8").with_overrides(rate_bps=arguments.rate),
            mode="netns",
            algorithms=OWN,
            baselines=PEERS,
            schedule=Schedule(sizes_bytes=(size_bytes,), repetitions=repetitions),
            progress=progress,
            output=lambda _label, _line: None,
        )
        benchmark.show(comparison)
        rows = measured(comparison, (*OWN, *PEERS), size_bytes)
        by_method = {m.method.replace("-", "_"): m for m in rows}
        own, peer = by_method["inc"], by_method["gloo"]
        return {
            **{f"{name}_s": m.median_s for name, m in by_method.items()},
            **{f"{name}_p10_s": m.p10_s for name, m in by_method.items()},
            **{f"{name}_p90_s": m.p90_s for name, m in by_method.items()},
            "bound_s": own.bound_s,
            "inc_ratio_to_bound": own.ratio_to_bound,
            "inc_speedup_vs_gloo": peer.median_s / own.median_s,
            "rate_bps": arguments.rate,
            "size_bytes": size_bytes,
            "repetitions": repetitions,
            "signature": comparison.signature,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
