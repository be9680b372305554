"""``innet compare``: algorithms and foreign baselines side by side on one topology."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.experiments import parsed_sizes_bytes, show_comparison
from innet.cli.network_choice import chosen_settings, chosen_topology, end_at_second_signal
from innet.cli.text_output import open_console
from innet.quantities import parse_size_bytes

if TYPE_CHECKING:
    from innet.lab.compare.measurement import Comparison
    from innet.lab.compare.sweep import Schedule

EXAMPLES = options.examples(
    "innet compare star8 --quick",
    "innet compare star8 --mode netns --rate 200mbit --sizes 16MiB",
    "innet compare leaf-spine-16 --algorithms inc,ring --sizes 4KiB..1MiB",
    "innet compare star8 --mode netns --baseline gloo,openmpi",
    "innet compare star:2 --workers-per-host 4 --memory-rate 128gbit",
)

_QUICK_SIZES = "4KiB,256KiB,4MiB"
_QUICK_REPETITIONS = 3
_STEP = 4


@options.grouped
def compare(
    topology: options.Topology,
    mode: options.Mode = "local",
    sizes: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="Bytes of each rank's tensor: a range in factors of four, or [cyan]64KiB,16MiB[/]",
        ),
    ] = "4KiB..64MiB",
    algorithms: Annotated[
        str, typer.Option(metavar="NAME,…", help="Algorithms of innet, or [cyan]none[/]")
    ] = "inc,ring,ps",
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="[cyan]gloo[/], [cyan]gloo-push[/], [cyan]openmpi[/], "
            "[cyan]openmpi-shared[/] or [cyan]none[/]; by default all that can run: in "
            "[cyan]local[/] mode only with [cyan]--rate unlimited[/]",
        ),
    ] = None,
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, help="Timed turns of each method at each size; 3 to 30 by default"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Only {_QUICK_SIZES}, {_QUICK_REPETITIONS} turns each")
    ] = False,
    output: options.Output = None,
    as_json: options.AsJson = False,
    *,
    links: options.TopologyOptions,
    within_hosts: options.HostOptions,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Compare allreduce algorithms over sizes: a table, JSON, an HTML report and a recording.

    Each is measured beside its bound: the time its bytes need on the links.
    """

    from innet.lab.compare.progress import ProgressBar
    from innet.lab.compare.recording import ComparisonRecorder
    from innet.lab.compare.sweep import compare as measure
    from innet.observe.web.document import SUFFIX as RECORDING_SUFFIX
    from innet.telemetry.logs.output import FileOutput

    loaded = chosen_topology(topology, links, within_hosts)
    schedule = _schedule(_QUICK_SIZES if quick else sizes, repetitions, quick)
    parsed_settings = chosen_settings(settings)
    directory = output or options.RESULTS / f"compare-{loaded.name}-{mode}"
    recorder = ComparisonRecorder(loaded, mode)
    end_at_second_signal()
    with ProgressBar(open_console(stderr=True)) as progress:
        comparison = asyncio.run(
            measure(
                loaded,
                mode=mode,
                algorithms=_names(algorithms),
                baselines=None if baseline is None else _names(baseline),
                schedule=schedule,
                settings=parsed_settings,
                progress=progress,
                output=FileOutput(directory / "logs"),
                recorder=recorder,
            )
        )
    recording = directory / f"recording{RECORDING_SUFFIX}"
    recorder.recording().write(recording)
    _publish(comparison, directory, as_json, recording)


def _publish(comparison: Comparison, directory: Path, as_json: bool, recording: Path) -> None:
    from innet.errors import CollectiveError

    show_comparison(comparison, directory, as_json, [recording])
    wrong = {m.method for m in comparison.measurements if not m.correct}
    if wrong or not comparison.measurements:
        reason = f"wrong results: {', '.join(wrong)}" if wrong else "nothing could be measured"
        raise CollectiveError(f"{reason}. What the nodes printed is in {directory / 'logs'}.")


def _names(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(part.strip() for part in text.split(","))


def _schedule(sizes: str, repetitions: int | None, quick: bool) -> Schedule:
    from innet.lab.compare.sweep import Schedule

    turns = repetitions or (_QUICK_REPETITIONS if quick else None)
    return Schedule(sizes_bytes=_sizes_bytes(sizes), repetitions=turns)


def _sizes_bytes(text: str) -> tuple[int, ...]:
    """``4KiB..64MiB`` in steps of four with both ends, or ``64KiB,16MiB``."""
    if ".." not in text:
        return tuple(parsed_sizes_bytes(text, "--sizes"))
    with options.values_of("--sizes"):
        first, last = (parse_size_bytes(part) for part in text.split("..", 1))
    if not 0 < first <= last:
        raise typer.BadParameter(f"the range {text} is empty", param_hint="'--sizes'")
    sizes_bytes = []
    while first < last:
        sizes_bytes.append(first)
        first *= _STEP
    return (*sizes_bytes, last)
