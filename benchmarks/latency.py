"""1 KiB on eight hosts whose links have no rate: innet against Gloo, and Open MPI if it is there.

python benchmarks/latency.py --json
"""

from __future__ import annotations

from innet.lab.compare.launchers import missing_requirement
from innet.lab.compare.methods import BASELINES
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import Schedule, compare
from innet.topology import load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, measured

SIZE_BYTES = 1024


def main() -> None:
    """Measure and print."""
    parser = argument_parser("latency of a 1 KiB allreduce on 8 unshaped hosts, in namespaces")
    parser.add_argument("--algorithm", default="inc", help="of innet, default inc")
    arguments = parser.parse_args()
    benchmark = Benchmark("latency", arguments, deadline_s=300)
    lacking = missing_requirement(BASELINES["openmpi"].contender, "netns")
    peers = {"gloo": "gloo"} | ({} if lacking else {"openmpi": "openmpi"})
    if lacking:
        print(f"without Open MPI: {lacking}")

    async def measure(progress: ProgressBar) -> Figures:
        comparison = await compare(
            load_topology("star8").with_overrides(rate_bps=None),
            mode="netns",
            algorithms=(arguments.algorithm,),
            baselines=tuple(peers),
            schedule=Schedule(sizes_bytes=(SIZE_BYTES,), repetitions=10 if arguments.quick else 30),
            progress=progress,
            output=lambda _label, _line: None,
        )
        benchmark.show(comparison)
        keys = {arguments.algorithm: "innet", **peers}
        rows = measured(comparison, tuple(keys), SIZE_BYTES)
        return {
            **{f"{keys[m.method]}_1KiB_ms": 1e3 * m.median_s for m in rows},
            **{f"{keys[m.method]}_1KiB_p10_ms": 1e3 * m.p10_s for m in rows},
            **{f"{keys[m.method]}_1KiB_p90_ms": 1e3 * m.p90_s for m in rows},
            "algorithm": arguments.algorithm,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
