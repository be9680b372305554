"""Readings of links: differences, and the queue that was deepest."""

from __future__ import annotations

import asyncio

import pytest

from innet.lab.compare.sampling import (
    LinkReading,
    NodeReading,
    ProbedQueues,
    QueueWatch,
    TrafficTotal,
    read_nodes,
    read_ports,
)
from innet.plans.bounds import DirectedLink
from innet.topology import load_topology

UP, DOWN = ("h0", "s0"), ("s0", "h0")


class ScriptedLinks:
    """Gives one reading after the other, and the last one for ever."""

    def __init__(self, *readings: dict[DirectedLink, LinkReading]) -> None:
        self._readings = list(readings)
        self.exhausted = asyncio.Event()

    async def links(self) -> dict[DirectedLink, LinkReading]:
        if len(self._readings) == 1:
            self.exhausted.set()
            return self._readings[0]
        return self._readings.pop(0)


async def test_the_deepest_queue_is_found_with_its_drops() -> None:
    probe = ScriptedLinks(
        {UP: LinkReading(0, 5, 0), DOWN: LinkReading(0, 2, 10)},
        {UP: LinkReading(0, 5, 700), DOWN: LinkReading(0, 2, 10)},
        {UP: LinkReading(0, 9, 300), DOWN: LinkReading(0, 2, 500)},
        {UP: LinkReading(0, 9, 0), DOWN: LinkReading(0, 2, 0)},
    )
    async with QueueWatch(ProbedQueues(probe.links), period_s=0.001) as watch:
        await probe.exhausted.wait()
    series = watch.deepest(started_s=0.0, ended_s=float("inf"))
    assert series is not None
    assert (series.source, series.destination) == UP
    assert series.depth_bytes[:3] == [0, 700, 300]
    assert series.drops[:3] == [0, 0, 4]


async def test_without_waiting_packets_there_is_no_deepest_queue() -> None:
    probe = ScriptedLinks({UP: LinkReading(0, 0, 0)})
    async with QueueWatch(ProbedQueues(probe.links), period_s=0.001) as watch:
        await probe.exhausted.wait()
    assert watch.deepest(0.0, float("inf")) is None


def test_traffic_is_the_increase_of_the_counters_in_a_turn() -> None:
    star = load_topology("star8").with_overrides(rate_bps=1e9)
    total = TrafficTotal()
    total.add({UP: LinkReading(100, 1, 0)}, {UP: LinkReading(500, 3, 0)})
    total.add({UP: LinkReading(900, 3, 0)}, {UP: LinkReading(1300, 3, 0)})
    (link,) = total.per_operation(star, operations=4)
    assert (link.source, link.destination, link.rate_bps) == ("h0", "s0", 1e9)
    assert link.bytes_per_operation == pytest.approx(200)
    assert link.drops == 2


def test_the_status_is_summed_over_the_nodes() -> None:
    port = {
        "enqueued": 3,
        "sent_bytes": 10,
        "dropped_queue": 1,
        "dropped_loss": 9,
        "depth_bytes": 4,
    }
    no_port = dict.fromkeys(port, 0)
    sent = {
        "interests_out": 100,
        "data_out": 10,
        "nacks_out": 1,
        "holds_out": 1000,
        "send_calls": 20,
        "receive_calls": 3,
    }
    node = {
        "endpoint": {"retransmissions_by_gap": 1, "retransmissions_by_timeout": 2},
        "reducer": {"operand_retransmissions": 4},
        "cpu_s": 2.0,
    }
    status = {
        "h0": {
            **node,
            "kind": "host",
            "links": [{"peer": "s0", "port": port, "bytes_out": 99, **sent}],
        },
        "s0": {
            **node,
            "kind": "switch",
            "links": [{"peer": "h0", "port": no_port, "bytes_out": 7, **sent}],
        },
    }
    assert read_nodes(status) == NodeReading(
        retransmissions=14, packets=2222, calls=46, switch_cpu_s=2.0
    )
    assert read_ports(status) == {UP: LinkReading(10, 1, 4), DOWN: LinkReading(7, 0, 0)}
