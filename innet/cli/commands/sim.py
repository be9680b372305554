"""``innet sim``: runs workloads on simulated networks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from innet.cli import options
from innet.cli.experiments import WITHOUT_RESULTS, parsed_sizes_bytes, run_and_show
from innet.cli.interrupts import exit_at_interrupt
from innet.cli.network_choice import chosen_settings, chosen_topology, simulated_topology

EXAMPLES = options.examples(
    "innet sim star8 allreduce:16MiB --rate 1gbit",
    "innet sim leaf-spine:4x2x4 alltoall:1MiB,repetitions=10 --algorithm inc",
    "innet sim fat-tree:4 workloads/training.yaml --algorithm inc,ring --seeds 8",
    "innet sim star8 allreduce --sizes 64KiB,1MiB,16MiB --output results/sizes",
    "innet sim star8 allreduce:16MiB --algorithm inc,tcp-ring,tcp-ps --rate 1gbit",
    "innet sim star8 astra-sim:transformer.txt,model-parallel=4",
    "innet sim star8 allreduce:64KiB --algorithm inc --capture a.pcapng --capture-at s0",
    "innet sim fat-tree:4 allreduce:16MiB --algorithm inc --record lab.innetrec",
    "innet sim fat-tree:16 allreduce:100MB --algorithm inc --mtu 65000 --queue 64MiB",
    "innet sim leaf-spine:4x2x4 kv:trace.jsonl,block=256KiB --sizes 1GiB,8GiB --mtu 65000",
)

_ALGORITHMS = "inc,ring,ps"
_DESIGNS = "home,balanced,local"


@dataclass(frozen=True)
class TraceOptions(options.OptionGroup):
    """Options of captures and recordings."""

    panel = "Packet traces and recordings"

    capture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Capture packets: of one run into a [cyan].pcapng[/] file, or of each run into a "
            "file of a directory",
        ),
    ] = None
    capture_at: Annotated[
        str | None,
        typer.Option(
            metavar="NODE|LINK,…",
            help="Capture only at these nodes and links: [cyan]s0[/], [cyan]h0--s0[/]",
        ),
    ] = None
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Record for [cyan]innet watch FILE --web[/]: one run into a "
            "[cyan].innetrec[/] file, or each run into a file of a directory",
        ),
    ] = None


@options.grouped
def sim(
    topology: options.Topology,
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="A file ([cyan].yaml[/]) or a short form: [cyan]allreduce:16MiB[/] and any other "
            "collective, [cyan]training:layers.csv[/], [cyan]astra-sim:workload.txt[/], "
            "[cyan]kv:trace.jsonl[/]",
        ),
    ],
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Algorithms to compare, by default [cyan]inc,ring,ps[/]; also "
            "[cyan]halving-doubling[/], [cyan]auto[/]; over TCP [cyan]tcp-ring[/], "
            "[cyan]tcp-ps[/]. For a [cyan]kv[/] replay: [cyan]home,balanced,local[/]. Jobs of a "
            "file may name their own",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,…",
            help="Sizes of a collective, or of a replay's memory, one after the other",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Run with N seeds, from --seed on")
    ] = 1,
    like: Annotated[
        Literal["local", "netns"],
        typer.Option(help="Links to model: the emulator's, or the kernel's token buckets"),
    ] = "local",
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, help="Timed operations or steps, in place of the workload's"),
    ] = None,
    payloads: Annotated[
        Literal["auto", "real", "virtual"],
        typer.Option(
            help="[cyan]virtual[/]: lengths without contents; [cyan]auto[/]: virtual where real "
            "ones would need much memory"
        ),
    ] = "auto",
    *,
    traces: TraceOptions,
    experiment: options.ExperimentOptions,
    within_hosts: options.HostOptions,
    links: options.TopologyOptions,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Simulate a workload on a network of any size, in virtual time.

    Nodes, plans and collectives are those of a real run; the same seed gives the same result on
    every machine. Ctrl-C keeps what was measured so far.
    """
    exit_at_interrupt(WITHOUT_RESULTS)
    from innet.lab.experiment.sweep import (
        RunOptions,
        make_tasks,
        with_packet_traces,
        with_recordings,
    )
    from innet.lab.workload import load_workload

    loaded = simulated_topology(chosen_topology(topology, links, within_hosts))
    chosen = load_workload(workload)
    if repetitions is not None:
        chosen = chosen.with_repetitions(repetitions)
    if traces.capture_at is not None and traces.capture is None:
        raise typer.BadParameter("needs --capture FILE|DIR", param_hint="'--capture-at'")
    parsed_settings = chosen_settings(settings)
    sizes_bytes = parsed_sizes_bytes(sizes, "--sizes", block_bytes=chosen.block_bytes)
    tasks = make_tasks(
        loaded,
        chosen,
        algorithms=_algorithms(algorithm or (_DESIGNS if chosen.is_replay else _ALGORITHMS)),
        sizes_bytes=sizes_bytes,
        seeds=range(experiment.seed, experiment.seed + seeds),
        options=RunOptions(parsed_settings, like, payloads),
    )
    if traces.capture is not None:
        at = [] if traces.capture_at is None else traces.capture_at.split(",")
        tasks = with_packet_traces(tasks, traces.capture, at=at, sizes_bytes=sizes_bytes)
    if traces.record is not None:
        tasks = with_recordings(tasks, traces.record, sizes_bytes)
    directory = options.RESULTS / f"sim-{loaded.name}-{chosen.name}"
    run_and_show(tasks, chosen.name, directory, experiment)


def _algorithms(text: str) -> list[str]:
    """``inc,ps:server=h3``: a part with ``=`` and without a colon belongs to the one before."""
    names: list[str] = []
    for part in text.split(","):
        if names and "=" in part and ":" not in part:
            names[-1] += f",{part.strip()}"
        else:
            names.append(part.strip())
    return names
