"""LMCache's own checkers, over a pool of two hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("lmcache", reason="LMCache is not installed here: `make kv-adapters` has it")

from tests.kv_adapters.running import run_on_two_hosts

KEYS = 3
# The checkers name a model by a path that does not exist: its weights have to be vouched for.
CONFIG = """
chunk_size: 256
pre_caching_hash_algorithm: sha256_cbor
local_cpu: false
max_local_cpu_size: 0.1
remote_url: plugin://innet
remote_storage_plugins: [innet]
extra_config:
  remote_storage_plugin.innet.module_path: innet.kv.adapters.lmcache
  remote_storage_plugin.innet.class_name: InnetConnectorAdapter
  remote_storage_plugin.innet.tenant: acme
  remote_storage_plugin.innet.weights: none
"""
L2 = {
    "type": "plugin",
    "module_path": "innet.kv.adapters.lmcache",
    "class_name": "InnetL2Adapter",
    "adapter_params": {"tenant": "acme", "weights": "none", "adapters": "none"},
}


def check(mode: str, *arguments: str, **env: str) -> None:
    """Each host's checker says that all of each operation was right."""
    printed = run_on_two_hosts(
        ["-m", "lmcache.v1.basic_check", "--mode", mode, "--num-keys", str(KEYS), *arguments], env
    )
    for host in ("h0", "h1"):
        rows = [line.split("|") for line in printed[host] if "100.0%" in line and "|" in line]
        assert [row[5].strip() for row in rows] == [f"{KEYS}/{KEYS}"] * 4, printed[host]


def test_the_checker_of_l2_adapters_passes() -> None:
    check("test_l2_adapter", "--l2-adapter", json.dumps(L2), "--obj-size", "200000")


def test_the_checker_of_remote_stores_passes(tmp_path: Path) -> None:
    config = tmp_path / "lmcache.yaml"
    config.write_text(CONFIG)
    check("test_remote", "--obj-size", "200000", LMCACHE_CONFIG_FILE=str(config))
