"""SGLang's storage starts while its standing pool is down, and finds no pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kv_adapters.running import require_sglang

require_sglang()

from tests.kv_adapters.sglang.on_processor import stand_in

stand_in()

from innet.kv.adapters.sglang import InnetHiCacheStorage
from tests.kv_adapters.sglang.host_cache import CONFIG, HostCache


def test_a_storage_starts_while_its_pool_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    secret = tmp_path / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text("at least sixteen bytes")
    options = {"address": "prod", "tenant": "acme", "secret": str(secret), "weights": "none"}
    extra = {**(CONFIG.extra_config or {}), "innet": options}
    storage = InnetHiCacheStorage(replace(CONFIG, extra_config=extra))
    try:
        storage.register_mem_pool_host(HostCache())
        assert storage.batch_exists(["00" * 32]) == 0
        assert storage.get("00" * 32) is None
    finally:
        storage.close()
