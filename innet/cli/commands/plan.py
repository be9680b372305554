"""``innet plan``: shows which node adds what, and the bound in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from innet.cli import options
from innet.cli.network_choice import chosen_hosts, chosen_plan, chosen_topology
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from rich.table import Table

    from innet.plans import Plan
    from innet.topology import Topology

EXAMPLES = options.examples(
    "innet plan leaf-spine-16 --algorithm inc",
    "innet plan star8 --algorithm auto --size 16MiB --rate 200mbit",
    "innet plan star8 --size 64KiB --rate unlimited --mode netns",
    "innet plan star8 --algorithm ps:server=h3 --json",
)

_BUSIEST_LINKS = 8


@options.grouped
def plan(
    topology: options.Topology,
    algorithm: options.Algorithm = "auto",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of each rank's tensor: [cyan]16MiB[/]")
    ] = "1MiB",
    hosts: options.Hosts = None,
    workers_per_host: options.WorkersPerHost = None,
    *,
    mode: Annotated[
        Literal["local", "netns"] | None,
        typer.Option(
            help="Let auto choose as on a network in this mode on this machine, by processor time "
            "too; without it, by the links alone"
        ),
    ] = None,
    links: options.TimeOptions,
    as_json: options.AsJson = False,
) -> None:
    """Show who adds what, the busiest links, and the bound in time."""
    import json

    from innet.plans import bound_s, bytes_per_link

    loaded = chosen_topology(topology, links, workers_per_host)
    size_bytes = _size_bytes(size)
    made = chosen_plan(algorithm, loaded, chosen_hosts(hosts), size_bytes, mode)
    if as_json:
        carried = bytes_per_link(made, loaded, size_bytes)
        document = {
            "plan": made.to_dict(),
            "size_bytes": size_bytes,
            "bound_s": bound_s(made, loaded, size_bytes),
            "bytes_per_link": [{"from": u, "to": v, "bytes": n} for (u, v), n in carried.items()],
        }
        say(json.dumps(document, indent=2))
        return
    console = open_console(highlight=False)
    console.print(made.describe(), markup=False, soft_wrap=True)
    console.print()
    console.print(_links_table(made, loaded, size_bytes))
    console.print(f"\n{_bound_text(made, loaded, size_bytes)}")


def _size_bytes(text: str) -> int:
    from innet.quantities import parse_size_bytes

    with options.values_of("--size"):
        size_bytes = parse_size_bytes(text)
        if size_bytes == 0:
            raise ValueError("an operation has at least 1 byte")
    return size_bytes


def _links_table(plan: Plan, topology: Topology, size_bytes: int) -> Table:
    from rich.table import Table

    from innet.plans import bytes_per_link
    from innet.topology.summary import rate_text

    carried = bytes_per_link(plan, topology, size_bytes)
    busiest = sorted(carried.items(), key=lambda item: -item[1])
    table = Table(
        title=f"Busiest of {len(carried)} used links, each direction on its own",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for column in ("from", "to", "payload", "rate"):
        table.add_column(column)
    for (u, v), carried_bytes in busiest[:_BUSIEST_LINKS]:
        rate = rate_text(topology.link_between(u, v))
        table.add_row(u, v, f"{carried_bytes / 2**20:.3f} MiB", rate)
    return table


def _bound_text(plan: Plan, topology: Topology, size_bytes: int) -> str:
    from innet.plans import bound_s
    from innet.quantities import format_size

    bound = bound_s(plan, topology, size_bytes)
    what = f"allreduce of {format_size(size_bytes)} per rank"
    if bound == 0:
        return f"Bound: none for an {what}; the links have no rate."
    return f"Bound: an {what} takes at least {bound:.4g} s (payload on the busiest link)."
