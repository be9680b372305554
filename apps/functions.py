"""Functions with names: one program serves them, another one calls them and chains them.

The first rank of a job serves, and all others call, wherever their hosts are:

    innet run star:4 -- python apps/functions.py

Or in two terminals, with any forwarder of innet's in between (`innet forwarder`):

    python apps/functions.py --serve
    python apps/functions.py --call
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Iterator

import numpy as np

import innet

Frame = np.ndarray[tuple[int, int], np.dtype[np.float32]]
SIDE = 128
FRAMES = 24


@innet.function("/demo/sum")
def total(values: Frame) -> float:
    """The sum of all elements."""
    return float(values.sum())


@innet.function("/demo/halve")
def halve(frame: Frame) -> Frame:
    """The frame with half the width and height: means of two by two."""
    height, width = frame.shape
    halved: Frame = frame.reshape(height // 2, 2, width // 2, 2).mean((1, 3))
    return halved


@innet.function("/demo/brightest")
def brightest(frame: Frame) -> list[int]:
    """The indices of the largest element."""
    row, column = np.unravel_index(frame.argmax(), frame.shape)
    return [int(row), int(column)]


def frames() -> Iterator[Frame]:
    """A bright square that moves."""
    for step in range(FRAMES):
        frame = np.zeros((SIDE, SIDE), np.float32)
        at = 4 * step
        frame[at : at + 4, at : at + 4] = 1.0
        yield frame


async def call() -> None:
    """One function by itself, then two in a chain."""
    values = np.ones((SIDE, SIDE), np.float32)
    print(f"/demo/sum says {await innet.call(total.name, values):g}", flush=True)
    places = [place async for place in innet.flow(frames(), halve.name, brightest.name)]
    assert places == [[2 * step, 2 * step] for step in range(FRAMES)]
    print(f"{len(places)} frames went through /demo/halve and /demo/brightest", flush=True)


async def serve_or_call() -> None:
    """Rank 0 serves the functions, and the others call them."""
    comm = await asyncio.to_thread(innet.init)
    if comm.rank == 0:
        async with innet.serving(total, halve, brightest):
            await asyncio.to_thread(comm.barrier)  # now they can be called
            await asyncio.to_thread(comm.barrier)  # all have
    else:
        await asyncio.to_thread(comm.barrier)
        await call()
        await asyncio.to_thread(comm.barrier)


async def main() -> None:
    """Serve or call, as the options or else the rank say."""
    parser = argparse.ArgumentParser(description="Functions with names")
    parser.add_argument("--serve", action="store_true", help="serve until Ctrl-C")
    parser.add_argument("--call", action="store_true", help="call what another program serves")
    arguments = parser.parse_args()
    if arguments.call:
        await call()
    elif arguments.serve:
        await innet.serve(total, halve, brightest)
    else:
        await serve_or_call()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
