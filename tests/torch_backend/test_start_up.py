"""The backend registers by itself, and its first process group costs little."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

PROGRAM = """
import gc, os, sys
import torch.distributed
import innet.torch_backend as backend

def create(collector):
    collections = []
    gc.callbacks.append(lambda phase, info: collections.append(phase))
    if collector == "off":
        gc.disable()
    collections.clear()
    try:
        backend._create(None, "no options")
    except Exception as error:
        kind = type(error).__name__
    is_imported = "innet.torch_backend.creation" in sys.modules
    print(collector, kind, gc.isenabled(), is_imported, len(collections) // 2, flush=True)

for collector in ("on", "off"):  # PyTorch, which takes long to import, serves both
    if os.fork() == 0:
        create(collector)
        os._exit(0)
    os.wait()
"""


def test_imports_run_no_garbage_collection_and_restore_the_collector() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert [line[0] for line in lines] == ["on", "off"], ended.stderr
    for collector, kind, is_enabled, is_imported, collections in lines:
        assert (kind, is_imported) == ("CollectiveError", "True")
        assert is_enabled == str(collector == "on")
        # The error's own, once the collector is on again.
        assert int(collections) <= 1, ended.stdout


REGISTRATION = """
import sys, torch.distributed as dist
print("registered", "innet" in dist.Backend.backend_list)
wanted_later = {"innet._native._core", "innet.torch_backend.process_group"}
print("loaded", wanted_later & set(sys.modules))
dist.init_process_group("innet", store=dist.HashStore(), rank=0, world_size=1)
"""


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    """A program that imports PyTorch, and then uses the backend outside a run."""
    return subprocess.run(
        [sys.executable, "-c", REGISTRATION],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_importing_torch_registers_the_backend_without_loading_it(
    done: subprocess.CompletedProcess[str],
) -> None:
    assert done.stdout.splitlines() == ["registered True", "loaded set()"], done.stderr


def test_outside_a_run_the_error_says_how_to_start(
    done: subprocess.CompletedProcess[str],
) -> None:
    assert done.returncode == 1
    assert "EmulationError" in done.stderr
    assert "innet run TOPOLOGY -- python" in done.stderr


STARTED_BY_ITSELF = """
import torch.distributed as dist
try:
    dist.init_process_group(BACKEND)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("backend", ["'innet'", "'cpu:innet,cuda:innet'", "backend='innet'"])
def test_without_a_launcher_the_error_names_it(backend: str) -> None:
    said = started_by_itself(backend)
    assert said.startswith("EmulationError this process is not a worker of a run")
    assert "Start it with: innet run TOPOLOGY -- python" in said


def test_errors_of_other_backends_stay_as_they_are() -> None:
    assert started_by_itself("'gloo'").startswith("ValueError Error initializing")


def started_by_itself(backend: str) -> str:
    hidden = ("RANK", "INNET_")
    environment = {name: at for name, at in os.environ.items() if not name.startswith(hidden)}
    program = STARTED_BY_ITSELF.replace("BACKEND", backend)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    return ended.stdout
