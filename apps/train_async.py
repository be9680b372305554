"""Trains a byte-level GPT asynchronously beside synchronously, with one slow worker.

innet run star8 -- python apps/train_async.py --slow-rank 3 --slow-factor 4
innet run star4 -- python apps/train_async.py --slow-rank 1 --output build/async.json
innet run star8 --rate 200mbit -- python apps/train_async.py --staleness 4 --behind 2
innet run leaf-spine-16 -- python apps/train_async.py --servers 4 --steps 100
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from asynchronous.comparison import Comparison
from asynchronous.task import Task
from asynchronous.trainings import (
    ServerOptions,
    model_bytes,
    train_asynchronously,
    train_synchronously,
)
from gpt.command_line import options_of, ranks_of_job, refuse, unusable_output
from gpt.model import Shape
from rich.console import Console

import innet

_PROGRAM = "train_async.py"
_TABLE_WIDTH = 110


def parse_arguments(options: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, or other ``options``."""
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "Both trainings begin with the same model and do the same number of steps of the same\n"
            "batches. Synchronous: DistributedDataParallel. Asynchronous: every worker pulls the\n"
            "parameters, makes a step with them, and pushes what that has changed, divided by the\n"
            "number of workers. The servers are the first ranks, which train as well.\n\n"
            f"examples:{examples}"
        ),
    )
    slow = parser.add_argument_group("the slow worker")
    slow.add_argument("--slow-rank", type=int, metavar="RANK", help="by default there is none")
    slow.add_argument(
        "--slow-factor", type=float, default=4, help="its steps take so many times as long"
    )
    server = parser.add_argument_group("the parameter server")
    server.add_argument("--servers", type=int, default=1, help="ranks with a part each")
    server.add_argument(
        "--staleness", type=int, metavar="STEPS", help="how far ahead of the slowest; no bound"
    )
    server.add_argument(
        "--behind", type=int, default=0, metavar="PUSHES", help="how old pulled parameters may be"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--layers", type=int, default=2)
    model.add_argument("--width", type=int, default=64)
    model.add_argument("--heads", type=int, default=4)
    model.add_argument("--context", type=int, default=64, help="bytes that the model sees at once")
    training = parser.add_argument_group("training")
    training.add_argument("--steps", type=int, default=50, help="of each worker, on average")
    training.add_argument("--batch", type=int, default=8, help="pieces of text in a worker's step")
    training.add_argument("--learning-rate", type=float, default=3e-3, help="of AdamW")
    training.add_argument("--seed", type=int, default=1)
    results = parser.add_argument_group("results")
    results.add_argument("--evaluate-s", type=float, default=1, metavar="SECONDS")
    results.add_argument("--output", type=Path, metavar="FILE.json", help="save JSON and a plot")
    return parser.parse_args(options)


def refusal(arguments: argparse.Namespace, ranks: int) -> str | None:
    """Why the options do not fit, with the next step."""
    if arguments.slow_rank is not None and not 0 <= arguments.slow_rank < ranks:
        return f"--slow-rank {arguments.slow_rank} is none of the ranks 0 to {ranks - 1}"
    if arguments.slow_factor < 1:
        return f"--slow-factor {arguments.slow_factor:g} would be faster; give 1 or more"
    if not 1 <= arguments.servers <= ranks:
        return f"--servers {arguments.servers}: there are {ranks} ranks to choose from"
    for name in ("layers", "width", "heads", "context", "steps", "batch"):
        if getattr(arguments, name) < 1:
            return f"--{name} {getattr(arguments, name)}: it must be at least 1"
    for name in ("staleness", "behind"):
        if (getattr(arguments, name) or 0) < 0:
            return f"--{name} {getattr(arguments, name)}: it must be at least 0"
    if arguments.width % arguments.heads:
        return f"--width {arguments.width} is no multiple of --heads {arguments.heads}"
    return unusable_output(arguments.output)


def train(arguments: argparse.Namespace) -> None:
    """Train twice; the process group is there."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    task = Task(
        shape=Shape(arguments.layers, arguments.width, arguments.heads, arguments.context),
        seed=arguments.seed,
        batch=arguments.batch,
        worker_steps=arguments.steps * ranks,
        learning_rate=arguments.learning_rate,
        ranks=ranks,
        slow_rank=arguments.slow_rank,
        slow_factor=arguments.slow_factor,
        evaluate_s=arguments.evaluate_s,
    )
    communicator = innet.init(group="parameters")
    options = ServerOptions(arguments.servers, arguments.staleness, arguments.behind)
    synchronous = train_synchronously(task, rank)
    asynchronous, pulls = train_asynchronously(task, communicator, options)
    communicator.close()
    if rank != 0:
        return
    comparison = Comparison(
        options=options_of(arguments),
        parameters=model_bytes(task) // 4,
        curves=[synchronous, asynchronous],
        pulls=pulls,
    )
    comparison.show(Console(width=_TABLE_WIDTH))
    if arguments.output is not None:
        comparison.save(arguments.output)
        print(f"wrote {arguments.output} and {arguments.output.with_suffix('.png')}", flush=True)


def main() -> None:
    """Train as one of the ranks that the environment says."""
    arguments = parse_arguments()
    why = refusal(arguments, ranks_of_job(_PROGRAM))
    if why is not None:
        refuse(_PROGRAM, why)
    # Several ranks share this machine's cores; and one thread always adds in the same order.
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    train(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
