"""Adds up, and goes on as the policy says when a rank has ended; says what it was told.

recovers.py ENDING TIMEOUT_S: how rank 2 of the first start ends, in the midst of its work.
"""

import os
import signal
import sys
import threading
import time

import numpy as np

import innet
from innet.errors import DeadlineExceeded, InnetError, RankFailed

STEPS, LAST_OF_THE_FIRST = 12, 5
ending, timeout_s = sys.argv[1], float(sys.argv[2])


def end():
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if ending == "hang":
        time.sleep(600)
    if ending == "raise":
        raise ValueError("a bad day")
    if ending.startswith("quit"):
        os._exit(int(ending.removeprefix("quit")))
    if ending == "thread":
        threading.Thread(target=lambda: os._exit(0)).start()
        time.sleep(600)
    if ending == "exec":
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(8)"])
    if ending == "fork":
        if os.fork():
            os._exit(0)
        time.sleep(600)
    if ending == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if ending == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(int(ending.removeprefix("exit")))


def value(node, step):
    """Another number for each host and step."""
    return 2 ** int(node[1:]) * (step + 1)


def go_on(comm):
    """The group that follows, and the first step that nobody has done."""
    comm = comm.recover()
    step = int(comm.allreduce(np.array([done]), "max")[0])
    print(f"goes on as rank {comm.rank} of {comm.size}", flush=True)
    return comm, step


comm = innet.init(timeout_s=timeout_s)
node = comm.nodes[comm.rank]
is_first = os.environ["INNET_RESTARTS"] == "0"
done = 0
try:
    if not is_first:
        done = int(comm.allreduce(np.array([done]), "max")[0])
    while done < STEPS:
        if (node, done, is_first) == ("h2", LAST_OF_THE_FIRST, True):
            end()
        try:
            total = comm.allreduce(np.full(3000, value(node, done)))
            right = (total == sum(value(other, done) for other in comm.nodes)).all()
            done += 1
            print(f"step {done} of {comm.size} {'right' if right else 'WRONG'}", flush=True)
        except RankFailed as error:
            print(f"lost: {error}", flush=True)
            comm, done = go_on(comm)
        except DeadlineExceeded as error:
            print(f"late: {error}", flush=True)
            comm.expel(2, "it hangs")
except InnetError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    raise
print("ends", flush=True)
comm.close()
