"""Trains a byte-level GPT on the Python standard library's own source, in parallel over innet.

innet run star8 -- python apps/train_gpt.py --parallel ddp
innet run star8 -- python apps/train_gpt.py --parallel fsdp:2,tp:4 --steps 200
innet run star8 -- python apps/train_gpt.py --parallel pp:4,ddp:2 --schedule gpipe
innet run star8 -- python apps/train_gpt.py --parallel ep --output build/gpt.json
innet run star8 --mode netns -- python apps/train_gpt.py --parallel hsdp --backend gloo
torchrun --nproc-per-node 8 apps/train_gpt.py --parallel cp --backend gloo
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import backend
from gpt.checkpoint import Checkpoints
from gpt.command_line import options_of, ranks_of_job, refuse, unusable_output
from gpt.layout import KINDS, Layout, LayoutError
from gpt.model import GPT, Shape
from gpt.parallel import SCHEDULES, ParallelModel, ParallelOptions
from gpt.record import Record
from gpt.training import Schedule, Training

_BAR = 20
_MICROBATCHES = 4
_PROGRAM = "train_gpt.py"
_AT_LEAST_ONE = (
    *("layers", "width", "heads", "context", "steps", "batch"),
    *("microbatches", "report_every", "checkpoint_every"),
)


def parse_arguments(options: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, or other ``options``."""
    summary, _, examples = (__doc__ or "").partition("\n")
    kinds = "\n".join(f"  {kind:5} {meaning}" for kind, meaning in KINDS.items())
    parser = argparse.ArgumentParser(
        description=summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            f"kinds of parallelism:\n{kinds}\n  hsdp  2 copies, each of half of the ranks: "
            "ddp:2,fsdp:N/2\n\n"
            "Time waited is wall time less the time that the computing thread ran or was ready to\n"
            "run. In `innet run` without --mode netns, Gloo goes over loopback, whose rate nobody\n"
            f"limits.\n\nexamples:{examples}"
        ),
    )
    parser.add_argument(
        "--parallel", default="ddp", metavar="KIND[:RANKS],...", help="default %(default)s"
    )
    parser.add_argument("--backend", choices=backend.BACKENDS, default="innet")
    _add_model(parser.add_argument_group("model"))
    _add_training(parser.add_argument_group("training"))
    details = parser.add_argument_group("details of parallelism")
    details.add_argument("--schedule", choices=SCHEDULES, default="1f1b", help="of pp")
    details.add_argument(
        "--microbatches", type=int, help="of pp; default 4, or one for each stage if those are more"
    )
    details.add_argument(
        "--bucket-mib", type=float, default=4, help="gradients averaged at once by ddp"
    )
    results = parser.add_argument_group("results")
    results.add_argument("--report-every", type=int, default=10, metavar="STEPS")
    results.add_argument("--output", type=Path, metavar="FILE.json", help="save JSON and a plot")
    results.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="go on from its latest, and save there"
    )
    results.add_argument("--checkpoint-every", type=int, default=100, metavar="STEPS")
    arguments = parser.parse_args(options)
    if arguments.experts is None:
        arguments.experts = 8 if "ep" in re.split("[:,]", arguments.parallel) else 0
    return arguments


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--layers", type=int, default=8)
    group.add_argument("--width", type=int, default=128)
    group.add_argument("--heads", type=int, default=8)
    group.add_argument("--context", type=int, default=128, help="bytes that the model sees at once")
    group.add_argument("--experts", type=int, help="of each block; with ep default 8, else none")


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--steps", type=int, default=100)
    group.add_argument("--batch", type=int, default=32, help="pieces of text, over all ranks")
    group.add_argument("--learning-rate", type=float, default=1e-3, help="of AdamW")
    group.add_argument("--seed", type=int, default=1)


def checked_layout(arguments: argparse.Namespace, ranks: int) -> Layout:
    """The layout of the ranks.

    Raises:
        LayoutError: it does not fit the number of ranks, the model or the batch, a number is none
            that a training can have, or the record cannot be saved where it shall be.
    """
    layout = Layout.parse(arguments.parallel, ranks)
    if (why := unusable_output(arguments.output)) is not None:
        raise LayoutError(why)
    for name in _AT_LEAST_ONE:
        number = getattr(arguments, name)
        if number is not None and number < 1:
            raise LayoutError(f"--{name.replace('_', '-')} {number}: it must be at least 1")
    if "ep" in layout.sizes and arguments.experts < 1:
        raise LayoutError(f"ep divides experts among ranks: --experts {layout.of('ep')} or more")
    divided = {
        "--batch": layout.batch_parts * microbatches_of(arguments, layout),
        "--context": layout.of("cp"),
        "--heads": layout.of("tp"),
        "--experts": layout.of("ep"),
    }
    if layout.of("pp") > arguments.layers:
        raise LayoutError(
            f"{layout} has {layout.of('pp')} stages for {arguments.layers} layers: more --layers"
        )
    if arguments.schedule == "1f1b" and microbatches_of(arguments, layout) < layout.of("pp"):
        raise LayoutError(
            f"1f1b keeps {layout.of('pp')} stages at work with at least as many microbatches: "
            f"--microbatches {layout.of('pp')}, or --schedule gpipe"
        )
    for option, parts in divided.items():
        size = getattr(arguments, option.removeprefix("--"))
        if size % parts:
            raise LayoutError(
                f"{layout} cuts {option} {size} into {parts} parts: choose a multiple of {parts}"
            )
    if arguments.width % arguments.heads:
        raise LayoutError(f"--width {arguments.width} is no multiple of --heads {arguments.heads}")
    if arguments.experts and "tp" in layout.sizes:
        raise LayoutError("tp cuts perceptrons, not experts: leave out --experts, or use ep")
    return layout


def microbatches_of(arguments: argparse.Namespace, layout: Layout) -> int:
    """Parts in which a batch goes through the pipeline; 1 where there is none."""
    if "pp" not in layout.sizes:
        return 1
    return int(arguments.microbatches or max(_MICROBATCHES, layout.of("pp")))


def report_line(record: Record, steps: int) -> str:
    """How far a training has come."""
    done = record.first_step + len(record.losses)
    filled = _BAR * done // steps
    waited = sum(record.waited_share) / len(record.waited_share)
    left_s = sum(record.step_s) / len(record.step_s) * (steps - done)
    return (
        f"[{'#' * filled}{'.' * (_BAR - filled)}] step {done}/{steps}, "
        f"loss {record.losses[-1]:.4f}, {record.tokens_per_s:,.0f} tokens/s, "
        f"{waited:.0%} waiting for communication, {left_s:.0f} s to go"
    )


def shape_of(arguments: argparse.Namespace) -> Shape:
    """The model's sizes."""
    return Shape(
        arguments.layers,
        arguments.width,
        arguments.heads,
        arguments.context,
        arguments.experts,
    )


def train(arguments: argparse.Namespace, layout: Layout) -> None:
    """Train as the command line says; the process group is there."""
    model = GPT(shape_of(arguments), arguments.seed)
    record = Record(
        backend=arguments.backend,
        parallel=str(layout),
        ranks=dist.get_world_size(),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        options=options_of(arguments),
    )
    options = ParallelOptions(
        schedule=arguments.schedule,
        microbatches=microbatches_of(arguments, layout),
        bucket_bytes=int(arguments.bucket_mib * (1 << 20)),
    )
    parallel = ParallelModel(model, layout, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, foreach=False)
    schedule = Schedule(
        steps=arguments.steps,
        batch=arguments.batch,
        seed=arguments.seed,
        report_every=arguments.report_every,
        checkpoint_every=arguments.checkpoint_every,
    )
    checkpoints = None
    if arguments.checkpoint is not None:
        checkpoints = Checkpoints(arguments.checkpoint, parallel, optimizer)
    is_first = dist.get_rank() == 0

    def report(record: Record) -> None:
        if is_first:
            print(report_line(record, arguments.steps), flush=True)

    if is_first:
        print(
            f"{record.parameters / 1e6:.2f} M parameters on {record.ranks} ranks: {layout} over "
            f"{arguments.backend}",
            flush=True,
        )
    Training(parallel, optimizer, schedule, record).run(checkpoints, report)
    if is_first:
        finish(record, arguments.output)


def finish(record: Record, output: Path | None) -> None:
    """Save what a training leaves behind, if it did anything."""
    if not record.losses:
        print(
            f"the checkpoint has {record.first_step} steps already: nothing to train. Ask for more "
            "with --steps",
            flush=True,
        )
    elif output is not None:
        record.save(output)
        print(f"wrote {output} and {output.with_suffix('.png')}", flush=True)


def main() -> None:
    """Train as one of the ranks that the environment says."""
    arguments = parse_arguments()
    ranks = ranks_of_job(_PROGRAM, ", or with torchrun and --backend gloo")
    try:
        layout = checked_layout(arguments, ranks)
    except LayoutError as error:
        refuse(_PROGRAM, str(error))
    # Several ranks share this machine's cores; and one thread always adds in the same order.
    torch.set_num_threads(1)
    backend.start(arguments.backend)
    train(arguments, layout)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
