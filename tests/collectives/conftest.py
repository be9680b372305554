"""Clusters of four ranks, one for each algorithm, shared by the tests of a module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from innet.topology import load_topology
from tests.collectives.cluster import Cluster


@pytest.fixture(scope="module")
def cluster_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Cluster]]:
    """The cluster of an algorithm, with segments of the module's ``SEGMENT_BYTES``."""
    segment_bytes = request.module.SEGMENT_BYTES
    with ExitStack() as opened:

        @functools.cache
        def open_cluster(algorithm: str) -> Cluster:
            cluster = Cluster(load_topology("star:4"), algorithm, segment_bytes=segment_bytes)
            return opened.enter_context(cluster)

        yield open_cluster
