"""h0 serves at its own node; h1 asks nodes in other namespaces, at its arguments."""

from __future__ import annotations

import asyncio
import os
import sys

from ndn.appv2 import NDNApp, pass_all
from ndn.transport.stream_face import TcpFace
from ndn.transport.udp_face import UdpFace

import innet
from innet.ndn import Client, encode_data
from innet.ndn.address import FaceAddress

NODE = os.environ["INNET_NODE"]


async def ask(uri: str) -> str:
    """With our own client, which waits until the route is there."""
    async with Client(uri) as client:
        data = await client.express("/hello/ours", deadline_s=30, no_route_patience_s=30)
        return data.content.decode()


async def ask_with_python_ndn(uri: str) -> str:
    """As a program of another house."""
    address = FaceAddress.parse(uri)
    face = TcpFace if address.scheme == "tcp" else UdpFace
    app = NDNApp(face=face(address.host, address.port))
    answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def express() -> None:
        _name, content, _context = await app.express("/hello/theirs", pass_all, lifetime=4000)
        answered.set_result(bytes(content or b"").decode())
        app.shutdown()

    await app.main_loop(express())
    return await answered


async def main() -> None:
    comm = await asyncio.to_thread(innet.init)
    if NODE == "h0":
        async with Client() as client:
            await client.register("/hello", lambda i: encode_data(i.name, b"from h0"))
            await asyncio.to_thread(comm.barrier)
            await asyncio.to_thread(comm.barrier)
        return
    await asyncio.to_thread(comm.barrier)
    for uri in sys.argv[1:]:
        print(f"{uri}: {await ask(uri)}, {await ask_with_python_ndn(uri)}", flush=True)
    await asyncio.to_thread(comm.barrier)


asyncio.run(main())
