"""Counting words on 8 hosts: counts of equal words added on the switch, and on one host.

python benchmarks/keyed.py --json
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from innet import Session, load_topology
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

WORDCOUNT = Path(__file__).parents[1] / "apps" / "wordcount.py"
ALGORITHMS = ("inc", "ps")


def main() -> None:
    """Measure and print."""
    parser = argument_parser("word count on star8: pairs added on the switch and on one host")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="200mbit")
    parser.add_argument("--mode", choices=("local", "netns"), default="local")
    arguments = parser.parse_args()
    benchmark = Benchmark("keyed", arguments, deadline_s=200 if arguments.quick else 400)
    star = load_topology("star8").with_overrides(rate_bps=arguments.rate)

    async def measure(_progress: ProgressBar) -> Figures:
        with tempfile.TemporaryDirectory() as directory:
            into = arguments.save or Path(directory)
            options = ["--repetitions", "3" if arguments.quick else "15", "--output", str(into)]
            command = [sys.executable, str(WORDCOUNT), "--algorithms", *ALGORITHMS, *options]
            async with Session(star, mode=arguments.mode) as session:
                await session.run_workers(command)
            results = json.loads((into / "wordcount.json").read_text())["results"]
        figures: Figures = {}
        for result in results:
            if not result["equals_counter"]:
                raise EmulationError(f"{result['algorithm']} does not count what one process does")
            figures[f"{result['algorithm']}_s"] = result["seconds"]
            figures[f"{result['algorithm']}_link_bytes"] = result["busiest_link_bytes"]
        return figures | {
            "inc_speedup_vs_ps": figures["ps_s"] / figures["inc_s"],
            "inc_link_share_of_ps": figures["inc_link_bytes"] / figures["ps_link_bytes"],
            "words": results[0]["words"],
            "mode": arguments.mode,
            "rate_bps": arguments.rate,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
