"""``innet kv``: caches of key-value blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from innet.cli import options
from innet.cli.commands.up import LaunchOptions, MachineOptions, launch
from innet.cli.experiments import WITHOUT_RESULTS, parsed_sizes_bytes, run_and_show
from innet.cli.interrupts import exit_at_interrupt
from innet.cli.kv_blocks import (
    LIST_EXAMPLES,
    PIN_EXAMPLES,
    PURGE_EXAMPLES,
    UNPIN_EXAMPLES,
    list_blocks,
    pin,
    purge,
    unpin,
)
from innet.cli.kv_lookups import INDEX_EXAMPLES, LOCATE_EXAMPLES, index, locate
from innet.cli.network_choice import (
    changes_of,
    chosen_settings,
    chosen_topology,
    simulated_topology,
)
from innet.kv.eviction import DEFAULT_POLICY, POLICIES

app = typer.Typer()

REPLAY_EXAMPLES = options.examples(
    "innet kv replay workloads/traces/conversation.jsonl --block 256KiB --mtu 65000",
    "innet kv replay trace.jsonl --topology leaf-spine:4x2x4 --cache 1000blocks,8GiB "
    "--policy lru,s3fifo",
    "innet kv replay trace.jsonl --topology star8 --design home,local --requests 1000",
    "innet kv replay trace.jsonl --topology star8 --mode local --requests 50 --time-scale 0.2",
)

SERVE_EXAMPLES = options.examples(
    "innet kv serve pool.yaml",
    "innet kv serve pool.yaml --name prod --detach",
    "innet kv serve pool.yaml --rate 200mbit --delay 1ms",
    "innet kv serve pool.yaml --listen 10.0.0.1:4711 --token-file prod.token",
    "innet kv serve pool.yaml --on ray",
)


@app.command("serve", epilog=SERVE_EXAMPLES)
@options.grouped
def serve(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The pool: its network, tenants, memory and disks"),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Name of the network; that of the file by default"),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Continue in the background when the pool is up"),
    ] = False,
    *,
    links: options.TopologyOptions,
    machines: MachineOptions,
    observation: options.ObservationOptions,
    page: options.WebOptions,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Launch a network with a standing pool of blocks, and keep it up until Ctrl-C.

    Engines attach to it by its name, or by the address and the token file with which their machine
    has joined: [cyan]"address": ...[/] in the options of their adapter.
    """
    from innet.kv.service.pool_file import PoolFile
    from innet.kv.service.standing_pool import StandingPool

    pool = PoolFile(file)
    change = changes_of(links)
    launch(
        lambda list_machines: change(pool.topology(list_machines)),
        LaunchOptions(name or pool.name, detach, machines, observation, page, settings),
        lambda session: StandingPool(session, pool),
    )


LEAVE_EXAMPLES = options.examples("innet kv leave h3", "innet kv leave h3 --on prod")


@app.command("leave", epilog=LEAVE_EXAMPLES)
def leave(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="A host of the network that is on this machine")
    ],
    on: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The network; the only one of this machine by default"),
    ] = None,
) -> None:
    """Let the member of a standing pool leave, once its blocks are with other members.

    After it, the machine can be taken away: the pool has lost nothing. Its member comes back when
    the machine joins again. Ctrl-C ends this command, and not what the member does.
    """
    from innet.kv.service.standing_pool import leave as let_leave

    let_leave(on, host, lambda text: typer.echo(text, err=True))
    typer.echo(f"{host} has left the pool")


@app.command("replay", epilog=REPLAY_EXAMPLES)
@options.grouped
def replay(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="Recorded requests: Mooncake's [cyan].jsonl[/], or Azure's [cyan].csv[/]",
        ),
    ],
    topology: Annotated[
        str, typer.Option(help="A file, a shipped name or a generator, as elsewhere")
    ] = "leaf-spine:4x2x4",
    block: Annotated[str, typer.Option(help="Bytes of a block of 512 tokens")] = "2MiB",
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE,…",
            help="Memory of the cluster, one size after the other, such as 8GiB or 10000blocks; "
            "unlimited by default",
        ),
    ] = None,
    design: Annotated[
        str, typer.Option(metavar="NAME,…", help="Designs to compare: where blocks are kept")
    ] = "home,balanced,local",
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help=f"Eviction policies to compare: {', '.join(POLICIES)}; default {DEFAULT_POLICY}",
        ),
    ] = None,
    mode: Annotated[
        Literal["sim", "local", "netns"],
        typer.Option(
            help="[cyan]sim[/]: in virtual time; [cyan]local[/], [cyan]netns[/]: real processes "
            "and packets, in real time"
        ),
    ] = "sim",
    time_scale: Annotated[float, typer.Option(min=0, help="Factor of the trace's times")] = 1.0,
    requests: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Only the first N requests; all by default"),
    ] = None,
    *,
    experiment: options.ExperimentOptions,
    links: options.LinkOptions,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Replay recorded requests over a simulated or an emulated network, by policy and memory.

    Says where their blocks were found, what that cost on the links, and how long the first token
    took. A workload file ([cyan]innet sim[/]) has more to choose.
    """
    if mode == "sim":
        exit_at_interrupt(WITHOUT_RESULTS)
    from innet.lab.experiment.sweep import RunOptions, make_tasks
    from innet.lab.workload import load_workload
    from innet.quantities import parse_size_bytes

    with options.values_of("--block"):
        block_bytes = parse_size_bytes(block)
    loaded = chosen_topology(topology, links)
    if mode == "sim":
        loaded = simulated_topology(loaded)
    if trace.lower().endswith(".csv"):
        typer.echo(
            f"{trace} does not record which prompts share a prefix, so the replay finds no block",
            err=True,
        )
    chosen = load_workload(f"kv:{trace},block={block_bytes},time-scale={time_scale}")
    if requests is not None:
        chosen = chosen.with_repetitions(requests)
    tasks = make_tasks(
        loaded,
        chosen,
        algorithms=_variants(design, policy),
        sizes_bytes=parsed_sizes_bytes(cache, "--cache", block_bytes=chosen.block_bytes),
        seeds=[experiment.seed],
        options=RunOptions(chosen_settings(settings)),
    )
    kind = "" if mode == "sim" else f"-{mode}"
    directory = options.RESULTS / f"{chosen.name}-{loaded.name}{kind}"
    run_and_show(tasks, chosen.name, directory, experiment, mode=mode)


def _variants(designs: str, policies: str | None) -> list[str]:
    """Every design with every policy, as ``innet sim --algorithm`` takes them."""
    names = [design.strip() for design in designs.split(",")]
    if policies is None:
        return names
    return [f"{name}:policy={policy.strip()}" for policy in policies.split(",") for name in names]


app.command("locate", epilog=LOCATE_EXAMPLES)(locate)
app.command("index", epilog=INDEX_EXAMPLES)(index)
app.command("list", epilog=LIST_EXAMPLES)(list_blocks)
app.command("purge", epilog=PURGE_EXAMPLES)(purge)
app.command("pin", epilog=PIN_EXAMPLES)(pin)
app.command("unpin", epilog=UNPIN_EXAMPLES)(unpin)
