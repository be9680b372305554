"""Three routers before engines: hit rate and time to the first token, and look-ups a second.

python benchmarks/kv_router.py --json
python benchmarks/kv_router.py conversation_trace.jsonl
python benchmarks/kv_router.py --quick

* ``<trace>_<memory>_<router>_*``: a replay in virtual time (:mod:`shared.routed_engines`), with
  engines that have their own blocks ``alone`` or load those of others from a ``pool``.
* ``lookups_per_s``: of prompts in an index of all engines' blocks, by processor time of one thread.
* ``http_<form>_<batch>_lookups_per_s``: of the same over HTTP on loopback, one call after the other
  on one connection, in calls of 1 or 16 prompts, as lists (``prompts``) or in base64 (``packed``).
* ``http_<form>_<batch>_processor_s_per_lookup``: of the server.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import random
import struct
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from innet.errors import KVError
from innet.kv.events.index import PrefixIndex
from innet.kv.events.routing import ROUTERS, Costs, make_router
from innet.kv.events.service import PoolDirectory, serving
from innet.kv.events.wire import BlocksStored
from innet.kv.prefill import LoadTime
from innet.lab.compare.progress import ProgressBar
from innet.lab.traces import BLOCK_TOKENS, PromptRequest, load_trace
from shared.benchmark import Benchmark, Figures, argument_parser
from shared.generated_traces import GENERATED
from shared.routed_engines import RoutedEngines

SLICE = Path(__file__).resolve().parents[1] / "workloads" / "traces" / "conversation.jsonl"
PREFIX_BLOCKS = 3
"""That ``prefix-hash`` hashes: the first are the same in nearly all conversations."""
LATENCY_S = 0.001
GIGABIT = 1e9 / 8
BATCHES = (1, 16)
CLIENT = Path(__file__).parent / "shared" / "lookup_client.py"
MEMBERS = 16
BLOCK = 16
PROMPT_TOKENS = 2048
LOOKUP_MODEL = "m"


def main() -> None:
    """All traces with all routers, and look-ups."""
    parser = argument_parser("routers before engines, by recorded and generated requests")
    parser.add_argument("trace", nargs="?", type=Path, default=SLICE, help="default: a slice")
    parser.add_argument("--engines", type=int, default=8, help="default 8")
    parser.add_argument("--blocks", type=int, default=500, help="of each engine; default 500")
    parser.add_argument("--gbit", type=float, default=100, help="rate of loading; default 100")
    parser.add_argument("--generated", type=int, help="requests of a trace; default 1000")
    arguments = parser.parse_args()
    requests = arguments.generated or (300 if arguments.quick else 1000)
    benchmark = Benchmark("kv_router", arguments, deadline_s=3600)

    async def measure(progress: ProgressBar) -> Figures:
        text = await asyncio.to_thread(arguments.trace.read_text, encoding="utf-8")
        traces = {"conversation": load_trace(arguments.trace, text)}
        traces |= {name: make(requests) for name, make in GENERATED.items()}
        load = LoadTime(LATENCY_S, arguments.gbit * GIGABIT)
        figures: Figures = {}
        for name, trace in traces.items():
            figures |= _routed(name, trace, load, arguments.engines, arguments.blocks)
        figures |= await _lookups(200 if arguments.quick else 2000)
        _print(figures, traces)
        return figures

    benchmark.run(measure)


def _routed(
    name: str, trace: Sequence[PromptRequest], load: LoadTime, engines: int, blocks: int
) -> Figures:
    figures: Figures = {}
    for memory, loading in (("alone", None), ("pool", load)):
        costs = Costs(load=loading, token_scale=BLOCK_TOKENS, prefix_tokens=PREFIX_BLOCKS)
        for router in ROUTERS:
            make = functools.partial(make_router, router, costs)
            outcome = RoutedEngines(engines, blocks, costs, make).replay(trace)
            prefix = f"{name}_{memory}_{router.replace('-', '_')}"
            figures |= {f"{prefix}_{key}": value for key, value in outcome.figures().items()}
    return figures


async def _lookups(prompts: int) -> Figures:
    """Look-ups of prompts of which 0 to 2048 tokens are there, in blocks of 16 tokens."""
    choice = random.Random(1)
    directory = PoolDirectory()
    questions = []
    hashes = iter(range(1, 1 << 40))
    for _ in range(prompts):
        tokens = [choice.randrange(128_000) for _ in range(PROMPT_TOKENS)]
        held = choice.randrange(0, PROMPT_TOKENS + 1, BLOCK)
        for member in choice.sample(range(MEMBERS), 2):
            there = tuple(next(hashes) for _ in range(held // BLOCK))
            if there:
                stored = BlocksStored(there, None, tuple(tokens[:held]), BLOCK)
                directory.apply(f"e{member}", LOOKUP_MODEL, [stored])
        questions.append(tokens)
    members = [f"e{member}" for member in range(MEMBERS)]
    began_s = time.process_time()
    for tokens in questions:
        _locate(directory.index, tokens, members)
    figures: Figures = {"lookups_per_s": prompts / (time.process_time() - began_s)}
    async with serving(directory) as address:
        for form in ("prompts", "packed"):
            for batch in BATCHES:
                bodies = _bodies(form, questions, members, batch)
                began_s = time.process_time()
                took_s = await _ask(address, bodies)
                prefix = f"http_{form}_{batch}"
                figures |= {
                    f"{prefix}_lookups_per_s": prompts / took_s,
                    f"{prefix}_processor_s_per_lookup": (time.process_time() - began_s) / prompts,
                }
    return figures


def _bodies(form: str, questions: list[list[int]], members: list[str], batch: int) -> list[bytes]:
    """Bodies of requests, of so many prompts each."""
    given: list[list[int]] | list[str] = questions
    if form == "packed":
        arrays = (np.array(tokens, "<u4").tobytes() for tokens in questions)
        given = [base64.b64encode(each).decode() for each in arrays]
    return [
        json.dumps({form: given[start : start + batch], "members": members}).encode()
        for start in range(0, len(given), batch)
    ]


def _locate(index: PrefixIndex, tokens: list[int], members: list[str]) -> None:
    index.locate(LOOKUP_MODEL, tokens, members=members)


async def _ask(address: str, bodies: list[bytes]) -> float:
    """The seconds that the requests take, sent by another process."""
    host, port = address.removeprefix("http://").split(":")
    client = await asyncio.create_subprocess_exec(
        sys.executable, CLIENT, host, port, "/v1/locate", stdin=PIPE, stdout=PIPE
    )
    sent = b"".join(struct.pack("<Q", len(body)) + body for body in bodies)
    output, _ = await client.communicate(sent)
    if client.returncode:
        raise KVError(f"the client of the index ended with {client.returncode}")
    return float(output)


def _print(figures: Figures, traces: dict[str, tuple[PromptRequest, ...]]) -> None:
    table = Table("trace", "memory", "router", "hit rate", "first token, mean", "median", "90 %")
    for name in traces:
        for memory in ("alone", "pool"):
            for router in ROUTERS:
                prefix = f"{name}_{memory}_{router.replace('-', '_')}_"
                keys = ("mean", "p50", "p90")
                times = [f"{figures[f'{prefix}first_token_{key}_s']:.2f} s" for key in keys]
                table.add_row(name, memory, router, f"{figures[prefix + 'hit_rate']:.3f}", *times)
    Console(width=110, stderr=True).print(table)


if __name__ == "__main__":
    main()
