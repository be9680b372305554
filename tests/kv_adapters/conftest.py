"""Fixtures for adapters' tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.kv_adapters.hosts import Hosts

_SHARED_MEMORY: Final = Path("/dev/shm")
_OF_ENGINES: Final = ("lmcache_", "psm_", "sgl", "vllm_")


@pytest.fixture(scope="module", autouse=True)
def _no_shared_memory_is_left() -> Iterator[None]:
    """Remove the shared memory of engines that were killed, which can be 1 GiB for each."""
    before = set(_SHARED_MEMORY.iterdir())
    yield
    left = [
        path for path in set(_SHARED_MEMORY.iterdir()) - before if path.name.startswith(_OF_ENGINES)
    ]
    mapped = "".join(_memory_maps()) if left else ""
    for path in left:
        if str(path) not in mapped:
            path.unlink(missing_ok=True)


def _memory_maps() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            yield (process / "maps").read_text()


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
