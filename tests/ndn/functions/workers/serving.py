"""Serves functions through the forwarder at a URI, whose routes are set by who starts this."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import innet
from innet.ndn import Client, Name
from innet.ndn.production import Handler


class Routed(Client):
    """Whoever started this program has told the forwarder where its names lead."""

    async def register(self, prefix: Name | str, handler: Handler, *, cost: int = 0) -> None:
        self.produce(prefix, handler)

    async def unregister(self, prefix: Name | str) -> None:
        self.stop_producing(prefix)


@innet.function("/sum")
def total(values: Any) -> float:
    return float(values.sum())


@innet.function("/double")
def double(value: Any) -> Any:
    return value * 2


@innet.function("/broken")
def broken() -> None:
    raise ValueError("no such frame")


async def main(uri: str) -> None:
    async with Routed(uri) as client, innet.serving(total, double, broken, client=client):
        print("serving", flush=True)
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
