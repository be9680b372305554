"""A flood of Interests at one face of a node: what the others keep of their throughput.

A forwarder, who produces, who fetches and who floods are at the ends of kernel links. The flood
fills its own link, which bounds it, and not the processor: all share this machine. Turns without
and with it alternate.

python benchmarks/interest_flood.py --rate 100mbit --flood 20mbit --json
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.node.node_config import UdpChannel
from innet.quantities import parse_rate_bps
from innet.topology import Topology, parse_yaml
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

WORKER = Path(__file__).with_name("workers") / "interest_flood.py"
_BEGIN_IN_S = 1.5
_ANY = "0.0.0.0"
_LISTENING, _ROUTED = "listening", "routed"
"""What the forwarder in ``WORKER`` says."""


def topology(rate_bps: float, flood_bps: float) -> Topology:
    """One switch; ``h0`` produces, ``h1`` fetches, ``h2`` floods."""
    links = "\n".join(
        f'    - {{endpoints: ["h{host}:eth0", "s0:eth{host}"], rate: {bps:.0f}bit}}'
        for host, bps in enumerate((rate_bps, rate_bps, flood_bps))
    )
    return parse_yaml(
        "name: flood\ntopology:\n  nodes:\n    s0: {kind: switch}\n"
        "    h0: {kind: host}\n    h1: {kind: host}\n    h2: {kind: host}\n"
        f"  links:\n{links}\n"
    )


class Flood:
    """One run of all turns, with the flood over ``over``."""

    def __init__(self, network: Network, over: str, turns: int, turn_s: float) -> None:
        self._network = network
        self._over = over
        self._turns = turns
        self._turn_s = turn_s
        self._said = {_LISTENING: asyncio.Event(), _ROUTED: asyncio.Event()}

    async def run(self, folder: Path) -> Figures:
        """Figures by their names, without the prefix that tells over what it was.

        Raises:
            EmulationError: one of the programs failed.
        """
        node = self._spawn("s0", folder, "forward")
        await self._heard(_LISTENING, node)
        producer = self._spawn("h0", folder, "produce")
        await self._heard(_ROUTED, node)
        begin_s = time.monotonic() + _BEGIN_IN_S
        turns = json.dumps([begin_s, self._turn_s, self._turns])
        client = self._spawn("h1", folder, "fetch", "--turns", turns)
        flood = self._spawn("h2", folder, "flood", "--turns", turns, "--over", self._over)
        for process in (client, flood, node, producer):
            if await process.wait() != 0:
                raise EmulationError(process.failure_report())
        fetched = json.loads((folder / "fetch.json").read_text())
        samples = json.loads((folder / "forward.json").read_text())["samples"]
        return self._figures(fetched["throughput_bps"], fetched["refused"], samples, begin_s)

    async def _heard(self, word: str, node: SupervisedProcess) -> None:
        said, ended = asyncio.create_task(self._said[word].wait()), asyncio.create_task(node.wait())
        await asyncio.wait((said, ended), return_when=asyncio.FIRST_COMPLETED)
        for task in (said, ended):
            task.cancel()
        if not self._said[word].is_set():
            raise EmulationError(node.failure_report())

    def _spawn(self, node: str, folder: Path, role: str, *options: str) -> SupervisedProcess:
        channel = self._network.config(node).faces[0].channel
        assert isinstance(channel, UdpChannel), "links of netns mode are"
        address = _ANY if node == "s0" else channel.peer_address
        argv = (
            *(sys.executable, str(WORKER), role, "--address", address),
            *("--output", str(folder / f"{role}.json"), *options),
        )
        spec = ProcessSpec(role, argv, environment={"OMP_NUM_THREADS": "1"})
        return self._network.start(node, spec, self._on_line)

    def _on_line(self, label: str, line: str) -> None:
        if line in self._said:
            self._said[line].set()
        else:
            print(f"{label}: {line}", file=sys.stderr)

    def _figures(
        self, throughput_bps: list[float], refused: int, samples: list[Any], begin_s: float
    ) -> Figures:
        plain, flooded = throughput_bps[::2], throughput_bps[1::2]
        kept = [after / before for before, after in zip(plain, flooded, strict=True)]
        rates: dict[str, list[float]] = {"flood_interests": [], "cpu_s": []}
        for turn in range(self._turns):
            start_s = begin_s + turn * self._turn_s
            inside = [s for s in samples if start_s <= s["time_s"] < start_s + self._turn_s]
            if len(inside) < 2:
                raise EmulationError("the node was too busy to say what it counts; try again")
            for key, per_s in rates.items():
                counted = inside[-1][key] - inside[0][key]
                per_s.append(counted / (inside[-1]["time_s"] - inside[0]["time_s"]))
        return {
            "plain_bps": statistics.median(plain),
            "flooded_bps": statistics.median(flooded),
            "kept": statistics.median(kept),
            "kept_min": min(kept),
            "refused": refused,
            "flood_interests_per_s": statistics.median(rates["flood_interests"][1::2]),
            "node_cpu_plain": statistics.median(rates["cpu_s"][::2]),
            "node_cpu_flooded": statistics.median(rates["cpu_s"][1::2]),
            "pit_entries_max": max(s["pit_entries"] for s in samples),
            "over_share": samples[-1]["over_share"],
        }


def main() -> None:
    """Measure and print."""
    parser = argument_parser("what a flood of Interests leaves the others")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="100mbit")
    parser.add_argument(
        "--flood", type=quantity(parse_rate_bps), default="20mbit", help="rate of the flood's link"
    )
    parser.add_argument("--turns", type=int, help="with the flood; default 8, quick: 2")
    arguments = parser.parse_args()
    turns = 2 * (arguments.turns or (2 if arguments.quick else 8))
    turn_s = 1.0 if arguments.quick else 2.0
    benchmark = Benchmark("interest_flood", arguments, deadline_s=180)

    async def measure(progress: ProgressBar) -> Figures:
        figures: Figures = {"rate_bps": arguments.rate, "flood_link_bps": arguments.flood}
        for number, over in enumerate(("tcp", "udp")):
            progress(number / 2, f"flood over {over}")
            async with Network(topology(arguments.rate, arguments.flood), "netns") as network:
                with tempfile.TemporaryDirectory() as folder:
                    found = await Flood(network, over, turns, turn_s).run(Path(folder))
            figures |= {f"{over}_{key}": value for key, value in found.items()}
        return figures

    benchmark.run(measure)


if __name__ == "__main__":
    main()
