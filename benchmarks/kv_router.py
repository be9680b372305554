"""Three routers before engines: hit rate and time to the first token.

python benchmarks/kv_router.py --json
INNET_CONVERSATION_TRACE=conversation_trace.jsonl python benchmarks/kv_router.py
python benchmarks/kv_router.py --quick

* ``<trace>_<memory>_<router>_*``: a replay in virtual time (:mod:`shared.routed_engines`), with
  engines that have their own blocks ``alone`` or load those of others from a ``pool``; of
  generated traces, the mean over the seeds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from innet.kv.events.routing import ROUTERS, Costs, make_router
from innet.kv.prefill import LoadTime
from innet.lab.compare.progress import ProgressBar
from innet.lab.traces import BLOCK_TOKENS, PromptRequest, load_trace
from shared.benchmark import Benchmark, Figures, argument_parser, computed
from shared.request_traces import GENERATED, recorded
from shared.routed_engines import RoutedEngines

PREFIX_BLOCKS = 3
"""That ``prefix-hash`` hashes: the first are the same in nearly all conversations."""
LATENCY_S = 0.001
GIGABIT = 1e9 / 8


def main() -> None:
    """All traces with all routers."""
    parser = argument_parser("routers before engines, by recorded and generated requests")
    parser.add_argument("trace", nargs="?", type=Path, help="default: $INNET_CONVERSATION_TRACE")
    parser.add_argument("--engines", type=int, default=8, help="default 8")
    parser.add_argument("--blocks", type=int, default=500, help="of each engine; default 500")
    parser.add_argument("--gbit", type=float, default=100, help="rate of loading; default 100")
    parser.add_argument("--generated", type=int, help="requests of a trace; default 1000")
    parser.add_argument("--seeds", type=int, help="of each generated trace; default 3, quick: 1")
    arguments = parser.parse_args()
    requests = arguments.generated or (300 if arguments.quick else 1000)
    seeds = range(1, 1 + (arguments.seeds or (1 if arguments.quick else 3)))
    recording = arguments.trace or recorded(quick=arguments.quick)
    benchmark = Benchmark("kv_router", arguments, deadline_s=3600)

    async def measure(progress: ProgressBar) -> Figures:
        def load_traces() -> dict[str, list[tuple[PromptRequest, ...]]]:
            text = recording.read_text(encoding="utf-8")
            traces = {"conversation": [load_trace(recording, text)]}
            return traces | {
                name: [make(requests, seed) for seed in seeds] for name, make in GENERATED.items()
            }

        traces = await computed(load_traces)
        load = LoadTime(LATENCY_S, arguments.gbit * GIGABIT)
        for number, (name, variants) in enumerate(traces.items()):
            progress(number / len(traces), name)
            routed = functools.partial(
                _routed, name, variants, load, arguments.engines, arguments.blocks
            )
            benchmark.done.update(await computed(routed))
        _print(benchmark.done, traces)
        return benchmark.done

    benchmark.run(measure)


def _routed(
    name: str,
    variants: Sequence[Sequence[PromptRequest]],
    load: LoadTime,
    engines: int,
    blocks: int,
) -> Figures:
    """The means over the variants of a trace."""
    figures: Figures = {}
    for memory, loading in (("alone", None), ("pool", load)):
        costs = Costs(load=loading, token_scale=BLOCK_TOKENS, prefix_tokens=PREFIX_BLOCKS)
        for router in ROUTERS:
            make = functools.partial(make_router, router, costs)
            each = [RoutedEngines(engines, blocks, costs, make).replay(trace) for trace in variants]
            prefix = f"{name}_{memory}_{router.replace('-', '_')}"
            for key in each[0].figures():
                figures[f"{prefix}_{key}"] = fmean(outcome.figures()[key] for outcome in each)
    return figures


def _print(figures: Figures, traces: Iterable[str]) -> None:
    table = Table("trace", "memory", "router", "hit rate", "first token, mean", "median", "95 %")
    for name in traces:
        for memory in ("alone", "pool"):
            for router in ROUTERS:
                prefix = f"{name}_{memory}_{router.replace('-', '_')}_"
                keys = ("mean", "p50", "p95")
                times = [f"{figures[f'{prefix}first_token_{key}_s']:.2f} s" for key in keys]
                table.add_row(name, memory, router, f"{figures[prefix + 'hit_rate']:.3f}", *times)
    Console(width=110, stderr=True).print(table)


if __name__ == "__main__":
    main()
