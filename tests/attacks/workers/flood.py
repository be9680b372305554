"""Opens TCP connections to an address at a rate, holds the newest ones, and says when it is at it.

Usage: ``flood.py HOST PORT PER_SECOND SECONDS``. Nothing is sent.
"""

from __future__ import annotations

import resource
import socket
import sys
import time
from collections import deque

_HELD = 2000


def main() -> None:
    """Flood for the given time; prints how many connections there were."""
    host, port, per_s, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held: deque[socket.socket] = deque()
    begun_s, opened = time.monotonic(), 0
    while (past_s := time.monotonic() - begun_s) < seconds:
        while opened < per_s * past_s:
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex((host, port))
            held.append(connection)
            opened += 1
            if opened == _HELD:
                print("flooded", flush=True)
            if len(held) > _HELD:
                held.popleft().close()
        time.sleep(0.002)
    print(f"opened {opened}", flush=True)


if __name__ == "__main__":
    main()
