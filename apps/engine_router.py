"""A router before several OpenAI-compatible engines: each request goes to the engine that has its
first token soonest, because of its queue and of the blocks that it and the pool have.

    innet kv index --on lab --port 8764 &
    python apps/engine_router.py --index http://127.0.0.1:8764 --port 8080 \\
        --engine h0=http://127.0.0.1:8000 --engine h1=http://127.0.0.1:8001

Engines are named as the members of the pool whose hosts they are on, or as the streams of
``innet kv index --stream``. ``--router round-robin`` and ``--router prefix-hash`` are there to
compare with. It listens on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import socket
from collections import Counter
from urllib.parse import urlsplit

from aiohttp import web
from routing.engines import Engine, Placement
from routing.front import FIRST_BYTE_S, Front
from routing.site import BoundedSite, Connections

from innet.kv.events.routing import ROUTERS, Costs, make_router
from innet.kv.prefill import LoadTime
from innet.quantities import QuantityError, parse_size_bytes

_GIGABIT = 1e9 / 8
_DRAIN_S = 20.0
"""For open answers to end after a signal; orchestrators kill after 30 s by default."""
_MOST_PORT = (1 << 16) - 1


def main() -> None:
    """Serve until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description="a router before OpenAI-compatible engines")
    parser.add_argument(
        "--engine",
        action="append",
        required=True,
        type=_engine,
        metavar="NAME=URL",
        help="repeatable",
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="of the router in requests, beside those of loopback; repeatable",
    )
    parser.add_argument("--index", type=_url, metavar="URL", help="of `innet kv index`")
    parser.add_argument("--model", help="its name in the index, where that has several")
    parser.add_argument("--router", choices=ROUTERS, default="pool")
    parser.add_argument(
        "--port", type=_port, default=8080, help="on loopback; 0: a free one; default 8080"
    )
    parser.add_argument(
        "--token-bytes",
        type=_size,
        default=128 << 10,
        help="of a token's keys and values; default 128KiB",
    )
    parser.add_argument("--gbit", type=_positive, help="rate of loading blocks; default: none")
    parser.add_argument(
        "--first-byte-s",
        type=_positive,
        default=FIRST_BYTE_S,
        metavar="SECONDS",
        help="until an engine's answer begins; default %(default)g",
    )
    arguments = parser.parse_args()
    engines: list[Engine] = arguments.engine
    names = [engine.name for engine in engines]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        parser.error(f"--engine names {twice[0]!r} twice: give each engine a name of its own")
    load = LoadTime(0.001, arguments.gbit * _GIGABIT) if arguments.gbit else None
    costs = Costs(load=load, token_bytes=arguments.token_bytes)
    router = make_router(arguments.router, costs, names)
    placement = Placement(engines, router, costs, arguments.index, arguments.model)
    try:
        listener = socket.create_server(("127.0.0.1", arguments.port))
    except OSError as error:
        parser.error(f"cannot listen on port {arguments.port}: {error.strerror}. Give another")
    connections = Connections()
    front = Front(placement, arguments.first_byte_s, arguments.host, connections)
    asyncio.run(_serve(front.app(), listener, connections))


async def _serve(app: web.Application, listener: socket.socket, connections: Connections) -> None:
    """Serve until a signal, and let open answers end."""
    ending = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, ending.set)
    runner = web.AppRunner(
        app,
        shutdown_timeout=_DRAIN_S,
        handler_cancellation=True,  # a client that hangs up ends its request at the engine, too
    )
    await runner.setup()
    site = BoundedSite(runner, listener)
    site.connections = connections
    try:
        await site.start()
        print(f"the router listens on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await ending.wait()
    finally:
        await runner.cleanup()


def _engine(text: str) -> Engine:
    name, _, url = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(
            f"expected NAME=URL, such as h0=http://127.0.0.1:8000, found {text!r}"
        )
    return Engine(name, _url(url))


def _url(text: str) -> str:
    """An address to which paths are appended."""
    address = text.rstrip("/")
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment or parts.path.endswith("/v1"):
        raise argparse.ArgumentTypeError(f"expected http://HOST:PORT, without /v1, found {text!r}")
    return address


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {_MOST_PORT}, found {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def _size(text: str) -> int:
    try:
        return parse_size_bytes(text)
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
