"""``innet kv locate`` and ``innet kv index``: where prefixes are, once and as a service."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet import extras
from innet.cli import options
from innet.cli.text_output import open_console, say
from innet.printable import printable

if TYPE_CHECKING:
    from innet.kv.events.follower import Stream
    from innet.kv.events.pool_stream import PoolStream
    from innet.kv.events.service import Distance, LocateRequest, PoolDirectory, PromptLocation

LOCATE_EXAMPLES = options.examples(
    "innet kv locate --on lab --tokens 1,2,3,4",
    "innet kv locate --on lab --tokens-file prompt.json --near h3 --json",
    "innet kv locate --on lab --tokens 1,2,3,4 --model llama --lora sql --salt acme",
    "innet kv locate --stream h0=tcp://127.0.0.1:5557 --tokens 1,2,3,4",
)
INDEX_EXAMPLES = options.examples(
    "innet kv index --on lab --port 8764",
    "innet kv index --on lab --events tcp://127.0.0.1:5557",
    "innet kv index --stream h0=tcp://127.0.0.1:5557 --stream h1=tcp://127.0.0.1:5567",
)

_NAMES_TIMEOUT_S = 3.0

OnNetwork = Annotated[
    str | None,
    typer.Option("--on", metavar="ID", help="Network whose members publish in its run directory"),
]
Streams = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=ADDRESS[,REPLAY]",
        help="A member's events, or a vLLM engine's; replays by default at the next port; "
        "repeatable",
    ),
]
TenantName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The tenant, or its first digits, if members are in several pools"
    ),
]


def locate(
    tokens: Annotated[
        str | None, typer.Option(metavar="ID,…", help="Token ids of the prompt")
    ] = None,
    tokens_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the token ids: a list in JSON")
    ] = None,
    on: OnNetwork = None,
    stream: Streams = None,
    tenant: TenantName = None,
    model: Annotated[
        str | None, typer.Option(help="Its name in topics, where there are several")
    ] = None,
    salt: Annotated[
        str, typer.Option(help="Cache salt of the prompt, if its pool or its request has one")
    ] = "",
    lora: Annotated[
        str | None, typer.Option(metavar="NAME", help="Adapter of the prompt, if it has one")
    ] = None,
    near: Annotated[
        str | None, typer.Option(metavar="HOST", help="Count distances from this host")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show which members hold which prefix of a prompt, on which medium, and how far away.

    Reads the events of the members (option [cyan]events[/] of a pool) from the beginning.
    """
    prompt = prompt_tokens(tokens, tokens_file) or []
    sources = _sources(on, stream, tenant)
    if near is not None and sources.distance is None:
        raise typer.BadParameter(
            "distances are known in a network that --on names", param_hint="'--near'"
        )
    import msgspec

    from innet.kv.events.service import LocateRequest

    request = LocateRequest(prompts=[prompt], model=model, near=near, salt=salt, lora=lora)
    found, of_model = asyncio.run(_locate(sources, request))
    if as_json:
        say(msgspec.json.encode(found).decode())
    else:
        _show(found, len(prompt), of_model)


def index(
    on: OnNetwork = None,
    stream: Streams = None,
    tenant: TenantName = None,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port on loopback; 0: a free one")
    ] = 8764,
    events: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Publish the events of the whole pool here")
    ] = "",
) -> None:
    """Follow the events of all members, and answer look-ups over HTTP until Ctrl-C or SIGTERM.

    [cyan]POST /v1/locate[/] takes many prompts at once; [cyan]/openapi.json[/] describes it.
    """
    sources = _sources(on, stream, tenant)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_index(sources, port, events))


@dataclass(frozen=True)
class _Sources:
    """Streams to follow.

    Attributes:
        streams: that are there.
        distance: between hosts of their network; ``None``: it is not known.
        discover: the streams that are there when it is called.
    """

    streams: list[Stream]
    distance: Distance | None
    discover: Callable[[], list[Stream]] = list


def prompt_tokens(
    tokens: str | None, tokens_file: Path | None, *, is_needed: bool = True
) -> list[int] | None:
    """The token ids of a prompt, of either option; ``None``: neither is given.

    Raises:
        BadParameter: both are given, one is needed, or it is invalid.
    """
    if tokens is None and tokens_file is None and not is_needed:
        return None
    if (tokens is None) == (tokens_file is None):
        raise typer.BadParameter("give either --tokens or --tokens-file", param_hint="'--tokens'")
    try:
        text = f"[{tokens}]" if tokens_file is None else tokens_file.read_text()
        found = json.loads(text)
        if not isinstance(found, list) or not found or not all(map(_is_token_id, found)):
            raise ValueError
    except OSError as error:
        raise typer.BadParameter(
            f"{tokens_file} cannot be read: {error.strerror}", param_hint="'--tokens-file'"
        ) from None
    except ValueError:
        raise typer.BadParameter(
            "expected token ids from 0 to 2^32 - 1, such as 1,2,3 (in a file: [1, 2, 3])",
            param_hint="'--tokens'" if tokens_file is None else "'--tokens-file'",
        ) from None
    return found


def _is_token_id(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 32


def _sources(on: str | None, streams: list[str] | None, tenant: str | None) -> _Sources:
    for library in ("msgpack", "msgspec", "starlette", "uvicorn"):
        extras.require(library, "a look-up of prefixes")
    from innet.kv.events.service import hops

    if on is None and streams:
        return _Sources([_stream(each) for each in streams], None)
    if streams:
        raise typer.BadParameter("give either --on or --stream", param_hint="'--stream'")
    from innet.cluster.emulation.runs import find_run
    from innet.topology import load_topology

    record = find_run(on)
    distance = hops(load_topology(str(record.topology_path)))
    digits = _tenant_in(record.run_dir, tenant)
    discover = functools.partial(_streams_in, record.run_dir, digits)
    return _Sources(discover(), distance, discover)


def _stream(text: str) -> Stream:
    from innet.kv.events.endpoints import Endpoints
    from innet.kv.events.follower import Stream

    name, equals, addresses = text.partition("=")
    address, _, replay = addresses.partition(",")
    if not equals or not name or "://" not in address:
        raise typer.BadParameter(
            f"expected NAME=ADDRESS, such as h0=tcp://127.0.0.1:5557, found {text!r}",
            param_hint="'--stream'",
        )
    return Stream(name, Endpoints.of(address, replay))


def _streams_in(run_dir: Path, digits: str) -> list[Stream]:
    """The streams of a tenant's members."""
    from innet.kv.events.endpoints import Endpoints
    from innet.kv.events.follower import Stream

    return [
        Stream(node, Endpoints.of(f"ipc://{path}"))
        for (node, each), path in _event_sockets(run_dir).items()
        if each == digits
    ]


def _tenant_in(run_dir: Path, tenant: str | None) -> str:
    """The digits of the tenant whose members publish events."""
    from innet.errors import KVError

    tenants = {digits for _, digits in _event_sockets(run_dir)}
    if not tenants:
        raise KVError(
            f"no member publishes events in {run_dir}: start the programs with "
            "events='run', or name their addresses with --stream"
        )
    names = {} if tenant is None and len(tenants) == 1 else _tenant_names(run_dir)
    chosen = {digits for digits in tenants if tenant is None or _is_of(digits, tenant, names)}
    if len(chosen) != 1:
        what = "no blocks of that tenant" if tenant else "blocks of several tenants"
        shown = [f"{_name_of(d, names)} ({d})" if _name_of(d, names) else d for d in tenants]
        raise KVError(
            f"the members have {what}: choose one with --tenant, of {', '.join(sorted(shown))}"
        )
    return chosen.pop()


def _event_sockets(run_dir: Path) -> dict[tuple[str, str], Path]:
    """The sockets of processes that publish events, by their node and the tenant's digits."""
    from innet.kv.pool_member import EVENT_SUFFIX

    found = {}
    for path in sorted(run_dir.glob(f"*{EVENT_SUFFIX}")):
        node, _, digits = path.name.removesuffix(EVENT_SUFFIX).rpartition(".")
        if _has_listener(path):
            found[node, digits] = path
    return found


def _has_listener(path: Path) -> bool:
    """Whether a process listens; the file of one that has ended stays."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except BlockingIOError:  # many connections wait
            return True
        except OSError:
            return False
        return True


def _tenant_names(run_dir: Path) -> dict[str, str]:
    """The names of the tenants of a network, by their components in names."""
    from innet.errors import ControlError
    from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient

    path = run_dir / CONTROLLER_SOCKET_NAME
    if not path.exists():
        return {}
    with ControllerClient(path) as controller:
        try:
            pools = controller.request("pools", timeout_s=_NAMES_TIMEOUT_S)
        except ControlError:  # digits are good as well
            return {}
    return {pool["tenant"]: printable(pool["name"]) for pool in pools}


def _name_of(digits: str, names: Mapping[str, str]) -> str:
    return next((names[tenant] for tenant in names if tenant.startswith(digits)), "")


def _is_of(digits: str, tenant: str, names: Mapping[str, str]) -> bool:
    """Whether a tenant is meant by its name, its first digits, or all of its digits."""
    is_named = tenant == _name_of(digits, names)
    return bool(tenant) and (is_named or tenant.startswith(digits) or digits.startswith(tenant))


async def _locate(sources: _Sources, request: LocateRequest) -> tuple[PromptLocation, str]:
    """Where the prompt is, and of which model."""
    from innet.errors import KVError
    from innet.kv.events.service import following

    directory = _directory(sources)
    async with following(directory, sources.streams) as silent:
        if len(silent) == len(sources.streams):
            raise KVError(
                f"no events were replayed from {', '.join(silent)}: see whether the programs run, "
                "and publish at these addresses"
            )
        return directory.locate(request).locations[0], directory.model_of(request)


async def _index(sources: _Sources, port: int, events: str) -> None:
    from innet.kv.events.endpoints import Endpoints
    from innet.kv.events.pool_stream import PoolStream
    from innet.kv.events.publisher import publishing
    from innet.kv.events.service import following, serving

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    pool = PoolStream() if events else None
    directory = _directory(sources, pool)
    async with contextlib.AsyncExitStack() as stack:
        if pool is not None:
            bound = await stack.enter_async_context(publishing(pool, Endpoints.of(events)))
            stack.callback(pool.clear)
            say(f"events of the pool: {bound.events}, replays: {bound.replay}")
        await stack.enter_async_context(following(directory, sources.streams, sources.discover))
        address = await stack.enter_async_context(serving(directory, port))
        say(f"look-ups: {address}/v1/locate ({len(sources.streams)} streams)")
        await asyncio.Event().wait()


def _directory(sources: _Sources, pool: PoolStream | None = None) -> PoolDirectory:
    from innet.kv.events.service import PoolDirectory

    if sources.distance is None:
        return PoolDirectory(pool=pool)
    return PoolDirectory(sources.distance, pool)


def _show(found: PromptLocation, tokens: int, model: str) -> None:
    from rich.table import Table

    blocks = f", in blocks of {found.block_tokens}" if found.block_tokens else ""
    of_model = f" of {printable(model)}" if model else ""
    say(f"{found.tokens} of {tokens} tokens{of_model} are in the pool{blocks}")
    if not found.holdings:
        return
    table = Table("member", "prefix", "in memory", "on accelerator", "blocks", "links away")
    for each in found.holdings:
        distance = "" if each.distance is None else str(each.distance)
        numbers = (each.tokens, each.memory_tokens, each.gpu_tokens, each.blocks)
        table.add_row(each.member, *map(str, numbers), distance)
    open_console().print(table)
