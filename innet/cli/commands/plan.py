"""``innet plan``: shows which node adds what and why, and the bound in time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from innet.cli import options
from innet.cli.network_choice import chosen_hosts, chosen_plan, chosen_topology, processor_costs
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from innet.cluster.measured_load import MeasuredLoad
    from innet.plans import Explanation, HostChoice, Plan
    from innet.topology import Topology

EXAMPLES = options.examples(
    "innet plan leaf-spine-16 --algorithm inc",
    "innet plan star8 --algorithm auto --size 16MiB --rate 200mbit",
    "innet plan star8 --size 64KiB --rate unlimited --mode netns",
    "innet plan star8 --algorithm ps:server=h3 --json",
    "innet plan leaf-spine-16 --ranks 6 --explain",
    "innet plan --for lab --ranks 6 --explain     # beside the jobs on that network",
)

_BUSIEST_LINKS = 8


@options.grouped
def plan(
    topology: options.OptionalTopology = None,
    algorithm: options.Algorithm = "auto",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of each rank's tensor: [cyan]16MiB[/]")
    ] = "1MiB",
    hosts: options.Hosts = None,
    ranks: options.Ranks = None,
    *,
    network: options.NetworkOrFile = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Say which hosts, switches and trees were chosen and why, what others cost, and "
            "who shares the bottleneck",
        ),
    ] = False,
    mode: Annotated[
        Literal["local", "netns"] | None,
        typer.Option(
            help="Let auto choose as on a network in this mode on this machine, by processor time "
            "too; without it, by the links alone"
        ),
    ] = None,
    within_hosts: options.HostOptions,
    links: options.TimeOptions,
    as_json: options.AsJson = False,
) -> None:
    """Show who adds what, the busiest links, and the bound in time."""
    from innet.plans import choose_hosts

    options.refuse_ranks_with_hosts(ranks, hosts)
    where = _where(topology, network, links, within_hosts)
    size_bytes = _size_bytes(size)
    measured = where.measured
    placed = (
        None
        if ranks is None
        else choose_hosts(where.topology, ranks, taken=measured.taken, load=measured.load)
    )
    named = chosen_hosts(hosts) if placed is None else placed.hosts
    made = chosen_plan(algorithm, where.topology, named, size_bytes, mode, measured.load)
    why = _explained(made, where, size_bytes, placed, mode) if explain else None
    if as_json:
        _print_json(made, where.topology, size_bytes, why)
        return
    console = open_console(highlight=False)
    if why is not None:
        for sentence in why.sentences():
            console.print(sentence, markup=False, soft_wrap=True)
        console.print()
    console.print(made.describe(), markup=False, soft_wrap=True)
    console.print()
    console.print(_busiest_links(made, where.topology, size_bytes))
    console.print(f"\n{_bound_text(made, where.topology, size_bytes)}")


@dataclass(frozen=True, slots=True)
class _Where:
    """The topology that a plan is for, and the load of the running network."""

    topology: Topology
    measured: MeasuredLoad


def _where(
    topology: str | None,
    network: str | None,
    links: options.TimeOptions,
    within_hosts: options.HostOptions,
) -> _Where:
    from innet.cluster.emulation.runs import find_run, list_runs, names_of_runs
    from innet.cluster.measured_load import MeasuredLoad, read_load
    from innet.errors import TopologyError
    from innet.topology import load_topology

    if (topology is None) == (network is None):
        raise typer.BadParameter(
            "name what to plan for: a TOPOLOGY, or a network that is up with --for NETWORK"
            if topology is None
            else f"{topology} and --for {network} both name what to plan for; give one of them",
            param_hint="'--for'",
        )
    if topology is not None:
        return _Where(chosen_topology(topology, links, within_hosts), MeasuredLoad())
    assert network is not None
    if all(record.run_id != network for record in list_runs()):
        try:
            return _Where(chosen_topology(network, links, within_hosts), MeasuredLoad())
        except TopologyError as error:
            raise TopologyError(
                f"{network!r} is neither a network on this machine ({names_of_runs()}) nor a "
                f"topology: {error}"
            ) from error
    given = asdict(links) | asdict(within_hosts)
    if any(value is not None for value in given.values()):
        raise typer.BadParameter(
            f"{network} is up, and its links and hosts are as they are; leave out --rate, --delay, "
            "--workers-per-host and --memory-rate",
            param_hint="'--for'",
        )
    record = find_run(network)
    measured = read_load(record)
    return _Where(load_topology(str(record.topology_path)), measured)


def _explained(
    made: Plan,
    where: _Where,
    size_bytes: int,
    placed: HostChoice | None,
    mode: Literal["local", "netns"] | None,
) -> Explanation:
    from innet.plans import explain

    return explain(
        made,
        where.topology,
        size_bytes,
        load=where.measured.load,
        jobs=where.measured.jobs,
        hosts=placed,
        processor=None if mode is None else processor_costs(where.topology, mode),
    )


def _print_json(made: Plan, topology: Topology, size_bytes: int, why: Explanation | None) -> None:
    import json

    from innet.plans import bound_s, bytes_per_link

    carried = bytes_per_link(made, topology, size_bytes)
    document = {
        "plan": made.to_dict(),
        "size_bytes": size_bytes,
        "bound_s": bound_s(made, topology, size_bytes),
        "bytes_per_link": [{"from": u, "to": v, "bytes": n} for (u, v), n in carried.items()],
        **({} if why is None else {"explanation": why.to_dict()}),
    }
    say(json.dumps(document, indent=2))


def _size_bytes(text: str) -> int:
    from innet.quantities import parse_size_bytes

    with options.values_of("--size"):
        size_bytes = parse_size_bytes(text)
        if size_bytes == 0:
            raise ValueError("an operation has at least 1 byte")
    return size_bytes


def _busiest_links(plan: Plan, topology: Topology, size_bytes: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    from innet.plans import bytes_per_link
    from innet.plans.bounds import link_times_s
    from innet.quantities import rounded_duration, rounded_size
    from innet.topology.summary import rate_text

    carried = bytes_per_link(plan, topology, size_bytes)
    times_s = link_times_s(topology, carried)
    busiest = sorted(carried, key=lambda link: (-times_s[link], -carried[link]))
    table = Table(box=None, pad_edge=False)
    for column in ("from", "to", "payload", "rate", "time"):
        table.add_column(column, overflow="fold")
    for link in busiest[:_BUSIEST_LINKS]:
        rate = rate_text(topology.link_between(*link))
        time = rounded_duration(times_s[link]) if times_s[link] else "-"
        table.add_row(*link, rounded_size(carried[link]), rate, time)
    return Group(f"Busiest of {len(carried)} used links, each direction on its own", table)


def _bound_text(plan: Plan, topology: Topology, size_bytes: int) -> str:
    from innet.plans.bounds import bounds_of_levels_s
    from innet.quantities import format_size

    within, between = bounds_of_levels_s(plan, topology, size_bytes)
    bound = max(within, between)
    what = f"allreduce of {format_size(size_bytes)} per rank"
    if bound == 0:
        return f"Bound: none for an {what}; the links have no rate."
    levels = f"within hosts {within:.4g} s, between machines {between:.4g} s; " if within else ""
    return f"Bound: an {what} takes at least {bound:.4g} s ({levels}payload on the busiest link)."
