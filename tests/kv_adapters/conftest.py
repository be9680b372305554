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


@pytest.fixture(autouse=True)
def _own_cache_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digests of weights go nowhere near those of the user who runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
