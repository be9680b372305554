"""Rank 0 sends and ends; rank 1 takes what was sent, and asks for more, after that.

leaves.py HOW FILE: rank 0 ends when its program is over (``returns``), or at once (``quits``).
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import innet
from innet.errors import CollectiveError

how, file = sys.argv[1], Path(sys.argv[2])
comm = innet.init(timeout_s=120)


def attempt(what, call):
    """Print the result of a call, or its error and whether that came soon."""
    began_s = time.monotonic()
    try:
        result = call()
    except CollectiveError as error:
        soon = time.monotonic() - began_s < 60
        print(f"{what}: {type(error).__name__} {soon}: {error}", flush=True)
    else:
        print(f"{what}: {result}", flush=True)


if comm.rank == 0:
    comm.broadcast(np.full(100_000, 7.0), 0)
    comm.send(np.full(3, 8.0), 1)
    file.write_text(str(os.getpid()))
    if how == "quits":
        os._exit(0)
else:
    while not file.exists() or not file.read_text():
        time.sleep(0.01)
    while how != "returns" and Path(f"/proc/{file.read_text()}/fd/0").exists():
        time.sleep(0.01)
    attempt("broadcast", lambda: comm.broadcast(np.zeros(100_000), 0)[99_999])
    attempt("message", lambda: comm.recv(np.zeros(3), 0)[2])
    attempt("another message", lambda: comm.recv(np.zeros(3), 0))
    attempt("another sum", lambda: comm.allreduce(np.ones(3)))
