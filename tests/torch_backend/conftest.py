"""Four ranks over a star, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.torch_backend.ranks import SIZE, Ranks


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Cluster(load_topology(f"star:{SIZE}")) as cluster:
        made = Ranks(cluster)
        yield made
        made.close()
