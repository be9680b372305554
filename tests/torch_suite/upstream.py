"""PyTorch's own ``distributed_test.py``, as it ships in the wheel, for the backend ``innet``."""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
import unittest
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import hypothesis

from innet.torch_backend.options import BACKEND_NAME
from tests.torch_suite.on_cpu import on_cpu, on_cpu_instead_of, one_device_each

WORLD_SIZE = 4
# What fails with TORCH_SUITE_BACKEND=gloo, too, is not innet's fault.
BACKEND = os.environ.get("TORCH_SUITE_BACKEND", BACKEND_NAME)

_ENVIRONMENT = {
    "BACKEND": BACKEND,
    "WORLD_SIZE": str(WORLD_SIZE),
    "INIT_METHOD": f"file://{tempfile.gettempdir()}/innet-torch-suite-{os.getpid()}",
    # A test that hangs shows where.
    "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "90",
    # Tests of torch.compile spend most of their time on probing what the compiler of C++ can do,
    # and on starting a pool of processes that compile, in every rank.
    "TORCHINDUCTOR_VEC_ISA_OK": "0",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
_LIMITS_S = {"test_ddp_compile_static_graph": 300}
"""Beside PyTorch's own: the ranks compile one after the other, because they share a cache."""

# These make their model in a branch for each backend they know.
_CASES_BY_BACKEND = "test_accumulate_gradients_no_sync"
# These use GPUs without asking whether there are any: only NCCL gets so far.
_UNGUARDED = ("_cuda", "coalescing_manager", "batch_isend_irecv")

Test = Callable[..., None]


def import_quietly(module: str) -> ModuleType:
    """Import a module of PyTorch's tests without its effect on everybody else in the process."""
    # Its common_utils makes hypothesis try less examples.
    profile = hypothesis.settings.get_current_profile_name()
    imported = importlib.import_module(module)
    hypothesis.settings.load_profile(profile)
    return imported


def load() -> ModuleType:
    """The module, with tests for GPUs made such that they run without."""
    os.environ.update(_ENVIRONMENT)
    decorators = import_quietly("torch.testing._internal.common_distributed")
    decorators.TIMEOUT_OVERRIDE.update(_LIMITS_S)
    for feature in ("ddp", "subgroup", "plugin", "gpu", "cuda"):
        decorators.DistTestCases.backend_feature[feature].add(BACKEND)
    substitutes: dict[str, Any] = {
        # It asks for 8 processes, for the sake of machines with many GPUs; the tests need 3.
        "skip_if_small_worldsize": lambda test: test,
        "skip_if_no_gpu": on_cpu,
        "skip_if_lt_x_gpu": on_cpu_instead_of,
        "init_multigpu_helper": one_device_each,
    }
    with (
        mock.patch.multiple(decorators, **substitutes),
        mock.patch.object(unittest, "skip", _marked_only),
        mock.patch.object(unittest.case, "skip", _marked_only),  # what unittest.skipIf() calls
    ):
        module = import_quietly("torch.testing._internal.distributed.distributed_test")
    # Its tests then look for the events of the operations in profiles.
    for backends in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(module, backends).append(BACKEND)
    return module


def limit_s(test: str) -> int:
    """The time after which PyTorch ends a test."""
    decorators = import_quietly("torch.testing._internal.common_distributed")
    limit: int = decorators.get_timeout(test)
    return limit


def tests_of(module: ModuleType) -> dict[str, Test]:
    """Each test by name, also those that the module itself skips.

    It skips by the backend's name (what Gloo, MPI or NCCL alone can do, as it knows) and what is
    unstable on PyTorch's own machines. Here ``skips.toml`` alone tells what is skipped.
    """
    cases = vars(module.DistributedTest._DistTestBase)
    tests = {name: _unmarked(test) for name, test in cases.items() if name.startswith("test_")}
    for name, test in tests.items():
        if name.startswith(_CASES_BY_BACKEND):
            tests[name] = _as_gloo(module, test)
        elif any(part in name for part in _UNGUARDED):
            tests[name] = on_cpu(test)
    return tests


def _marked_only(reason: str) -> Callable[[Test], Test]:
    """``unittest.skip``, undone by :func:`_unmarked`: its own wrapper never calls the test."""

    def mark(test: Test) -> Test:
        marked: Any = test
        marked.__unittest_skip__ = True
        marked.__unittest_skip_why__ = reason
        return test

    return mark


def _unmarked(test: Test) -> Test:
    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        test(*args, **kwargs)

    vars(wrapper).pop("__unittest_skip__", None)
    return wrapper


def _as_gloo(module: ModuleType, test: Test) -> Test:
    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        with mock.patch.object(module, "BACKEND", "gloo"):
            test(*args, **kwargs)

    return wrapper
