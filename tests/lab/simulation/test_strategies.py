"""Forwarding strategies change the time of an answer on simulated links."""

from __future__ import annotations

import numpy as np

from innet._native import _core
from innet.node.native_settings import NodeSizes, native_settings
from innet.security import deal_keys
from innet.settings import Settings

HOSTS = ("asker", "first", "second")
OBJECT = _core.Name("/replicated/object")
FETCHES = 200
LATE_S = 0.1


def link(seed: int, late: float) -> _core.LinkShape:
    """1 ms away; a share of the packets comes ``LATE_S`` later."""
    port = _core.PortShape(
        rate_bps=1e9, delay_s=0.001, loss=0.0, queue_bytes=1 << 20, mark_bytes=None, seed=seed
    )
    return _core.LinkShape(port, reorder=late, reorder_delay_s=LATE_S)


class Replicas:
    """An asker and two hosts that have the same object, round one switch."""

    def __init__(self, late: float) -> None:
        keys = deal_keys([*HOSTS, "switch"], "gmac")
        self.simulation = _core.Simulation(lambda node, name: None, lambda node, group, of: None)
        self.nodes = {
            name: self.simulation.add_node(
                native_settings(name, Settings(), NodeSizes(seed=seed)),
                keys[name].signing_key(),
                keys[name].trusted_keys(),
            )
            for seed, name in enumerate((*HOSTS, "switch"))
        }
        switch = self.nodes["switch"]
        for number, name in enumerate(HOSTS):
            shapes = [link(10 * number + i, late if number else 0.0) for i in range(2)]
            self.simulation.connect(switch.index, self.nodes[name].index, *shapes)
        self.nodes["asker"].add_route("/replicated", 0)
        for face, name in enumerate(HOSTS[1:], start=1):
            switch.add_route("/replicated", face, face)
            node = self.nodes[name]
            node.register_objects(_core.Name("/replicated"), name)
            node.publish_object(OBJECT, np.zeros(100, np.uint8), keys["first"].object_key(), 1000)
            self.simulation.collect(node.index)
        self.signer = _core.Name(keys["first"].objects.name)

    def fetch_s(self) -> float:
        """Time of one fetch."""
        started_ns = self.simulation.now_ns
        into = _core.ObjectBuffer()
        asker = self.nodes["asker"]
        asker.fetch_object(OBJECT, _core.Name("/"), self.signer, into, 10.0)
        statuses: list[int] = []
        while not statuses:
            self.simulation.run(None, 1000)
            ended = self.simulation.take_ended()
            statuses = [status for node, _, status, _ in ended if node == asker.index]
        assert statuses == [_core.STATUS_DONE]
        return (self.simulation.now_ns - started_ns) / 1e9


def times_s(strategy: str) -> np.ndarray:
    replicas = Replicas(late=0.1)
    assert replicas.nodes["switch"].set_strategy(
        "/replicated", f"/localhost/nfd/strategy/{strategy}"
    )
    return np.array([replicas.fetch_s() for _ in range(FETCHES)])


def test_requesting_from_two_replicas_lowers_the_tail_and_not_the_median() -> None:
    alone, cloned = times_s("best-route"), times_s("clone")
    usual_s = np.median(alone)
    assert np.median(cloned) <= usual_s * 1.01
    # A tenth of the packets is late, and four make a fetch.
    late, late_of_both = np.mean(alone > 2 * usual_s), np.mean(cloned > 2 * usual_s)
    assert late > 0.2
    assert late_of_both < 0.2 * late
    assert cloned.mean() < 0.5 * alone.mean()
