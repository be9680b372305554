"""A burst of prefix registrations at one node, over its Unix socket: how soon each is answered.

The client's signing and sending are part of the time: both share the machine.

python benchmarks/registrations.py --registrations 10000 --json
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time

from innet._native import _core
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.ndn import Client, DigestSigner, Name, encode_interest
from innet.ndn.control import ControlParameters, command_name
from innet.security import deal_keys
from shared.benchmark import Benchmark, Figures, argument_parser


def main() -> None:
    """Measure and print."""
    parser = argument_parser("a burst of registrations at one node")
    parser.add_argument(
        "--registrations", type=int, default=10_000, help="in one burst, default 10000"
    )
    arguments = parser.parse_args()
    benchmark = Benchmark("registrations", arguments, deadline_s=120)
    bursts = 2 if arguments.quick else 7

    async def measure(progress: ProgressBar) -> Figures:
        answered: list[list[float]] = []
        for burst in range(bursts):
            answered.append(await _burst_at_new_node(arguments.registrations))
            progress((burst + 1) / bursts, f"burst {burst + 1} of {bursts}")
        lasts = [max(delays) for delays in answered]
        every = sorted(delay for delays in answered for delay in delays)
        return {
            "registrations": arguments.registrations,
            "all_answered_s": statistics.median(lasts),
            "all_answered_max_s": max(lasts),
            "answer_p50_s": every[len(every) // 2],
            "answer_p99_s": every[len(every) * 99 // 100],
            "registrations_per_s": arguments.registrations / statistics.median(lasts),
        }

    benchmark.run(measure)


async def _burst_at_new_node(count: int) -> list[float]:
    """How long after the burst's begin each registration was answered."""
    with tempfile.TemporaryDirectory() as folder:
        settings = _core.NodeSettings()
        settings.own_name = "/n/s0"
        keys = deal_keys(["s0"], "hmac")["s0"]
        node = _core.Node(settings, keys.signing_key(), keys.trusted_keys())
        uri = node.listen(f"unix://{folder}/n.sock")
        node.start()
        try:
            async with Client(uri) as client:
                return await _burst(client, count)
        finally:
            node.stop("the burst is over")


async def _burst(client: Client, count: int) -> list[float]:
    signer = DigestSigner()
    packets = [
        encode_interest(
            command_name("rib", "register", ControlParameters(name=Name(f"/app/{number}"))),
            signer=signer,
            lifetime_s=60.0,
        )
        for number in range(count)
    ]
    begin_s = time.perf_counter()

    async def register(packet: bytes) -> float:
        reply = await client.exchange(packet)
        if b"Success" not in reply.data.content:
            raise EmulationError(f"{reply.data.name} was refused: look at the node's counters")
        return time.perf_counter() - begin_s

    return list(await asyncio.gather(*(register(packet) for packet in packets)))


if __name__ == "__main__":
    main()
