"""What a decision of a strategy in Python costs, beside the node's own.

python benchmarks/strategies.py --json

One node with three neighbours on UDP sockets of this process: one asks, two are asked. Each name
is asked for once. A burst keeps `--window` Interests under way, a single one measures the time
from the asker's socket to that of whoever is asked. Best-route, and a strategy in Python that
decides as it does, take turns; their difference is the detour by the interpreter.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack

from innet._native import _core
from innet.lab.compare.progress import ProgressBar
from innet.ndn.strategy import Strategy, StrategyRunner
from innet.ndn.wire import encode_interest
from innet.node.native_settings import NodeSizes, native_settings
from innet.settings import Settings
from shared.benchmark import Benchmark, Figures, argument_parser

PATIENCE_S = 1.0
PREFIXES = {"best_route": "/own", "python": "/python"}


def main() -> None:
    """Measure and print."""
    parser = argument_parser("what a decision of a strategy in Python costs")
    parser.add_argument("--interests", type=int, help="of a turn; default 4000, quick: 500")
    parser.add_argument("--turns", type=int, default=5, help="of each strategy; default 5")
    parser.add_argument("--window", type=int, default=64, help="Interests of a burst under way")
    arguments = parser.parse_args()
    interests = arguments.interests or (500 if arguments.quick else 4000)
    benchmark = Benchmark("strategies", arguments, deadline_s=120)

    async def measure(progress: ProgressBar) -> Figures:
        progress(0.0, "decisions")
        return _figures(interests, arguments)

    benchmark.run(measure)


def _figures(interests: int, arguments: argparse.Namespace) -> Figures:
    single_s: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    with ExitStack() as stack:
        network = _Network(stack)
        runner = StrategyRunner(network.node, PREFIXES["python"], Strategy(), patience_s=PATIENCE_S)
        runner.start()
        stack.callback(runner.stop)
        for _ in range(arguments.turns):
            for who, prefix in PREFIXES.items():
                single_s.setdefault(who, []).extend(
                    network.pass_on(prefix, 1) for _ in range(interests // 4)
                )
                taken_s = network.pass_on(prefix, interests, arguments.window)
                rates.setdefault(who, []).append(interests / taken_s)
        late = network.node.status()["node"]["strategy_late"]
    figures: Figures = {"python_late": late, "interests": interests, "window": arguments.window}
    for who in PREFIXES:
        figures[f"{who}_p50_us"] = statistics.median(single_s[who]) * 1e6
        figures[f"{who}_p99_us"] = statistics.quantiles(single_s[who], n=100)[98] * 1e6
        figures[f"{who}_interests_per_s"] = statistics.median(rates[who])
    return figures


class _Network:
    """A node, who asks it, and whom it asks."""

    def __init__(self, stack: ExitStack) -> None:
        settings = native_settings("n", Settings(), NodeSizes())
        key = _core.SigningKey("digest")
        self.node = _core.Node(settings, key, [key])
        self._asker, self._asked, _ = (self._neighbour(stack) for _ in range(3))
        self.node.start()
        stack.callback(self.node.stop, "the benchmark is over")
        for prefix in PREFIXES.values():
            self.node.add_route(prefix, 1, 1)
            self.node.add_route(prefix, 2, 2)
        self._number = 0

    def _neighbour(self, stack: ExitStack) -> socket.socket:
        neighbour = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        neighbour.bind(("127.0.0.1", 0))
        neighbour.settimeout(10)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.node.add_link(
            local_address="127.0.0.1",
            local_port=port,
            peer_address="127.0.0.1",
            peer_port=neighbour.getsockname()[1],
        )
        neighbour.connect(("127.0.0.1", port))
        return neighbour

    def pass_on(self, prefix: str, interests: int, window: int = 1) -> float:
        """Seconds until that many Interests have come out of the node."""
        packets = [self._next(prefix) for _ in range(interests)]
        send: Callable[[bytes], int] = self._asker.send
        started_s = time.perf_counter()
        for packet in packets[:window]:
            send(packet)
        for packet in packets[window:]:
            self._asked.recv(9000)
            send(packet)
        for _ in packets[:window]:
            self._asked.recv(9000)
        return time.perf_counter() - started_s

    def _next(self, prefix: str) -> bytes:
        self._number += 1
        # The answer never comes: entries make room for each other soon.
        return encode_interest(f"{prefix}/{self._number}", lifetime_s=0.05)


if __name__ == "__main__":
    main()
