"""``innet capture``: the packets of a running network, in a file."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.observe.packets.capture import CaptureTotals

EXAMPLES = options.examples(
    "innet capture lab --output lab.pcapng",
    "innet capture lab --at s0,h3--s1 --seconds 10",
    "innet capture lab --prefix /train1/g0 --packets 1000",
    "innet dissect lab.pcapng | less",
    "innet sim star8 allreduce:1MiB --capture sim.pcapng     # in simulations",
)


def capture(
    run_id: options.RunId = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write or replace; [cyan]ID.pcapng[/] by default",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="NODE|LINK,…",
            help="Only these links: [cyan]s0[/] all of a node, [cyan]h0--s0[/] one",
        ),
    ] = None,
    prefix: options.NamePrefixes = None,
    packets: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after N packets")
    ] = None,
    seconds: Annotated[
        float | None,
        options.time_option("--seconds", least_s=0.01, help="End after this time"),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="End before the file is larger, such as [cyan]1GiB[/]"),
    ] = None,
) -> None:
    """Write the packets that cross links of a running network to a pcapng file, until Ctrl-C.

    Each direction of a link is an interface, named h0->s0. NDN packets are in UDP datagrams of port
    6363, so that Wireshark shows them. In local mode the nodes copy their packets; in netns mode
    the kernel does, packets of foreign programs included.
    """
    from innet.cluster.emulation.runs import find_run
    from innet.observe.packets.capture import CaptureLimits, CaptureSession, chosen_links
    from innet.observe.packets.outline import PacketChoice
    from innet.quantities import parse_size_bytes
    from innet.topology import load_topology

    record = find_run(run_id)
    path = output or Path(f"{record.run_id}.pcapng")
    topology = load_topology(record.topology_path)
    ports = chosen_links(topology, at.split(",") if at else [], record.mode)
    with options.values_of("--prefix"):
        choice = PacketChoice.of(prefix or [])
    with options.values_of("--size"):
        size_bytes = None if size is None else parse_size_bytes(size)
    limits = CaptureLimits(packets, seconds, size_bytes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with CaptureSession(record, ports, path, choice) as session:
        links = "link" if len(ports) == 1 else "links"
        try:
            say(f"capturing {len(ports)} {links} of {record.run_id} into {path}", err=True)
            session.run(limits, _show_progress if sys.stderr.isatty() else lambda _: None)
        except KeyboardInterrupt:
            session.totals.ended = "interrupted"
        totals = session.totals
    say(f"{_described(totals)}: {totals.ended}", err=True)
    if totals.lost:
        say(
            "buffers overflowed, so some packets are missing: capture fewer links (--at)",
            err=True,
        )


def _show_progress(totals: CaptureTotals) -> None:
    typer.echo(f"\r\x1b[K{_described(totals)}", nl=bool(totals.ended), err=True)


def _described(totals: CaptureTotals) -> str:
    lost = f", {totals.lost} lost" if totals.lost else ""
    return (
        f"{totals.packets} packets, {totals.size_bytes / 1e6:.2f} MB in {totals.elapsed_s:.1f} s"
        f"{lost}"
    )
