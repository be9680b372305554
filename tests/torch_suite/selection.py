"""The tests that are never run, with reasons (``skips.toml``), and those that every run has."""

from __future__ import annotations

import tomllib
import unittest
from collections.abc import Callable
from pathlib import Path

_FILE = Path(__file__).with_name("skips.toml")


def load_skips() -> dict[str, str]:
    """The reason by the name of the test.

    Raises:
        ValueError: a test stands there twice, or a reason is empty.
    """
    reasons: dict[str, str] = {}
    for entry in tomllib.loads(_FILE.read_text())["skip"]:
        if not entry["reason"].strip():
            raise ValueError(f"{_FILE.name}: an entry has no reason")
        for name in entry["tests"]:
            if name in reasons:
                raise ValueError(f"{_FILE.name}: {name} stands there twice")
            reasons[name] = entry["reason"]
    return reasons


def skipped(test: Callable[..., None], reason: str) -> Callable[..., None]:
    """``test``, never run."""
    return unittest.skip(reason)(test)


SELECTED = (
    # One of each kind: collectives of the whole and of a part of the ranks, ...
    "test_all_reduce_sum",
    "test_all_reduce_coalesced_group_max",
    "test_all_gather_v_cuda",
    "test_all_to_all_single_unequal_split_group",
    "test_reduce_scatter_v_cuda",
    "test_scatter_complex",
    "test_barrier_group",
    # ... messages, ...
    "test_batch_isend_irecv_ring_exchange_nccl",
    "test_send_recv_with_tag",
    # ... making and destroying groups, ...
    "test_destroy_full_group",
    "test_new_subgroups_by_enumeration",
    # ... and DistributedDataParallel, also where it fails as it should.
    "test_DistributedDataParallelCPU",
    "test_ddp_model_diff_shape_across_ranks",
    "test_static_graph_multi_forward",
)
