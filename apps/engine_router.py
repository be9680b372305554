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

from aiohttp import web
from routing.engines import Engine, Placement
from routing.front import FIRST_BYTE_S, Front

from innet.kv.events.routing import ROUTERS, Costs, make_router
from innet.kv.prefill import LoadTime
from innet.quantities import parse_size_bytes

_GIGABIT = 1e9 / 8


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="a router before OpenAI-compatible engines")
    parser.add_argument(
        "--engine", action="append", required=True, metavar="NAME=URL", help="repeatable"
    )
    parser.add_argument("--index", metavar="URL", help="of `innet kv index`")
    parser.add_argument("--model", help="its name in the index, where that has several")
    parser.add_argument("--router", choices=ROUTERS, default="pool")
    parser.add_argument("--port", type=int, default=8080, help="on loopback; default 8080")
    parser.add_argument(
        "--token-bytes",
        type=parse_size_bytes,
        default=128 << 10,
        help="of a token's keys and values; default 128KiB",
    )
    parser.add_argument("--gbit", type=float, help="rate of loading blocks; default: not loaded")
    parser.add_argument(
        "--first-byte-s",
        type=float,
        default=FIRST_BYTE_S,
        metavar="SECONDS",
        help="until an engine's answer begins; default %(default)g",
    )
    arguments = parser.parse_args()
    engines = [_engine(text, parser) for text in arguments.engine]
    if arguments.index is not None and not _is_url(arguments.index):
        parser.error(f"expected --index http://HOST:PORT, found {arguments.index!r}")
    if not arguments.first_byte_s > 0:
        parser.error(f"expected --first-byte-s above 0, found {arguments.first_byte_s:g}")
    load = LoadTime(0.001, arguments.gbit * _GIGABIT) if arguments.gbit else None
    costs = Costs(load=load, token_bytes=arguments.token_bytes)
    router = make_router(arguments.router, costs, [engine.name for engine in engines])
    placement = Placement(engines, router, costs, arguments.index, arguments.model)
    # A client that hangs up ends its request at the engine, too.
    app = Front(placement, arguments.first_byte_s).app()
    web.run_app(app, host="127.0.0.1", port=arguments.port, handler_cancellation=True)


def _engine(text: str, parser: argparse.ArgumentParser) -> Engine:
    name, equals, url = text.partition("=")
    if not equals or not _is_url(url):
        parser.error(f"expected NAME=URL, such as h0=http://127.0.0.1:8000, found {text!r}")
    return Engine(name, url.rstrip("/"))


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


if __name__ == "__main__":
    main()
