"""Rank 1 joins the group and stops before it has registered its names."""

import sys
import time
from unittest import mock

import innet
from innet.collectives import joining
from innet.collectives.runner import OperationRunner
from innet.errors import InnetError


def stop(worker, *arguments):
    if worker.rank == 1:
        time.sleep(60)
    return OperationRunner(worker, *arguments)


innet.init(group="all")  # so that nobody is late for the next
mock.patch.object(joining, "OperationRunner", stop).start()
try:
    innet.init(group="late", timeout_s=2)
except InnetError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(1)
