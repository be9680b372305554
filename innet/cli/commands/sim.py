"""``innet sim``: workloads on simulated networks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from innet.cli import options
from innet.cli.network_choice import chosen_settings, chosen_topology

if TYPE_CHECKING:
    from innet.compare.measurement import Comparison

EXAMPLES = options.examples(
    "innet sim star8 allreduce:16MiB --rate 1gbit",
    "innet sim leaf-spine:4x2x4 alltoall:1MiB,repetitions=10 --algorithm inc",
    "innet sim fat-tree:4 workloads/training.yaml --algorithm inc,ring --seeds 8",
    "innet sim star8 allreduce --sizes 64KiB,1MiB,16MiB --output results/sizes",
    "innet sim star8 allreduce:16MiB --algorithm inc,tcp-ring,tcp-ps --rate 1gbit",
    "innet sim star8 astra-sim:transformer.txt,model-parallel=4",
    "innet sim star8 allreduce:64KiB --algorithm inc --capture a.pcapng --capture-at s0",
    "innet sim fat-tree:16 allreduce:100MB --algorithm inc --mtu 65000 --queue 64MiB",
    "innet sim leaf-spine:4x2x4 kv:trace.jsonl,block=256KiB --sizes 1GiB,8GiB --mtu 65000",
)

_RESULTS = Path("results")
_ALGORITHMS = "inc,ring,ps"
_DESIGNS = "network,home,local"
_CAPTURE_PANEL = "Packet traces"


def sim(
    topology: options.Topology,
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="A file ([cyan].yaml[/]) or a short form: [cyan]allreduce:16MiB[/] and any other "
            "collective, [cyan]training:layers.csv[/], [cyan]astra-sim:workload.txt[/], "
            "[cyan]kv:trace.jsonl[/]",
            show_default=False,
        ),
    ],
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="To compare, by default [cyan]inc,ring,ps[/]; also [cyan]halving-doubling[/], "
            "[cyan]auto[/]; over TCP [cyan]tcp-ring[/], [cyan]tcp-ps[/]. Of a [cyan]kv[/] replay: "
            "[cyan]network,home,local[/]. Jobs of a file may name their own",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,…", help="Of a collective, or a replay's memory, one after the other"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random")] = 1,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Run with N seeds, from --seed on")
    ] = 1,
    like: Annotated[
        Literal["local", "netns"],
        typer.Option(
            help="Whose links are modelled: the emulator's own, or the kernel's token buckets"
        ),
    ] = "local",
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, help="Timed operations or steps, in place of the workload's"),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at once; as many as cores")
    ] = None,
    payloads: Annotated[
        Literal["auto", "real", "virtual"],
        typer.Option(
            help="[cyan]virtual[/]: lengths only, arrays in memory are thin; [cyan]auto[/]: where "
            "real ones would take much memory"
        ),
    ] = "auto",
    capture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Write the packets down: one run's to a [cyan].pcapng[/] file, or a file for each "
            "run in a directory",
            rich_help_panel=_CAPTURE_PANEL,
        ),
    ] = None,
    capture_at: Annotated[
        str | None,
        typer.Option(
            metavar="NODE|LINK,…",
            help="Only those of these nodes and links: [cyan]s0[/], [cyan]h0--s0[/]",
            rich_help_panel=_CAPTURE_PANEL,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For the JSON and the report")
    ] = None,
    as_json: options.AsJson = False,
    rate: options.Rate = None,
    delay: options.Delay = None,
    loss: options.Loss = None,
    queue: options.Queue = None,
    mtu: options.Mtu = None,
    slots: options.Slots = None,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Simulate a workload on a network of any size, in virtual time.

    The nodes, plans and collectives are those of a real run; the same seed gives the same result
    everywhere. Ctrl-C ends with what was measured so far.
    """
    from rich.console import Console

    from innet.cli.simulation_progress import SimulationProgress
    from innet.compare.machine import Machine
    from innet.compare.progress import ProgressBar
    from innet.simulation.experiment.outcome import outcome
    from innet.simulation.experiment.sweep import make_tasks, sweep
    from innet.simulation.workload import load_workload

    loaded = chosen_topology(
        topology, rate=rate, delay=delay, loss=loss, queue=queue, mtu=mtu, slots=slots
    )
    chosen = load_workload(workload)
    if repetitions is not None:
        chosen = chosen.with_repetitions(repetitions)
    if capture_at is not None and capture is None:
        raise typer.BadParameter(
            "say where the packets shall go: --capture FILE|DIR", param_hint="'--capture-at'"
        )
    parsed_settings = chosen_settings(settings)
    machine = Machine.here()
    tasks = make_tasks(
        loaded,
        chosen,
        algorithms=_algorithms(algorithm or (_DESIGNS if chosen.is_replay else _ALGORITHMS)),
        sizes_bytes=_sizes_bytes(sizes),
        seeds=range(seed, seed + seeds),
        settings=parsed_settings,
        like=like,
        payloads=payloads,
        capture=capture,
        capture_at=[] if capture_at is None else capture_at.split(","),
    )
    cores = len(os.sched_getaffinity(0))
    with ProgressBar(Console(stderr=True)) as bar:
        runs = sweep(tasks, processes=processes or cores, told=SimulationProgress(bar))
    comparison = outcome(loaded, chosen.name, parsed_settings, machine, runs)
    _publish(comparison, output or _RESULTS / f"sim-{loaded.name}-{chosen.name}", as_json)


def _publish(comparison: Comparison, directory: Path, as_json: bool) -> None:
    from innet.cli.comparison_output import show_comparison
    from innet.errors import SimulationError

    show_comparison(comparison, directory, as_json)
    wrong = sorted({m.method for m in comparison.measurements if not m.correct})
    if wrong:
        raise SimulationError(
            f"wrong results: {', '.join(wrong)}. This is a defect of innet; please report it with "
            "the topology, the workload and the seed"
        )
    if comparison.interrupted:
        raise typer.Exit(_EXIT_INTERRUPTED)
    if not comparison.measurements:
        reasons = "; ".join(failure.reason for failure in comparison.failures)
        raise SimulationError(f"no operation ended well: {reasons}")


_EXIT_INTERRUPTED = 130  # as shells have it: 128 and the number of SIGINT


def _algorithms(text: str) -> list[str]:
    """``inc,ps:server=h3``: a part with ``=`` and without a colon belongs to the one before."""
    names: list[str] = []
    for part in text.split(","):
        if names and "=" in part and ":" not in part:
            names[-1] += f",{part.strip()}"
        else:
            names.append(part.strip())
    return names


def _sizes_bytes(text: str | None) -> list[int]:
    from innet.topology.quantities import QuantityError, parse_size_bytes

    if text is None:
        return []
    try:
        return sorted({parse_size_bytes(part) for part in text.split(",")})
    except QuantityError as error:
        raise typer.BadParameter(str(error), param_hint="'--sizes'") from None
