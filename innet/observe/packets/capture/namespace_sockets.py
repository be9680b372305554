"""Opens packet sockets inside the network namespaces of a run.

Only a process with a single thread can enter the user namespace of a rootless run, so this module
is also a program: it enters the namespace, opens the sockets and passes them to its parent over the
Unix socket that its argument names. ``python -m`` this module gets a JSON list of pairs on its
standard input: the path of a namespace, and the interface.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from innet.cluster.emulation.syscalls import CLONE_NEWNET, CLONE_NEWUSER, setns
from innet.errors import EmulationError

_ETH_P_ALL = 3
_NS_GET_USERNS = 0xB701
_FDS_PER_MESSAGE = 200
_TIMEOUT_S = 30.0
_QUIETLY = ("-W", "ignore::RuntimeWarning:runpy")
"""The package has imported the module that is run; what it says on standard error is for people."""


def open_packet_sockets(places: Sequence[tuple[str, str]]) -> list[socket.socket]:
    """Open a packet socket for each pair of a namespace's path and an interface in it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_TIMEOUT_S)
        done = subprocess.run(
            [sys.executable, "-P", *_QUIETLY, "-m", __spec__.name, str(theirs.fileno())],
            input=json.dumps(places),
            pass_fds=(theirs.fileno(),),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise EmulationError(
                f"the links cannot be captured: {done.stderr.strip()}. Captures of a run in netns "
                "mode are for who started it, and for root."
            )
        theirs.close()
        return [socket.socket(fileno=fd) for fd in _received(ours, len(places))]


def _received(channel: socket.socket, count: int) -> list[int]:
    fds: list[int] = []
    while len(fds) < count:
        _, more, _, _ = socket.recv_fds(channel, 1, _FDS_PER_MESSAGE)
        if not more:
            raise EmulationError(
                f"no descriptors left for {count} links. Raise the limit on open files "
                "(ulimit -n), or capture fewer links."
            )
        fds += more
    return fds


def _enter(network: int) -> None:
    """Enter a network namespace, after the user namespace that owns it."""
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    try:
        if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
            setns(owner, CLONE_NEWUSER)
        setns(network, CLONE_NEWNET)
    finally:
        os.close(owner)


def _packet_socket(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((interface, _ETH_P_ALL))
    return opened


def main() -> int:
    """Open the sockets that standard input lists, and pass them to the parent."""
    opened = []
    places = json.load(sys.stdin)
    place = ""
    try:
        # All of them first: who has entered a user namespace may not look into its launcher's
        # files any more.
        networks = {
            path: os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in {path for path, _ in places}
        }
        for path, interface in places:
            place = f"{path} {interface}"
            _enter(networks[path])
            opened.append(_packet_socket(interface))
    except OSError as error:
        print(f"{place or error.filename}: {error.strerror or error}", file=sys.stderr)
        return 1
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        for at in range(0, len(opened), _FDS_PER_MESSAGE):
            some = [s.fileno() for s in opened[at : at + _FDS_PER_MESSAGE]]
            socket.send_fds(channel, [b"\0"], some)
    return 0


if __name__ == "__main__":
    sys.exit(main())
