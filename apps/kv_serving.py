"""Serves a language model whose workers share the keys and values of their prompts.

innet run star4 -- python apps/kv_serving.py --check
innet run leaf-spine-16 -- python apps/kv_serving.py --prefill-workers 4 --requests 96
innet run star8 --rate 200mbit -- python apps/kv_serving.py --by-layer --layers-per-block 1 --check
innet run star4 --rate 20mbit -- python apps/kv_serving.py --check --load-or-compute
innet run star4 -- python apps/kv_serving.py --check --output build/serving.json
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from gpt.command_line import options_of, ranks_of_job, refuse, unusable_output
from rich.console import Console

import innet
from innet.errors import KVError
from innet.kv.eviction import POLICIES
from innet.kv.pool import Cause, Place
from innet.quantities import parse_size_bytes

_PROGRAM = "kv_serving.py"

try:
    from serving.inference import DTYPES, Inference, Shape, random_llama
    from serving.prompts import Workload
    from serving.record import Record
    from serving.workers import DecodeOptions, DecodeWorker, Served, prefill_documents
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    refuse(_PROGRAM, str(error))

_BAR = 20
_TABLE_WIDTH = 110
_AT_LEAST_ONE = (
    *("layers", "width", "heads", "kv_heads", "documents", "document_tokens", "requests"),
    *("question_tokens", "new_tokens", "block_tokens"),
)


def parse_arguments(options: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, or other ``options``."""
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "The first ranks are prefill workers: they compute documents (pieces of Python's\n"
            "standard library, a byte is a token) and put them into the pool. The others are\n"
            "decode workers: each request is a document with a question; they load the longest\n"
            "prefix that the pool has, compute the rest, put it there too, and go on with the\n"
            "likeliest tokens. All workers offer memory to the pool.\n\n"
            "The model is a Llama of the library transformers with random weights, the same on\n"
            "every rank; no weights are fetched. Checkpoints of train_gpt.py do not fit: that\n"
            "model has GPT-2's form, with learned positions and no such cache.\n\n"
            f"examples:{examples}"
        ),
    )
    _add_workload(parser.add_argument_group("workload"))
    _add_pool(parser.add_argument_group("pool"))
    model = parser.add_argument_group("model")
    model.add_argument("--layers", type=int, default=4)
    model.add_argument("--width", type=int, default=256)
    model.add_argument("--heads", type=int, default=8)
    model.add_argument("--kv-heads", type=int, default=2)
    model.add_argument("--dtype", choices=DTYPES, default="f32")
    model.add_argument("--seed", type=int, default=1, help="of the weights and the workload")
    results = parser.add_argument_group("results")
    results.add_argument(
        "--check",
        action="store_true",
        help="answer each request without the pool as well, cut at the same places; it fails where "
        "tokens, scores, keys or values differ in a bit",
    )
    results.add_argument("--output", type=Path, metavar="FILE.json", help="save JSON and a plot")
    return parser.parse_args(options)


def _add_workload(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--prefill-workers", type=int, metavar="RANKS", help="default: half of all")
    group.add_argument("--documents", type=int, default=4)
    group.add_argument(
        "--cold-documents",
        type=int,
        default=1,
        help="of them, which no prefill worker computes: who asks first does (default %(default)s)",
    )
    group.add_argument(
        "--document-tokens", type=int, default=768, help="of the longest (default %(default)s)"
    )
    group.add_argument("--requests", type=int, default=24, help="of all decode workers")
    group.add_argument("--question-tokens", type=int, default=100)
    group.add_argument("--new-tokens", type=int, default=8, help="of each answer")


def _add_pool(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--block-tokens", type=int, default=64, help="default %(default)s")
    group.add_argument("--layers-per-block", type=int, help="default: all")
    group.add_argument(
        "--by-layer", action="store_true", help="begin to decode when the first layers are there"
    )
    group.add_argument(
        "--load-or-compute",
        action="store_true",
        help="load only blocks that are sooner loaded than computed, by what either took lately",
    )
    group.add_argument("--memory", default="64MiB", metavar="SIZE", help="of each worker's own")
    group.add_argument(
        "--offered-memory", default="64MiB", metavar="SIZE", help="of each worker, for all"
    )
    group.add_argument("--replicas", type=int, default=1, help="homes of each block")
    group.add_argument("--policy", choices=POLICIES, default="lru")
    group.add_argument(
        "--puts",
        choices=("at-once", "when-asked", "balanced"),
        default="at-once",
        help="when blocks go to their homes",
    )
    group.add_argument(
        "--deadline-s", type=float, metavar="SECONDS", help="compute what has not come by then"
    )


def refusal(arguments: argparse.Namespace, ranks: int) -> str | None:
    """Why the options do not fit, with the next step."""
    for name in _AT_LEAST_ONE:
        if getattr(arguments, name) < 1:
            return f"--{name.replace('_', '-')} {getattr(arguments, name)}: it must be at least 1"
    if arguments.seed < 0:
        return f"--seed {arguments.seed}: it must be at least 0"
    if ranks < 2:
        return "prefill and decode workers are on different hosts: take a topology with two or more"
    if not 1 <= prefill_workers_of(arguments, ranks) < ranks:
        return (
            f"--prefill-workers {arguments.prefill_workers}: with {ranks} ranks, from 1 to "
            f"{ranks - 1}, so that there is a decode worker"
        )
    if not 0 <= arguments.cold_documents <= arguments.documents:
        return f"--cold-documents {arguments.cold_documents}: from 0 to {arguments.documents}"
    for parts, name in ((arguments.heads, "width"), (arguments.kv_heads, "heads")):
        if getattr(arguments, name) % parts:
            return f"--{name} {getattr(arguments, name)} is no multiple of {parts}"
    if arguments.width // arguments.heads % 2:
        return f"a head has {arguments.width // arguments.heads} elements; rotations need pairs"
    if arguments.layers_per_block is not None and arguments.layers_per_block < 1:
        return f"--layers-per-block {arguments.layers_per_block}: it must be at least 1"
    if arguments.by_layer and arguments.load_or_compute:
        return "--load-or-compute chooses before anything is loaded: leave out --by-layer"
    if arguments.deadline_s is not None and arguments.deadline_s < 0:
        return f"--deadline-s {arguments.deadline_s:g}: it must be at least 0"
    return unusable_output(arguments.output)


def prefill_workers_of(arguments: argparse.Namespace, ranks: int) -> int:
    """How many of the ranks compute documents."""
    chosen = arguments.prefill_workers
    return ranks // 2 if chosen is None else int(chosen)


def open_pool(arguments: argparse.Namespace, inference: Inference) -> innet.KVPool:
    """This worker's part in the pool."""
    return innet.KVPool(
        inference.model,
        block_tokens=arguments.block_tokens,
        layers_per_block=arguments.layers_per_block,
        memory=arguments.memory,
        offered_memory=arguments.offered_memory,
        replicas=arguments.replicas,
        policy=arguments.policy,
        puts=arguments.puts,
    )


def serve(arguments: argparse.Namespace) -> bool:
    """Take part as the rank that the environment says; false where answers differ."""
    comm = innet.init()
    workload = Workload.of_standard_library(
        documents=arguments.documents,
        document_tokens=arguments.document_tokens,
        requests=arguments.requests,
        question_tokens=arguments.question_tokens,
        seed=arguments.seed,
    )
    context = workload.longest_tokens + arguments.new_tokens
    shape = Shape(
        *(getattr(arguments, name) for name in ("layers", "width", "heads", "kv_heads", "dtype"))
    )
    inference = Inference(random_llama(shape, context, arguments.seed), arguments.block_tokens)
    with open_pool(arguments, inference) as pool:
        if parse_size_bytes(arguments.offered_memory):
            pool.blocking.members(at_least=comm.size)
        else:
            _tell_nothing_offered(comm)
        comm.barrier()  # everybody knows all members
        prefillers = prefill_workers_of(arguments, comm.size)
        if comm.rank < prefillers:
            documents = workload.documents[arguments.cold_documents + comm.rank :: prefillers]
            prefill_documents(
                pool, inference, documents, lambda done: _tell_prefill(comm, done, documents)
            )
        comm.barrier()
        served: list[Served] = []
        if comm.rank >= prefillers:
            served = decode(arguments, comm, pool, inference, workload, prefillers)
        record = gather(arguments, comm, pool, served)
        comm.barrier()  # nobody needs blocks of others any more
    if comm.rank == 0:
        record.show(Console(width=_TABLE_WIDTH))
        if arguments.output is not None:
            record.save(arguments.output)
            print(
                f"wrote {arguments.output} and {arguments.output.with_suffix('.png')}", flush=True
            )
    comm.close()
    return record.all_equal


def decode(
    arguments: argparse.Namespace,
    comm: innet.Communicator,
    pool: innet.KVPool,
    inference: Inference,
    workload: Workload,
    prefillers: int,
) -> list[Served]:
    """Answer this decode worker's part of the requests."""
    options = DecodeOptions(
        new_tokens=arguments.new_tokens,
        by_layer=arguments.by_layer,
        deadline_s=arguments.deadline_s,
        cost=inference.cost() if arguments.load_or_compute else None,
        compare=arguments.check,
    )
    worker = DecodeWorker(pool, inference, options)
    requests = workload.requests[comm.rank - prefillers :: comm.size - prefillers]
    served: list[Served] = []
    for request in requests:
        served.append(worker.answer(request))
        if comm.rank == prefillers:
            _tell_decode(served, len(requests))
    return served


def gather(
    arguments: argparse.Namespace,
    comm: innet.Communicator,
    pool: innet.KVPool,
    served: Sequence[Served],
) -> Record:
    """Gather the results of all workers on all of them."""
    rows = np.zeros((arguments.requests, 6))
    for one in served:
        rows[one.request] = (
            *(comm.rank, one.prompt_tokens, one.found_tokens),
            *(one.first_token_s, one.alone_s, one.equal),
        )
    blocks = pool.blocking.statistics().blocks
    counts = np.array(
        [
            *(blocks.hits[place] for place in Place),
            *(blocks.misses[cause] for cause in Cause),
            blocks.put_bytes,
        ],
        np.int64,
    )
    # Each request was answered by one rank, the others have zeros.
    rows, counts = comm.allreduce(rows), comm.allreduce(counts)
    hits, misses, put_bytes = np.split(counts, [len(Place), len(Place) + len(Cause)])
    return Record(
        options=options_of(arguments),
        served=[
            Served(number, int(prompt), int(found), first_s, alone_s, bool(equal))
            for number, (_, prompt, found, first_s, alone_s, equal) in enumerate(rows.tolist())
        ],
        workers=[int(rank) for rank in rows[:, 0]],
        block_bytes=pool.layout.token_bytes * arguments.block_tokens,
        hits=dict(zip([place.value for place in Place], hits.tolist(), strict=True)),
        misses=dict(zip([cause.value for cause in Cause], misses.tolist(), strict=True)),
        put_bytes=int(put_bytes[0]),
    )


def _tell_nothing_offered(comm: innet.Communicator) -> None:
    if comm.rank == 0:
        print(
            "no worker offers memory: a block is where it was computed and nowhere else", flush=True
        )


def _tell_prefill(comm: innet.Communicator, done: int, documents: Sequence[object]) -> None:
    if comm.rank == 0:
        print(f"prefill: {_bar(done, len(documents))} documents are in the pool", flush=True)


def _tell_decode(served: Sequence[Served], requests: int) -> None:
    last = served[-1]
    print(
        f"decode: {_bar(len(served), requests)} requests, {last.found_tokens} of "
        f"{last.prompt_tokens} tokens found, first token after {last.first_token_s * 1e3:.1f} ms",
        flush=True,
    )


def _bar(done: int, count: int) -> str:
    filled = _BAR * done // count
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{count}"


def main() -> None:
    """Serve as one of the ranks that the environment says."""
    arguments = parse_arguments()
    why = refusal(arguments, ranks_of_job(_PROGRAM))
    if why is not None:
        refuse(_PROGRAM, why)
    # Several ranks share this machine's cores; and one thread always adds in the same order.
    torch.set_num_threads(1)
    try:
        equal = serve(arguments)
    except KVError as error:
        refuse(_PROGRAM, str(error))
    if not equal:
        sys.exit(f"rank {os.environ['RANK']}: answers with and without the pool differ")


if __name__ == "__main__":
    main()
