"""Operators see what pools of KV blocks do: by node, tenant and engine, over HTTP and MQTT."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.cluster.metrics import pool_metrics
from innet.kv.pool.statistics import Place, PoolStatistics, TierStatistics
from innet.kv.tenant import Tenant
from innet.node.messages import PoolReport
from innet.settings import Settings
from innet.telemetry.broker_socket import BROKER_SOCKET_NAME, client_through
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.durations import DURATION_BOUNDS_S, Ages, Durations
from innet.topology import load_topology
from innet.worker.controller_connection import ControllerConnection, WorkerPools
from tests.telemetry.brokers import Watcher, watching

WORKER = Path(__file__).parent / "workers" / "shares_blocks.py"
BLOCK_BYTES = 100_000
DASHBOARD = Path(__file__).parents[3] / "docs" / "recipes" / "kv-pools.json"


class Lines:
    """Tells when workers have printed something."""

    def __init__(self) -> None:
        self._said: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def __call__(self, label: str, line: str) -> None:
        self._said[line] += 1
        self._changed.set()

    async def wait_for(self, line: str, times: int) -> None:
        while self._said[line] < times:
            self._changed.clear()
            await self._changed.wait()


async def test_pool_counters_are_scraped_and_published(tmp_path: Path) -> None:
    settings = Settings().with_assignments(["telemetry.metrics_port=0", "telemetry.interval_s=0.2"])
    lines, done = Lines(), tmp_path / "done"
    async with Session(load_topology("star:2"), settings=settings, output=lines) as session:
        job = asyncio.ensure_future(session.run_workers([sys.executable, str(WORKER), str(done)]))
        await lines.wait_for("ready", 2)
        url = find_run(session.network.run_id).metrics
        assert url is not None
        samples = await asyncio.to_thread(_scrape, url)
        run_dir = session.network.run_dir
        broker = BrokerUrl.of_setting(Settings.load(run_dir / "settings.json").telemetry.broker)
        async with watching(client_through(run_dir / BROKER_SOCKET_NAME, broker)) as watcher:
            await watcher.until(lambda feed: _loaded(watcher, "h1") == 2)
        done.touch()
        await job
    of_h0 = {"node": "h0", "tenant": "acme", "engine": "first", "model": ""}
    of_h1 = {"node": "h1", "tenant": "acme", "engine": "second", "model": "llama"}
    assert _value(samples, "innet_kv_stored_total", **of_h0) == 3
    assert _value(samples, "innet_kv_stored_bytes_total", **of_h0) == 3 * BLOCK_BYTES
    assert _value(samples, "innet_kv_store_seconds_count", **of_h0) == 3
    assert _value(samples, "innet_kv_hits_total", **of_h1, place="network") == 2
    assert _value(samples, "innet_kv_loaded_bytes_total", **of_h1) == 2 * BLOCK_BYTES
    assert _value(samples, "innet_kv_load_seconds_count", **of_h1) == 2
    assert _value(samples, "innet_kv_load_seconds_sum", **of_h1) > 0
    # A get and a lookup of a block that nobody has; the lookup has found the block before it.
    assert _value(samples, "innet_kv_misses_total", **of_h1, cause="absent") == 2
    assert _value(samples, "innet_kv_lookups_total", **of_h1) == 2
    assert _value(samples, "innet_kv_lookups_found_total", **of_h1) == 1
    # There is room for one block at h1.
    assert _value(samples, "innet_kv_evictions_total", **of_h1, tier="local_memory") == 1
    used = _value(samples, "innet_kv_used_bytes", **of_h1, tier="local_memory")
    assert BLOCK_BYTES <= used < 2 * BLOCK_BYTES


def test_the_labels_of_a_pool_are_bounded() -> None:
    before, after = PoolStatistics(), PoolStatistics()
    after.hits.update(Place)
    documents = [each.counters("t" * 1000, "vllm", "m" * 1000) for each in (before, after)]
    assert [_series(document) for document in documents] == [_series(documents[0])] * 2
    assert len(documents[0]["tenant"]) == len(documents[0]["model"]) == 64


def test_durations_are_counted_up_to_each_bound() -> None:
    durations = Durations()
    for duration_s in (0.0, 0.001, 0.002, 10.0, 11.0):
        durations.add(duration_s)
    statistics = PoolStatistics(load_times=durations)
    document = statistics.counters("acme", "vllm")
    buckets = {
        sample.labels["le"]: sample.value
        for metric in pool_metrics([("h0", document)])
        for sample in metric.samples
        if sample.name == "innet_kv_load_seconds_bucket"
    }
    assert len(buckets) == len(DURATION_BOUNDS_S) + 1
    assert (buckets["0.001"], buckets["0.003"], buckets["3"]) == (2, 3, 3)
    assert (buckets["10"], buckets["+Inf"]) == (4, 5)


def test_ages_of_evicted_blocks_are_counted_by_tier() -> None:
    ages = Ages()
    for age_s in (0.5, 30.0, 1e6):
        ages.add(age_s)
    tier = TierStatistics(0, 0, 0, 0, 3, eviction_ages=ages)
    document = PoolStatistics(tiers={"local memory": tier}).counters("acme", "vllm", "llama")
    buckets = {
        sample.labels["le"]: sample.value
        for metric in pool_metrics([("h0", document)])
        for sample in metric.samples
        if sample.name == "innet_kv_eviction_age_seconds_bucket"
        and (sample.labels["tier"], sample.labels["model"]) == ("local_memory", "llama")
    }
    assert (buckets["1"], buckets["10"], buckets["60"], buckets["+Inf"]) == (1, 1, 2, 3)


def test_the_dashboard_names_metrics_and_labels_that_exist() -> None:
    tier = TierStatistics(0, 0, 0, 0, 0)
    document = PoolStatistics(tiers={"local memory": tier}).counters("acme", "vllm")
    samples = [s for m in pool_metrics([("h0", document)]) for s in m.samples]
    labels = {s.name: set(s.labels) for s in samples}
    dashboard = json.loads(DASHBOARD.read_text())
    shown = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            names = re.findall(r"innet_\w+", target["expr"])
            assert names
            shown.update(names)
            used = re.findall(r"by \(([^)]*)\)", target["expr"])
            wanted = {label.strip() for text in used for label in text.split(",")}
            wanted |= set(re.findall(r"(\w+)=~", target["expr"]))
            for name in names:
                assert wanted <= labels[name], (name, wanted)
    histograms = {"innet_kv_load_seconds", "innet_kv_store_seconds"}
    histograms.add("innet_kv_eviction_age_seconds")
    plain = {n for n in labels if not n.endswith(("_created", "_sum", "_count", "_bucket"))}
    assert shown == plain | {f"{name}_bucket" for name in histograms}


class _Controller:
    def ask(self, method: str, **params: object) -> None:
        """Accepts all that a pool reports."""


def test_tenants_of_one_name_with_different_secrets_are_distinguished() -> None:
    pools = WorkerPools(cast(ControllerConnection, _Controller()), "h0", 1)
    tenants = [Tenant("acme", bytes([number]) * 16) for number in range(2)]
    document = PoolStatistics().counters("acme", "vllm")
    for tenant in tenants:
        pools.open(
            PoolReport(tenant=tenant.component, key=tenant.public_key, capacity_bytes=0, weight=1)
        )
        pools.count(tenant.component, lambda: document)
    first, second = sorted(tenant.component for tenant in tenants)
    assert [each["tenant"] for each in pools.counters()] == ["acme", f"acme-{second[:8]}"]
    pools.leave(second)
    assert [each["tenant"] for each in pools.counters()] == ["acme"]
    pools.leave(first)
    assert pools.counters() == []


def _series(document: dict[str, object]) -> set[tuple[str, ...]]:
    return {
        (sample.name, *sample.labels.values())
        for metric in pool_metrics([("h0", document)])
        for sample in metric.samples
    }


def _scrape(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _value(
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str
) -> float:
    return samples[name, frozenset(labels.items())]


def _loaded(watcher: Watcher, node: str) -> int:
    counters = watcher.feed.nodes[node].counters if node in watcher.feed.nodes else None
    if counters is None or not counters.pools:
        return 0
    (pool,) = counters.pools
    assert pool.engine == "second"
    assert sum(pool.hits.values()) == sum(pool.load_times.counts)
    return sum(pool.hits.values())
