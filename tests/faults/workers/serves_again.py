"""h0 serves a prefix, and another one when a file is there; h1 finds both, and that they end."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import innet
from innet.errors import InterestRefused
from innet.ndn import Client, encode_data


async def find(client: Client, name: str) -> None:
    data = await client.express(name, deadline_s=60, no_route_patience_s=60)
    print("found", data.content.decode(), flush=True)


async def serve(again: Path) -> None:
    async with Client() as client:
        await client.register("/first", lambda i: encode_data(i.name, b"the first"))
        while not await asyncio.to_thread(again.exists):  # noqa: ASYNC110 - it is the test's
            await asyncio.sleep(0.02)
        await client.register("/second", lambda i: encode_data(i.name, b"the second"))
        await asyncio.Event().wait()  # until it is killed


async def ask() -> None:
    async with Client() as client:
        await find(client, "/first/1")
        await find(client, "/second/1")
        number = 1
        try:
            while True:
                number += 1
                await client.express(f"/first/{number}", lifetime_s=0.2, deadline_s=60)
        except InterestRefused:
            print("withdrawn", flush=True)


innet.init()
asyncio.run(serve(Path(sys.argv[1])) if os.environ["INNET_NODE"] == "h0" else ask())
os._exit(0)
