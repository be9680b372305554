"""The network that PyTorch's tests run on, and which of them every run has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torch_suite.forked_ranks import ForkedRanks
from tests.torch_suite.hosts import Hosts
from tests.torch_suite.selection import SELECTED
from tests.torch_suite.upstream import WORLD_SIZE, limit_s

_START_AND_END_S = 90


def pytest_itemcollected(item: pytest.Item) -> None:
    suite = getattr(item, "cls", None)
    if suite is None or suite.__name__ != "TestDistributed":
        return
    if item.name not in SELECTED:
        item.add_marker("torch_suite")
    # PyTorch ends a test at its limit, and prints where each rank is: let that come first.
    item.add_marker(pytest.mark.timeout(limit_s(item.name) + _START_AND_END_S))


@pytest.fixture(scope="session")
def hosts() -> Iterator[None]:
    with Hosts(WORLD_SIZE) as network:
        ForkedRanks.hosts = network
        yield


@pytest.fixture(autouse=True)
def network_of_forked_ranks(request: pytest.FixtureRequest) -> None:
    if request.cls is not None and issubclass(request.cls, ForkedRanks):
        request.getfixturevalue("hosts")
