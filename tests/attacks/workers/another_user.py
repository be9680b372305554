"""What another user of the machine tries: run by root, it continues as the user nobody.

python another_user.py bind ADDRESS PORT PEER   one line per way to share an address
python another_user.py hold                     one line with the ports; until its input ends
python another_user.py reach SOCKET PID ...     one line per thing that it can open
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

NOBODY = 65534
SHARING = (
    (),
    (socket.SO_REUSEADDR,),
    (socket.SO_REUSEPORT,),
    (socket.SO_REUSEADDR, socket.SO_REUSEPORT),
)
ADDRESS = "127.0.0.1"


def datagram_socket(options: tuple[int, ...]) -> socket.socket:
    opened = socket.socket(type=socket.SOCK_DGRAM)
    for option in options:
        opened.setsockopt(socket.SOL_SOCKET, option, 1)
    return opened


def bind(address: str, port: str, peer: str) -> None:
    """Bind UDP sockets to a port, and connect them to ``peer``."""
    for options in SHARING:
        with datagram_socket(options) as opened:
            try:
                opened.bind((address, int(port)))
                opened.connect((ADDRESS, int(peer)))
                print("bound")
            except OSError as error:
                print(error.strerror)


def hold() -> None:
    """Keep UDP ports that are bound in each way."""
    held = [datagram_socket(options) for options in SHARING]
    for opened in held:
        opened.bind((ADDRESS, 0))
    print(*(opened.getsockname()[1] for opened in held), flush=True)
    sys.stdin.read()


def reach(path: str, *pids: str) -> None:
    """Open a socket of a run, and the descriptors of its processes."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection,
        suppress(PermissionError),
    ):
        connection.connect(path)
        print("the launcher's socket")
    for pid in pids:
        with suppress(PermissionError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                print(f"descriptor {descriptor} of {pid}")


if __name__ == "__main__":
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    commands: dict[str, Callable[..., None]] = {"bind": bind, "hold": hold, "reach": reach}
    commands[sys.argv[1]](*sys.argv[2:])
