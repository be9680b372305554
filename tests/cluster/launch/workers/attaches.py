"""A process that innet did not start: it attaches to a network and runs one task of a test.

Usage: attaches.py TASK [HOST]. Rank and size are in RANK and WORLD_SIZE.
"""

from __future__ import annotations

import os
import sys

import numpy as np

import innet
from innet.errors import InnetError
from innet.ndn.address import NDN_VARIABLE


def say(text: object) -> None:
    print(text, flush=True)


def add() -> None:
    """Sum the ranks' numbers."""
    comm = innet.init()
    say(f"rank {comm.rank}: {comm.allreduce(np.full(3, comm.rank + 1, np.float32)).tolist()}")


def again() -> None:
    """Attach, sum, detach; twice. Detaching restores the environment."""
    for _ in range(2):
        add()
        innet.detach()
        assert dict(os.environ) == before


def wait() -> None:
    """Wait for an operation that the last rank never calls: it waits for its standard input."""
    comm = innet.init()
    comm.barrier()
    say("ready")
    if comm.rank == comm.size - 1:
        sys.stdin.read()
        return
    try:
        comm.barrier()
    except InnetError as error:
        say(f"{type(error).__name__}: {error}")


task, *hosts = sys.argv[1:]
os.environ[NDN_VARIABLE] = "unix:///of/the/user"
before = dict(os.environ)
try:
    say(f"attached to {innet.attach(host=hosts[0] if hosts else None)}")
except InnetError as problem:
    say(f"{type(problem).__name__}: {problem}")
else:
    {"add": add, "again": again, "wait": wait}[task]()
