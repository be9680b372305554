"""Looks at all queues of a simulation again and again."""

from __future__ import annotations

import asyncio

import numpy as np
import numpy.typing as npt

from innet.lab.compare.measurement import QueueSeries
from innet.lab.simulation.network import SimulatedNetwork

_FIRST_PERIOD_S = 20e-6
_MOST_READINGS = 1024
_LEAST_READINGS = 128
_MOST_VALUES = 1 << 20
"""Of all readings together: of a large network there are fewer."""


class QueueWatch:
    """Reads the queues at equal distances in virtual time, ever wider ones as time goes on.

    Whatever the length of a run, some hundred readings are left.
    """

    def __init__(self, network: SimulatedNetwork) -> None:
        self._network = network
        self._period_s = _FIRST_PERIOD_S
        links = len(network.directions)
        self._most = max(_LEAST_READINGS, min(_MOST_READINGS, _MOST_VALUES // links))
        self._readings: list[tuple[float, npt.NDArray[np.uint64]]] = []

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self._readings.append(
                (self._network.now_s, np.array(self._network.queues(), np.uint64))
            )
            if len(self._readings) >= self._most:
                self._readings = self._readings[::2]
                self._period_s *= 2
            await asyncio.sleep(self._period_s)

    def deepest(self, began_s: float, ended_s: float) -> QueueSeries | None:
        """The queue that was deepest between two moments; ``None``: no packet was seen to wait."""
        within = [(at_s, read) for at_s, read in self._readings if began_s <= at_s <= ended_s]
        if not within:
            return None
        queues = np.stack([read for _, read in within])  # by time, direction; depth and drops
        link = int(queues[:, :, 0].max(axis=0).argmax())
        if not queues[:, link, 0].any():
            return None
        source, destination = self._network.directions[link]
        return QueueSeries(
            source=source,
            destination=destination,
            time_s=[at_s - began_s for at_s, _ in within],
            depth_bytes=[int(depth) for depth in queues[:, link, 0]],
            drops=[int(drops - queues[0, link, 1]) for drops in queues[:, link, 1]],
        )
