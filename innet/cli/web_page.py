"""The page of ``--web``: of a run, of a run on another machine, or of a recording."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from innet import extras
from innet.cli.options import WebOptions
from innet.cli.text_output import say
from innet.machine import run_in_background

if TYPE_CHECKING:
    from innet.observe.web.live import View
    from innet.observe.web.server import WebOptions as ServerOptions

_LIBRARIES = ("starlette", "uvicorn")


def is_recording_path(text: str) -> bool:
    """Whether a text names a file in place of a run."""
    from innet.observe.web.document import SUFFIX

    return "/" in text or text.endswith(SUFFIX) or Path(text).is_file()


def check_page(page: WebOptions) -> ServerOptions:
    """Check the options and the installation; returns the options of the page's server."""
    for library in _LIBRARIES:
        extras.require(library, "the page of --web")
    from innet.observe.web.server import WebOptions as ServerOptions

    host, colon, port = page.web_listen.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise typer.BadParameter(
            f"expected HOST:PORT, such as 127.0.0.1:8080, found {page.web_listen!r}",
            param_hint="'--web-listen'",
        )
    options = ServerOptions(host.strip("[]"), int(port), page.web_cert, page.web_key)
    options.check()
    return options


def watch_in_browser(run_id: str | None, broker: str | None, page: WebOptions) -> None:
    """Serve the page of a run or of a recording until Ctrl-C."""
    server = check_page(page)
    if broker is not None and run_id is None:
        raise typer.BadParameter(
            "name the run: innet watch ID --broker URL --web", param_hint="'ID'"
        )
    if broker is not None and run_id is not None and is_recording_path(run_id):
        raise typer.BadParameter("a recording needs no broker", param_hint="'--broker'")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(run_id, broker, server))


async def _watch(run_id: str | None, broker: str | None, server: ServerOptions) -> None:
    async with _view(run_id, broker) as view:
        run_in_background()  # the page must not slow down the network that it shows
        async with _served(view, server) as link:
            say(f"{view.picture.run}: open {link}")
            say("  The link serves once. Ctrl-C ends the page.")
            say(f"{await view.closed()} The page keeps the last minutes until Ctrl-C.", err=True)
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def page_of_run(run_id: str, server: ServerOptions) -> AsyncIterator[str]:
    """Serve the page of a run of this machine; yields the link to open."""
    async with _view(run_id, None) as view, _served(view, server) as link:
        yield link


@contextlib.asynccontextmanager
async def _served(view: View, server: ServerOptions) -> AsyncIterator[str]:
    from innet.observe.web.server import serving

    async with serving(view, server) as link:
        yield link


def _view(run_id: str | None, broker: str | None) -> contextlib.AbstractAsyncContextManager[View]:
    from innet.cluster.emulation.runs import find_run
    from innet.observe.web.live import local_view, recorded_view, remote_view

    if broker is not None:
        from innet.cli.network_choice import typed_broker
        from innet.cluster.run_broker import RunBroker
        from innet.telemetry.broker_url import BrokerUrl

        return remote_view(RunBroker(BrokerUrl.parse(typed_broker(broker))), run_id or "")
    if run_id is not None and is_recording_path(run_id):
        from innet.observe.web.document import read_recording

        return contextlib.nullcontext(recorded_view(read_recording(Path(run_id))))
    return local_view(find_run(run_id))
