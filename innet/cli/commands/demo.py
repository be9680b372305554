"""``innet demo``: trains over an emulated network, once per algorithm, and compares."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from innet.cli import options
from innet.cli.network_choice import chosen_topology, end_at_second_signal
from innet.cli.text_output import open_console, say

EXAMPLES = options.examples(
    "innet demo",
    "innet demo --rate 1gbit --epochs 10",
    "innet demo leaf-spine:2x2x2 --mode local --output results/leaf-spine",
)


def demo(
    topology: Annotated[
        str, typer.Argument(metavar="[TOPOLOGY]", help="See [cyan]innet topology list[/]")
    ] = "star8",
    rate: Annotated[
        str, typer.Option(metavar="RATE", help="Rate of every link: [cyan]1gbit[/]")
    ] = "200mbit",
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training")] = 5,
    mode: Annotated[
        Literal["local", "netns"] | None,
        typer.Option(help="[cyan]netns[/] where this machine allows it, else [cyan]local[/]"),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory for the page, its picture and the JSON")
    ] = options.RESULTS / "demo",
) -> None:
    """Train a model over an emulated network, once per algorithm, and compare.

    First in a single process, then on all hosts with in-network aggregation, with a
    ring and with a parameter server: on the same batches, to the same accuracy.
    Takes about a minute, and needs no PyTorch.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from innet.errors import CollectiveError
    from innet.lab.demo.demonstration import TRAININGS, demonstrate
    from innet.lab.demo.report import TITLES, progress_line, render_table, save
    from innet.lab.demo.training import TrainingRecord

    loaded = chosen_topology(topology, options.TimeOptions(rate=rate))
    end_at_second_signal()
    console = open_console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        epochs_done = progress.add_task("launching the network", total=TRAININGS * epochs)

        def print_line(label: str, line: str) -> None:
            progress.console.print(f"[{label}] {line}", markup=False, soft_wrap=True)

        def show(record: TrainingRecord) -> None:
            title = TITLES[record.method]
            line = progress_line(record)
            if line is not None:
                print_line(title, line)
                advance = 1 if record.accuracies else 0
                progress.update(epochs_done, advance=advance, description=title)

        rows = asyncio.run(demonstrate(loaded, epochs=epochs, mode=mode, say=print_line, show=show))
    title = f"Training over {loaded.name} at {rate}"
    open_console(highlight=False).print(render_table(rows))
    page, *_ = save(rows, title, output)
    say(f"Saved: {page}, .svg and .json")
    say(f"Other sizes, and Gloo beside it: innet compare {topology} --quick")
    wrong = [TITLES[row.record.method] for row in rows if not row.as_single]
    if wrong:
        raise CollectiveError(
            f"{', '.join(wrong)}: another accuracy than in a single process. This is a defect of "
            "innet; please report it with the file comparison.json"
        )
