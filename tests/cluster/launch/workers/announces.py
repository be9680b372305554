"""Programs on hosts of a job find each other's names: h0 and h2 serve, h1 and h3 ask."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from ndn.appv2 import NDNApp, pass_all
from ndn.security.signer import DigestSha256Signer
from ndn.types import InterestNack

import innet
from innet._native import _core
from innet.errors import InterestRefused
from innet.ndn import Client, Name
from innet.ndn.objects import fetch, publish

NODE = os.environ["INNET_NODE"]
CONTENT = b"object" * 5000
ORIGIN, ROUTE, NAME = 0x6F, 0x81, 0x07


@innet.function("/where")
def where() -> str:
    """Which host answers."""
    return NODE


async def until(expected: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until the network has come to this; the test's time limit ends what never does."""
    while (answer := await ask()) != expected:  # noqa: ASYNC110 - nobody says when
        await asyncio.sleep(0.02)
    return answer


async def who_answers() -> str:
    try:
        return str(await innet.call("/where"))
    except InterestRefused:
        return "nobody"


async def object_came() -> bool:
    async with Client() as client:
        try:
            return (await fetch(client, "/data/x")).content == CONTENT
        except InterestRefused:
            return False


async def stranger_has_asked() -> bool:
    return await asyncio.to_thread(Path(sys.argv[1]).exists)


async def origins(prefix: str) -> list[int]:
    """Of a prefix's routes at this node."""
    async with Client() as client:
        rib = await client.management.dataset("rib/list")
    found = []
    for _, entry in _core.read_elements(rib):
        elements = _core.read_elements(entry)
        if Name.from_value(dict(elements)[NAME]) == Name(prefix):
            routes = [dict(_core.read_elements(value)) for kind, value in elements if kind == ROUTE]
            found += [_core.read_number(route[ORIGIN]) for route in routes]
    return sorted(found)


@asynccontextmanager
async def running(app: NDNApp) -> AsyncIterator[None]:
    """Connected to the node of this host, which it finds by itself."""
    connected = asyncio.Event()

    async def tell() -> None:
        connected.set()

    loop = asyncio.create_task(app.main_loop(tell()))
    await connected.wait()
    yield
    app.shutdown()
    await loop


async def hello_of_python_ndn() -> str:
    """As a program of another house asks."""
    app = NDNApp()

    async def ask() -> str:
        try:
            _name, content, _context = await app.express("/hello/world", pass_all, lifetime=1000)
        except InterestNack:
            return ""
        return bytes(content).decode()

    async with running(app):
        return str(await until("from h0", ask))


@asynccontextmanager
async def hello_and_object() -> AsyncIterator[None]:
    """Serve, as a program of another house does, and what is larger than a packet."""
    app = NDNApp()

    def answer(name: Any, _parameters: Any, reply: Any, _context: Any) -> None:
        reply(app.make_data(name, b"from h0", DigestSha256Signer()))

    app.attach_handler("/hello", answer)
    async with running(app):
        await app.register("/hello")
        async with Client() as client, await publish(client, "/data/x", CONTENT):
            yield


async def as_server(meet: Callable[[], Awaitable[None]]) -> None:
    """h0 serves while the askers ask for the first time, h2 also for the second."""
    rounds = 2 if NODE == "h0" else 4
    async with innet.serving(where), hello_and_object() if NODE == "h0" else nullcontext():
        for _ in range(rounds):
            await meet()
    for _ in range(5 - rounds):
        await meet()


async def as_asker(meet: Callable[[], Awaitable[None]]) -> None:
    """Print what is found, three times."""
    await meet()
    print("nearest:", await until({"h1": "h0", "h3": "h2"}[NODE], who_answers), flush=True)
    print("python-ndn:", await hello_of_python_ndn(), flush=True)
    print("object:", await until(True, object_came), flush=True)
    print("origins:", await origins("/where"), flush=True)
    await until(True, stranger_has_asked)
    await meet()
    await meet()
    print("then:", await until("h2", who_answers), flush=True)
    await meet()
    await meet()
    print("at last:", await until("nobody", who_answers), flush=True)


async def main() -> None:
    comm = await asyncio.to_thread(innet.init)

    async def meet() -> None:
        await asyncio.to_thread(comm.barrier)

    await (as_server if NODE in ("h0", "h2") else as_asker)(meet)


asyncio.run(main())
