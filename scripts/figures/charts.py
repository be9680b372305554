"""Figures of times: bounds over the number of ranks, and packets over time."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from svg import BLUE, GREEN, GREY, INK, RED, Drawing

import innet
from innet.observe.packets.frames import read_packets
from innet.observe.packets.outline import Outline
from innet.plans import textbook_bound_s
from innet.topology import load_topology

TENSOR_BYTES: Final = 16 << 20
RATE_BPS: Final = 10**9
MOST_RANKS: Final = 16
MOST_S: Final = 0.8

LINK_RATE_BPS: Final = 10**8
LINK_DELAY_S: Final = 0.002
ELEMENTS: Final = 2000
"""They fill a packet."""
LATE_S: Final = 0.02
DRAWN_S: Final = 0.03


def bounds() -> Drawing:
    """The bounds of three algorithms on one switch, by the number of ranks."""
    drawing = Drawing(
        760,
        400,
        "Least time to sum 16 MiB over links of 1 Gbit/s. In-network aggregation needs the same "
        "time for any number of ranks, a ring up to twice as long, a parameter server N-1 times as "
        "long.",
    )
    left, right, top, bottom = 74.0, 560.0, 50.0, 340.0

    def at(ranks: float, time_s: float) -> tuple[float, float]:
        x = left + (ranks - 2) / (MOST_RANKS - 2) * (right - left)
        return x, bottom - time_s / MOST_S * (bottom - top)

    drawing.text(left, 30, "least time for 16 MiB at 1 Gbit/s", anchor="start", bold=True)
    for tenths in range(0, 9, 2):
        _, y = at(2, tenths / 10)
        drawing.line([(left, y), (right, y)], colour="#d0d7de", width=1)
        drawing.text(left - 8, y + 5, f"{tenths / 10:.1f} s", anchor="end", size=13, colour=GREY)
    for ranks in range(2, MOST_RANKS + 1, 2):
        x, _ = at(ranks, 0)
        drawing.text(x, bottom + 20, str(ranks), size=13, colour=GREY)
    drawing.text((left + right) / 2, bottom + 44, "ranks N", size=13, colour=GREY)
    curves = (
        ("inc", GREEN, "in-network: M / B"),
        ("ring", BLUE, "ring: 2 M (N-1) / (N B)"),
        ("ps", RED, "parameter server: (N-1) M / B"),
    )
    for algorithm, colour, words in curves:
        times_s = ((n, _bound_s(algorithm, n)) for n in range(2, MOST_RANKS + 1))
        points = [at(n, time_s) for n, time_s in times_s if time_s <= MOST_S]
        drawing.line(points, colour=colour)
        x, y = points[-1]
        is_cut = x < right
        drawing.text(
            x + 10, y - (4 if is_cut else -5), words, anchor="start", size=13, colour=colour
        )
    return drawing


def _bound_s(algorithm: str, ranks: int) -> float:
    return textbook_bound_s(algorithm, ranks, TENSOR_BYTES, RATE_BPS)


@dataclass(frozen=True)
class Crossing:
    """A packet on one link of a simulation."""

    sender: str
    receiver: str
    sent_s: float
    arrived_s: float
    kind: str
    ranks: str


def exchange() -> Drawing:
    """The packets of an allreduce of one segment: ranks on time, and a late one."""
    drawing = Drawing(
        900,
        470,
        "Time runs down. Both ranks send their contributions and a request for the sum; the switch "
        "adds and answers after one round trip. When rank 1 is late, its request is held, and the "
        "sum follows its contribution at once.",
    )
    _timeline(drawing, 10, "Both ranks call at once", 0)
    _timeline(drawing, 455, f"Rank 1 calls {LATE_S * 1000:.0f} ms late", LATE_S)
    for x, colour, words in (
        (60, BLUE, "contribution (Data)"),
        (300, GREY, "request (Interest)"),
        (540, GREEN, "sum (Data)"),
        (730, RED, "Hold"),
    ):
        drawing.line(
            [(x, 446), (x + 34, 446)], colour=colour, arrow=True, dashed=colour in (GREY, RED)
        )
        drawing.text(x + 44, 451, words, anchor="start", size=13)
    return drawing


def _timeline(drawing: Drawing, left: float, title: str, late_s: float) -> None:
    lanes = {"h0": left + 60, "s0": left + 215, "h1": left + 370}
    top, bottom = 86.0, 420.0
    drawing.text(left + 215, 30, title, size=16, bold=True)
    for node, x in lanes.items():
        drawing.text(x, 62, f"{'switch' if node == 's0' else 'host'} {node}", bold=True, size=13)
        drawing.line([(x, 72), (x, bottom)], width=1.5, colour=INK)
    for ms in range(0, round(DRAWN_S * 1000) + 1, 5):
        y = top + ms / 1000 / DRAWN_S * (bottom - top)
        drawing.text(left + 44, y + 4, f"{ms} ms", size=11, colour=GREY, anchor="end")
    for crossing in crossings(late_s):
        start = lanes[crossing.sender], top + crossing.sent_s / DRAWN_S * (bottom - top)
        end = lanes[crossing.receiver], top + crossing.arrived_s / DRAWN_S * (bottom - top)
        colour = _colour(crossing)
        drawing.line([start, end], colour=colour, width=2, arrow=True, dashed=colour in (GREY, RED))


def _colour(crossing: Crossing) -> str:
    if crossing.kind == "data":
        return GREEN if "-" in crossing.ranks else BLUE
    return RED if crossing.kind == "hold" else GREY


def crossings(late_s: float) -> Iterable[Crossing]:
    """What crosses the links of a star of two hosts that sum one segment, simulated."""
    network = load_topology("star:2").with_overrides(rate_bps=LINK_RATE_BPS, delay_s=LINK_DELAY_S)

    async def call(comm: innet.Communicator) -> None:
        if comm.rank == 1:
            await asyncio.sleep(late_s)
        await comm.iallreduce(np.ones(ELEMENTS, np.float32))

    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.pcapng"
        with innet.Simulation(network, seed=1) as sim:
            sim.capture(trace)
            sim.run(*(call(comm) for comm in sim.group(algorithm="inc")))
        for read in read_packets(trace):
            outline = Outline.of(read.packet)
            sender, _, receiver = read.where.partition("->")
            on_the_way_s = LINK_DELAY_S + len(read.packet) * 8 / LINK_RATE_BPS
            yield Crossing(
                sender,
                receiver,
                read.time_s - on_the_way_s,
                read.time_s,
                outline.kind,
                outline.uri.split("/")[3],
            )
