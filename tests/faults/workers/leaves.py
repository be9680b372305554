"""Rank 0 sends and ends; rank 1 takes what was sent, and asks for more, after that.

leaves.py HOW FOLDER: rank 0 ends when its program is over (``returns``), closes its communicator
and goes on (``closes``), or ends at once (``quits``).
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import innet
from innet.errors import CollectiveError

SOON_S = 5.0
how, folder = sys.argv[1], Path(sys.argv[2])
comm = innet.init(timeout_s=120)
three, two_rows = np.zeros(3), np.zeros((2, 3))
INDICES = np.array([1, 2])


def attempt(what, call):
    """Print the result of a call, or its error and whether that came soon."""
    began_s = time.monotonic()
    try:
        result = call()
    except CollectiveError as error:
        soon = time.monotonic() - began_s < SOON_S
        print(f"{what}: {type(error).__name__} {soon}: {error}", flush=True)
    else:
        print(f"{what}: {result}", flush=True)


def send_many():
    """More messages than may be unconfirmed."""
    for _ in range(100):
        comm.send(three, 0, tag=7)


def wait_for(condition):
    """Poll until the other process is so far."""
    while not condition():
        time.sleep(0.01)


SENT = {
    "broadcast": lambda: comm.broadcast(np.zeros(100_000), 0)[99_999],
    "scatter": lambda: comm.scatter(None, 0, out=three)[2],
    "gather": lambda: np.asarray(comm.gather(three, 1))[0, 2],
    "reduce": lambda: np.asarray(comm.reduce(np.zeros(3), 1))[2],
    "message": lambda: comm.recv(three, 0)[2],
    "any message": lambda: comm.recv_any(three, tag=3) + three[2],
    "get": lambda: comm.get("array", 0).array[2],
    "put": lambda: comm.put("array", 0, np.full(3, 15.0)) and comm.get("array", 0).array[2],
    "fetch": lambda: comm.fetch("object", 0).view(np.float64)[2],
}
MISSING = {
    "message": lambda: comm.recv(three, 0),
    "any message": lambda: comm.recv_any(three, tag=3),
    "messages to it": send_many,
    "get": lambda: comm.get("nothing", 0),
    "get of a version": lambda: comm.get("array", 0, at_least=7),
    "put": lambda: comm.put("nothing", 0, three),
    "fetch": lambda: comm.fetch("nothing", 0),
    "allreduce": lambda: comm.allreduce(three),
    "broadcast": lambda: comm.broadcast(three, 0),
    "scatter": lambda: comm.scatter(None, 0, out=three),
    "gather": lambda: comm.gather(three, 1),
    "reduce": lambda: comm.reduce(three, 1),
    "reduce_scatter": lambda: comm.reduce_scatter(two_rows),
    "allgather": lambda: comm.allgather(three),
    "alltoall": lambda: comm.alltoall(two_rows),
    "barrier": comm.barrier,
    "8 bits": lambda: comm.allreduce_q8(np.zeros(3, np.float32)),
    "by key": lambda: comm.reduce_by_key(INDICES, np.ones(2)),
    "sparse": lambda: comm.allreduce_sparse(INDICES, np.ones(2), 9),
    "blocks": lambda: comm.allreduce_blocks(np.zeros(64, np.float32)),
    "partial": lambda: comm.allreduce_of(three, innet.KOfN(2)),
}

if comm.rank == 0:
    comm.broadcast(np.full(100_000, 7.0), 0)
    comm.scatter(np.full((2, 3), 8.0), 0)
    comm.gather(np.full(3, 9.0), 1)
    comm.reduce(np.full(3, 10.0), 1)
    comm.send(np.full(3, 11.0), 1)
    comm.send(np.full(3, 12.0), 1, tag=3)
    array = comm.register("array", np.full(3, 13.0))
    comm.publish("object", np.full(3, 14.0))
    if how == "closes":
        comm.close()
    (folder / "pid").write_text(str(os.getpid()))
    if how == "quits":
        os._exit(0)
    if how == "closes":
        wait_for((folder / "done").exists)
else:
    pid = folder / "pid"
    wait_for(lambda: pid.exists() and pid.read_text())
    if how in ("lingers", "quits"):
        wait_for(lambda: not Path(f"/proc/{pid.read_text()}/fd/0").exists())
    for what, call in SENT.items():
        attempt(what, call)
    for what, call in MISSING.items():
        attempt(f"another {what}", call)
    (folder / "done").touch()
