"""Metrics as Prometheus reads them."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.cluster.metrics import MetricsEndpoint
from innet.cluster.run_status import read_run_status
from innet.errors import TelemetryError
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import load_topology
from tests.cli.runs import innet

SUM = """
import innet, numpy, os
comm = innet.init()
comm.allreduce(numpy.ones(1 << 16, numpy.float32))
print("summed", flush=True)
comm.barrier()
"""

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(url: str) -> Samples:
    """All samples, by name and labels; fails when the text is not in Prometheus' format."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
            if family.type == "counter":
                assert sample.name.endswith("_total")
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.mark.parametrize(
    "mode", ["local", pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.jobs])]
)
async def test_scraped_values_equal_the_counters_of_the_nodes(mode: Mode) -> None:
    topology = load_topology("star:2").with_overrides(rate_bps=200_000_000)
    settings = Settings().with_assignments(["telemetry.metrics_port=0", "telemetry.broker=none"])
    async with Session(topology, mode=mode, settings=settings, output=_nothing) as session:
        url = find_run(session.network.run_id).metrics
        assert url is not None
        await session.run_workers([sys.executable, "-c", SUM], algorithm="inc")
        earlier = await session.status()
        samples = await asyncio.to_thread(scrape, url)
        status = await session.status()
    assert value(samples, "innet_node_up", node="s0") == 1
    sent_before = {face["peer"]: face["bytes_out"] for face in earlier["s0"]["links"]}
    faces = {face["peer"]: face for face in status["s0"]["links"]}
    for peer, face in faces.items():
        labels = {"node": "s0", "face": str(face["face"]), "peer": peer}
        assert value(samples, "innet_interests_in_total", **labels) == face["interests_in"] > 0
        # Neighbours go on greeting each other.
        sent_bytes = value(samples, "innet_sent_bytes_total", **labels)
        assert 1 << 18 < sent_before[peer] <= sent_bytes <= face["bytes_out"]
        # A link carries what the face sends, with headers in the kernel's account.
        assert value(samples, "innet_link_sent_bytes_total", node="s0", peer=peer) > 1 << 18
    completed = status["s0"]["reducer"]["reductions_completed"]
    assert value(samples, "innet_reductions_completed_total", node="s0") == completed > 0
    assert value(samples, "innet_reduction_slots", node="s0") == status["s0"]["slots"]
    (info,) = [dict(labels) for name, labels in samples if name == "innet_run_info"]
    assert (info["run_id"], info["mode"]) == (session.network.run_id, mode)


async def test_a_port_in_use_ends_the_command_with_the_next_step() -> None:
    settings = Settings().with_assignments(["telemetry.metrics_port=0", "telemetry.broker=none"])
    async with Session(load_topology("star:2"), settings=settings, output=_nothing) as session:
        run = find_run(session.network.run_id)
        assert run.metrics is not None
        port = str(urlsplit(run.metrics).port)
        done = await asyncio.to_thread(innet, "metrics", run.run_id, "--port", port)
    assert done.returncode == 1
    assert f"port {port}: Address already in use. Choose another" in " ".join(done.stderr.split())


async def test_an_unresponsive_node_is_not_up() -> None:
    async with Session(load_topology("star:2"), output=_nothing) as session:
        record = find_run(session.network.run_id)

        def status_with_a_silent_node():
            return read_run_status(record).model_copy(update={"silent": {"h0": "no answer"}})

        with MetricsEndpoint(0, status_with_a_silent_node) as endpoint:
            samples = await asyncio.to_thread(scrape, endpoint.url)
    assert value(samples, "innet_node_up", node="h0") == 0
    assert value(samples, "innet_node_up", node="s0") == 1


def test_a_port_in_use_is_reported() -> None:
    def nothing():
        raise AssertionError("nobody scrapes")

    with MetricsEndpoint(0, nothing) as first:
        port = int(first.url.split(":")[2].split("/")[0])
        with pytest.raises(TelemetryError, match=f"port {port}"):
            MetricsEndpoint(port, nothing)


def _nothing(_label: str, _line: str) -> None:
    pass
