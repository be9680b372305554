"""Every file descriptor of rank 1 is taken before it joins."""

import os
import resource

import numpy as np

import innet
from innet.errors import InnetError

if os.environ["RANK"] == "1":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        for fd in taken[:3]:
            os.close(fd)
try:
    innet.init(timeout_s=20).allreduce(np.ones(4, np.float32))
except InnetError as error:
    for fd in taken if os.environ["RANK"] == "1" else ():
        os.close(fd)
    print(f"{type(error).__name__}: {error}", flush=True)
    raise SystemExit(1) from None
