"""The demonstration: trains one network over eight emulated hosts once per algorithm, and compares.

    make demo

Launches a star of eight hosts, trains `train_digits.py` over it with in-network aggregation, a ring
and a parameter server, and once in a single process; prints a table, and saves it with the loss
curves in ``results/demo/``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import html
import io
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from innet import Session, Topology, load_topology
from innet.errors import EmulationError, InnetError
from innet.node.node_config import Mode
from innet.plans import bound_s, make_plan
from innet.quantities import parse_rate_bps

matplotlib.use("agg")
from matplotlib import pyplot as plt

TRAIN_DIGITS = Path(__file__).with_name("train_digits.py")
NAMES = {
    "single": "single process",
    "inc": "in-network",
    "ring": "ring",
    "ps": "parameter server",
}
ALGORITHMS = ("inc", "ring", "ps")
WORKER_ENVIRONMENT = {
    # Eight workers share this machine's cores: more threads each would only get in the way.
    "OMP_NUM_THREADS": "1",
    # PyTorch warns of addresses without a host name, and the namespaces have none.
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
MAX_DIFFERENCE = 1 / 360
"""Accuracies are called equal up to one test image: sums in another order round differently."""

console = Console()


@dataclass(frozen=True)
class Row:
    """One line of the comparison.

    Attributes:
        record: what ``train_digits.py`` saved.
        least_wait_s: what the links' rate allows for averaging the gradients of all steps.
        accuracy: share of the test images recognised in the end.
        as_single: whether that equals single-process training.
    """

    record: dict[str, Any]
    least_wait_s: float
    accuracy: float
    as_single: bool

    def cells(self) -> list[str]:
        """As people read it, in the order of :data:`HEADINGS`."""
        record = self.record
        alone = record["method"] == "single"
        return [
            NAMES[record["method"]],
            f"{record['seconds']:.2f}",
            "-" if alone else f"{record['waited_s']:.2f}",
            "-" if alone else f"{self.least_wait_s:.2f}",
            "-" if alone else f"{record['busiest_link_bytes'] / 1e6:.1f}",
            f"{self.accuracy:.2%}",
            "" if alone else "yes" if self.as_single else "NO",
        ]


HEADINGS = (
    "training",
    "time s",
    "waited s",
    "bound s",
    "link MB",
    "accuracy",
    "as single",
)
LEGEND = (
    "waited: for the averages of the gradients. bound: the least wait that the links' rate allows "
    "the algorithm. link: what crossed the busiest link in its busier direction."
)


class EpochProgress:
    """Shows what the trainings say; an output sink of the session."""

    def __init__(self, progress: Progress, epochs: int) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=epochs)

    def __call__(self, label: str, line: str) -> None:
        """One line of a worker: an epoch's end moves the bar, the rest is shown as it is."""
        method, _, rest = line.partition(": ")
        if method in NAMES:
            ended = 1 if rest.startswith("epoch ") else 0
            self._progress.update(self._task, advance=ended, description=NAMES[method])
            label = NAMES[method]
        else:
            rest = line
        self._progress.console.print(
            f"[{label}] {rest}", markup=False, highlight=False, soft_wrap=True
        )

    def say(self, what: str) -> None:
        """Name what happens now."""
        self._progress.update(self._task, description=what)


async def open_session(
    stack: AsyncExitStack, topology: Topology, mode: Mode | None, output: EpochProgress
) -> Session:
    """A launched network: in namespaces with the kernel's own queues, else on loopback."""
    if mode != "local":
        try:
            session = await stack.enter_async_context(
                Session(topology, mode="netns", output=output)
            )
        except EmulationError as error:
            if mode == "netns":
                raise
            console.print(f"No network namespaces here, so loopback is shaped instead: {error}")
        else:
            console.print("Mode netns: a network namespace per node, links shaped by the kernel.")
            return session
    session = await stack.enter_async_context(Session(topology, mode="local", output=output))
    console.print("Mode local: a process per node on loopback, links shaped by innet's ports.")
    return session


async def train(
    session: Session, arguments: Sequence[str], directory: Path, output: EpochProgress
) -> list[dict[str, Any]]:
    """The records of all trainings, the single process first."""
    together, alone = directory / "together.json", directory / "single.json"
    command = [sys.executable, str(TRAIN_DIGITS), *arguments]
    output.say(NAMES["single"])
    host = session.topology.hosts[0]
    process = session.network.spawn(
        host, [*command, "--single", "--output", str(alone)], WORKER_ENVIRONMENT, label="single"
    )
    if await process.wait() != 0:
        raise EmulationError(process.failure_report())
    output.say("starting eight workers")
    await session.run_workers(
        [*command, "--algorithms", *ALGORITHMS, "--output", str(together)],
        env=WORKER_ENVIRONMENT,
        algorithm=ALGORITHMS[0],
    )
    records: list[dict[str, Any]] = []
    for path in (alone, together):
        records += json.loads(path.read_text())
        path.unlink()
    return records


def compare(records: Sequence[dict[str, Any]], topology: Topology) -> list[Row]:
    """The comparison of ``records`` with the first of them, which is the single process."""
    reference = records[0]["accuracies"][-1]
    rows = []
    for record in records:
        accuracy = record["accuracies"][-1]
        least_wait_s = 0.0
        if record["method"] in ALGORITHMS:
            plan = make_plan(record["method"], topology)
            least_wait_s = len(record["losses"]) * bound_s(plan, topology, record["gradient_bytes"])
        same = abs(accuracy - reference) <= MAX_DIFFERENCE * 1.001
        rows.append(Row(record, least_wait_s, accuracy, same))
    return rows


def print_table(rows: Sequence[Row]) -> None:
    """The comparison on the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    console.print(LEGEND, highlight=False)


def draw(rows: Sequence[Row], title: str) -> bytes:
    """Loss curves, and where the time went, as a PNG."""
    figure, (curves, bars) = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    styles = ("-", "--", "-.", ":")
    for row, style in zip(rows, styles, strict=False):
        curves.plot(row.record["losses"], style, label=NAMES[row.record["method"]])
    curves.set(title="Training loss", xlabel="step", ylabel="cross-entropy")
    curves.legend()
    names = [NAMES[row.record["method"]] for row in rows][::-1]
    waited_s = [row.record["waited_s"] for row in rows][::-1]
    worked_s = [row.record["seconds"] - row.record["waited_s"] for row in rows][::-1]
    bars.barh(names, worked_s, label="computing")
    bars.barh(names, waited_s, left=worked_s, label="waiting for gradients")
    bars.set(title=title, xlabel="seconds")
    bars.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    plt.close(figure)
    return image.getvalue()


def page(rows: Sequence[Row], title: str, picture: bytes) -> str:
    """The comparison as one HTML file that needs no other."""
    heads = "".join(f"<th>{html.escape(text)}</th>" for text in HEADINGS)
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells()) + "</tr>"
        for row in rows
    )
    source = "data:image/png;base64," + base64.b64encode(picture).decode()
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>innet: {html.escape(title)}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }}
table {{ border-collapse: collapse }} img {{ max-width: 100% }}
th, td {{ border-bottom: 1px solid #ccc; padding: .3em .8em; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
</style>
<h1>{html.escape(title)}</h1>
<table><tr>{heads}</tr>{lines}</table>
<p>Every row trains the same network on the same batches; {html.escape(LEGEND)}</p>
<img src="{source}" alt="loss curves and times">
</html>
"""


def save(rows: Sequence[Row], title: str, directory: Path) -> None:
    """Write the records, the picture and the page."""
    picture = draw(rows, title)
    (directory / "comparison.json").write_text(json.dumps([row.record for row in rows], indent=2))
    (directory / "comparison.png").write_bytes(picture)
    (directory / "comparison.html").write_text(page(rows, title, picture))
    console.print(f"Saved: {directory}/comparison.html, .png and .json")


async def run(arguments: argparse.Namespace) -> list[Row]:
    """Launch, train, take down."""
    topology = load_topology(arguments.topology).with_overrides(
        rate_bps=parse_rate_bps(arguments.rate)
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    async with AsyncExitStack() as stack:
        progress = stack.enter_context(Progress(*columns, TimeElapsedColumn(), console=console))
        output = EpochProgress(progress, arguments.epochs * (1 + len(ALGORITHMS)))
        output.say("launching the network")
        session = await open_session(stack, topology, arguments.mode, output)
        records = await train(
            session, ["--epochs", str(arguments.epochs)], arguments.output, output
        )
    return compare(records, topology)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topology", default="star8", help="what to launch")
    parser.add_argument("--rate", default="200mbit", help="rate of every link")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--mode", choices=["netns", "local"], help="default: netns where possible")
    parser.add_argument("--output", type=Path, default=Path("results/demo"))
    return parser.parse_args()


def main() -> int:
    """Run the demonstration; the exit status."""
    arguments = parse_arguments()
    try:
        rows = asyncio.run(run(arguments))
    except KeyboardInterrupt:
        console.print("Interrupted; the network is taken down.")
        return 130
    except InnetError as error:
        console.print(f"The demonstration failed: {error}", style="red", markup=False)
        return 1
    title = f"Training over {arguments.topology} at {arguments.rate}"
    print_table(rows)
    save(rows, title, arguments.output)
    console.print(f"Other sizes, and Gloo beside it: innet compare {arguments.topology} --quick")
    return 0 if all(row.as_single for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
