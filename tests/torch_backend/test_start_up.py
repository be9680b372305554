"""The first process group costs no more processor time than its imports need."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

PROGRAM = """
import gc, sys
import torch.distributed
import innet.torch_backend as backend

collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
if sys.argv[1] == "off":
    gc.disable()
collections.clear()
try:
    backend._create(None, "no options")
except Exception as error:
    print(type(error).__name__)
print(gc.isenabled(), "innet.torch_backend.creation" in sys.modules, len(collections) // 2)
"""


@pytest.mark.parametrize("collector", ["on", "off"])
def test_the_imports_run_no_collector_and_leave_it_as_it_was(collector: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, collector],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    kind, is_enabled, is_imported, collections = ended.stdout.split()
    assert (kind, is_imported) == ("CollectiveError", "True")
    assert is_enabled == str(collector == "on")
    assert int(collections) <= 1, ended.stdout  # the error's own, once the collector is on again
