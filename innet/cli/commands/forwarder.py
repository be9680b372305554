"""``innet forwarder``: runs one node as an NDN forwarder of this machine."""

from __future__ import annotations

import signal
import sys
import threading
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.ndn.strategy import Strategy

EXAMPLES = options.examples(
    "innet forwarder",
    "innet forwarder --unix /tmp/ndn.sock --no-tcp --no-udp",
    "innet forwarder --tcp 0.0.0.0:6363 --udp 0.0.0.0:6363 --cache 512",
    "innet forwarder --commands-by operator.cert --localhop",
    "NDN_CLIENT_TRANSPORT=unix:///tmp/ndn.sock ndnpeek -p /hello",
)

_DEFAULT_SOCKET = Path("/run/nfd/nfd.sock")
_LOOPBACK = "127.0.0.1:6363"
_MIB = 1 << 20
_MOST_PERMISSIONS = 0o777

_Tcp = Annotated[
    list[str],
    typer.Option(
        metavar="ADDRESS:PORT",
        help="Listen there; may be repeated. 0.0.0.0:6363 lets other machines connect",
    ),
]
_Udp = Annotated[
    list[str], typer.Option(metavar="ADDRESS:PORT", help="Listen there over UDP; may be repeated")
]


def forwarder(
    unix: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Unix socket; NDN programs expect the default"),
    ] = _DEFAULT_SOCKET,
    tcp: _Tcp = [_LOOPBACK],  # noqa: B006  # typer copies it
    udp: _Udp = [_LOOPBACK],  # noqa: B006
    unix_mode: Annotated[
        str | None,
        typer.Option(
            metavar="OCTAL",
            help="Permissions of the Unix socket; default 600, for root 666",
        ),
    ] = None,
    no_unix: Annotated[bool, typer.Option("--no-unix", help="No Unix socket")] = False,
    no_tcp: Annotated[bool, typer.Option("--no-tcp", help="No TCP")] = False,
    no_udp: Annotated[bool, typer.Option("--no-udp", help="No UDP")] = False,
    cache_mib: Annotated[
        int, typer.Option("--cache", metavar="MIB", min=0, help="Size of the content store")
    ] = 64,
    strategy: Annotated[
        list[str],
        typer.Option(
            metavar="PREFIX=module:Class",
            help="Forwarding strategy in Python for a prefix; may be repeated",
        ),
    ] = [],  # noqa: B006
    commands_by: Annotated[
        list[Path],
        typer.Option(
            metavar="CERTIFICATE",
            help="Accept management commands of this key only; may be repeated",
        ),
    ] = [],  # noqa: B006
    localhop: Annotated[
        bool,
        typer.Option(
            "--localhop", help="Let programs one hop away register routes; needs --commands-by"
        ),
    ] = False,
    udp_idle_s: Annotated[
        float,
        options.time_option(
            "--udp-idle",
            least_s=1,
            help="Close the face of a UDP peer that was silent for this time",
            default="10min",
        ),
    ] = 600.0,
) -> None:
    """Forward for NDN programs of this machine, in the foreground, until Ctrl-C.

    It replaces NFD: unmodified programs connect to it, and configure it by NFD's management
    protocol over the Unix socket. Over TCP and UDP, only keys of --commands-by may do so. Other
    machines can connect where --tcp and --udp allow it.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    from innet.node.command_keys import command_key, load_command_certificate
    from innet.node.forwarder import Forwarder, ForwarderOptions

    now = datetime.now(UTC)
    listeners = [] if no_unix else [_unix_uri(unix)]
    listeners += [] if no_tcp else [_uri("tcp", address) for address in tcp]
    listeners += [] if no_udp else [_uri("udp", address) for address in udp]
    if not listeners:
        raise typer.BadParameter(
            "no program could connect; keep one listener",
            param_hint="'--no-udp'",
        )
    if localhop and not commands_by:
        raise typer.BadParameter(
            "would let every program on the network change routes; name the keys that may "
            "(--commands-by CERTIFICATE)",
            param_hint="'--localhop'",
        )
    chosen = ForwarderOptions(
        listeners,
        cache_bytes=cache_mib * _MIB,
        udp_idle_s=udp_idle_s,
        strategies=[_strategy(text) for text in strategy],
        command_keys=[command_key(load_command_certificate(path, now)) for path in commands_by],
        localhop_rib=localhop,
        unix_permissions=None if unix_mode is None else _permissions(unix_mode),
    )
    with Forwarder(chosen) as running:
        for uri in running.listeners:
            say(f"listening on {uri}{_reach(uri)}")
        stop.wait()


def _reach(uri: str) -> str:
    """A note where other machines can connect."""
    from innet.ndn.address import FaceAddress

    address = FaceAddress.parse(uri)
    if address.scheme == "unix" or ip_address(address.host).is_loopback:
        return ""
    return " (other machines can connect)"


def _permissions(octal: str) -> int:
    try:
        mode = int(octal, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= _MOST_PERMISSIONS:
        raise typer.BadParameter(
            f"invalid file mode {octal!r}: expected octal digits, such as 660",
            param_hint="'--unix-mode'",
        )
    return mode


def _strategy(text: str) -> tuple[str, Strategy]:
    """Load ``/prefix=module:Class``, also from the working directory."""
    from innet.ndn.strategy import load_strategy

    prefix, equals, place = text.rpartition("=")
    if not equals or not prefix.startswith("/"):
        raise typer.BadParameter(
            f"expected PREFIX=module:Class, such as /video=mine:InTurn, found {text!r}",
            param_hint="'--strategy'",
        )
    sys.path.insert(0, "")
    return prefix, load_strategy(place)


def _unix_uri(path: Path) -> str:
    """The socket's URI; creates its directory."""
    from innet.errors import EmulationError

    absolute = path.absolute()
    try:
        absolute.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EmulationError(
            f"cannot make {absolute.parent} for the forwarder's socket: {error.strerror}. Choose a "
            "path of your own (--unix PATH), and tell programs: NDN_CLIENT_TRANSPORT=unix://PATH"
        ) from error
    return f"unix://{absolute}"


def _uri(kind: str, address: str) -> str:
    return f"{kind}{6 if address.startswith('[') else 4}://{address}"
