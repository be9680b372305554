"""Sums until a rank ends, in one of many ways; each other rank prints when it knows, and why.

ends.py HOW BACKEND FOLDER: rank 1 ends by HOW, in the midst of its work. BACKEND is ``numpy`` or
``torch``. Times are of the machine's monotonic clock.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ENDING_RANK, STEPS_BEFORE, OTHERS = 1, 3, 2
PATIENCE_S = 20.0
how, backend, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
done = folder / "done"
SUCCESSOR = "INNET_TEST_SUCCESSOR"
WAITS = f"while [ ! -e {done} ]; do sleep 0.05; done"


def say(what):
    """Print a line with the time."""
    print(f"{what} at {time.monotonic():.3f}", flush=True)


def execute(*argv, **environment):
    """Become another program."""
    os.execvpe(argv[0], argv, {**os.environ, **environment})


def leave_a_daemon():
    """A child in a session of its own outlives this process, with its descriptors."""
    if os.fork() == 0:
        os.setsid()
        while not done.exists():
            time.sleep(0.05)
    os._exit(0)


def end_in_a_thread():
    """Exit by a thread, while the program waits."""
    threading.Thread(target=lambda: os._exit(0)).start()
    time.sleep(600)


def stop_and_die():
    """Stop, and be killed while stopped."""
    subprocess.Popen(["sh", "-c", f"sleep 1; kill -KILL {os.getpid()}"])
    print(f"ends at {time.monotonic() + 1:.3f}", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


def end_when_done():
    """End this program, which others do not wait for, when they know of its predecessor."""
    while not done.exists():
        time.sleep(0.05)
    os._exit(0)


def fail():
    """Raise what nobody catches."""
    raise ValueError("a bad day")


ENDS = {
    "exit 0": lambda: os._exit(0),
    "exit 3": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(3),
    "sys.exit 0": lambda: sys.exit(0),
    "exception": fail,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "fault": lambda: ctypes.string_at(0),
    "thread": end_in_a_thread,
    "daemon": leave_a_daemon,
    "exec": lambda: execute("sh", "-c", WAITS),
    "exec innet": lambda: execute(sys.executable, *sys.argv, **{SUCCESSOR: "1"}),
    "stop and kill": stop_and_die,
    "waits": lambda: time.sleep(600),
}


def numpy_sums():
    """The sum over all ranks, and this rank."""
    import numpy as np

    import innet

    comm = innet.init()
    return comm.rank, lambda: comm.allreduce(np.ones(2000, np.float32))


def torch_sums():
    """The same by PyTorch."""
    import torch
    import torch.distributed as dist

    import innet.torch_backend  # noqa: F401  # the backend

    dist.init_process_group("innet")
    return dist.get_rank(), lambda: dist.all_reduce(torch.ones(2000))


if SUCCESSOR in os.environ:
    threading.Thread(target=end_when_done, daemon=True).start()
rank = -1
try:
    rank, add = {"numpy": numpy_sums, "torch": torch_sums}[backend]()
    step = 0
    while True:
        if (rank, step) == (ENDING_RANK, STEPS_BEFORE) and SUCCESSOR not in os.environ:
            if how != "stop and kill":
                say("ends")
            ENDS[how]()
        add()
        step += 1
except Exception as error:
    if isinstance(error, ValueError):
        raise
    say(f"knows: {' '.join(str(error).split())}")
    (folder / f"knows{rank}").touch()
    until_s = time.monotonic() + PATIENCE_S
    while len(list(folder.glob("knows*"))) < OTHERS and time.monotonic() < until_s:
        time.sleep(0.05)  # the end of this rank is not to be the first that another knows of
    done.touch()
    os._exit(0)
