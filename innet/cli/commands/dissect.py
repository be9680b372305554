"""``innet dissect``: prints the packets of a capture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.observe.packets.outline import Outline, PacketChoice

_NAMES_LISTED = 8

EXAMPLES = options.examples(
    "innet dissect lab.pcapng",
    "innet dissect lab.pcapng --prefix /train1/g0/3 --kind data,nack",
    "innet dissect lab.pcapng --tree --packets 10",
    "innet dissect tcpdump.pcap --port 16363",
)


def dissect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="pcap or pcapng, of innet, tcpdump or Wireshark")
    ],
    tree: Annotated[
        bool, typer.Option("--tree", help="Print a line for every element of every packet")
    ] = False,
    prefix: options.NamePrefixes = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,…",
            help="Only these kinds: [cyan]interest[/], [cyan]data[/], [cyan]nack[/], "
            "[cyan]hold[/], [cyan]hello[/], [cyan]idle[/], [cyan]fragment[/], [cyan]malformed[/]",
        ),
    ] = None,
    port: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=65535, help="UDP and TCP ports of NDN, in place of 6363; repeatable"
        ),
    ] = None,
    packets: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Print only the first N packets")
    ] = None,
) -> None:
    """Print the NDN packets of a capture: one in a line, or as trees (--tree).

    A line has the frame's number, seconds since the first frame, the interface, the packet's kind,
    size, name and other fields. Files may be of any size.
    """
    from itertools import islice

    from innet.observe.packets.frames import read_packets
    from innet.observe.packets.outline import Outline, PacketChoice
    from innet.tlv_numbers import NDN_PORT

    with options.values_of("--prefix", "--kind"):
        choice = PacketChoice.of(prefix or [], kind.split(",") if kind else [])
    filtered = _Filtered(choice)
    found = ((p, Outline.of(p.packet)) for p in read_packets(file, port or [NDN_PORT]))
    wanted = ((p, outline) for p, outline in found if filtered.wants(outline))
    for read, outline in islice(wanted, packets):
        where = f" {read.where}" if read.where else ""
        say(f"{read.number:>6} {read.since_first_s:11.6f}{where}  {outline}")
        if tree:
            _print_tree(read.packet)
    if not filtered.shown:
        say(f"{file}: {filtered.why_none(port or [NDN_PORT])}", err=True)


class _Filtered:
    """Applies a choice of packets, and counts what it shows."""

    def __init__(self, choice: PacketChoice) -> None:
        self._choice = choice
        self._packets = 0
        self._first_components: dict[str, None] = {}
        self.shown = 0

    def wants(self, outline: Outline) -> bool:
        """Whether the packet is shown."""
        self._packets += 1
        if outline.name and len(self._first_components) <= _NAMES_LISTED:
            self._first_components.setdefault("/" + outline.uri.split("/")[1])
        is_wanted = self._choice.wants(outline)
        self.shown += is_wanted
        return is_wanted

    def why_none(self, ports: Sequence[int]) -> str:
        """Why no packet was shown."""
        from innet.quantities import counted

        if not self._packets:
            listed = ", ".join(map(str, ports))
            return f"no NDN packet found; UDP and TCP on port {listed} are read (see --port)"
        names = [*self._first_components]
        begin = ", ".join(names[:_NAMES_LISTED]) + (", …" if len(names) > _NAMES_LISTED else "")
        listed = f"; its names begin with {begin}" if names else ""
        return f"none of {counted(self._packets, 'packet')} matches --prefix and --kind{listed}"


def _print_tree(packet: bytes) -> None:
    from innet.observe.packets.tree import tree_lines

    for line in tree_lines(packet):
        say(f"{'':8}{line}")
