"""Fixtures for adapters' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kv_adapters.hosts import Hosts


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    hosts = Hosts()
    yield hosts
    hosts.close()
