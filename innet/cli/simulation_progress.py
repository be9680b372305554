"""How far simulations are, in words."""

from __future__ import annotations

import time

from innet.lab.compare.progress import ProgressSink
from innet.lab.compare.quantities import format_seconds
from innet.lab.simulation.experiment.sweep import Standing


class SimulationProgress:
    """Tells a sink of virtual time, packets a second and operations done."""

    def __init__(self, sink: ProgressSink) -> None:
        self._sink = sink
        self._seen: dict[int, int] = {}
        self._packets = 0
        self._begun_s = time.monotonic()

    def __call__(self, standing: Standing) -> None:
        """Show how far it is."""
        for number, moment in standing.moments.items():
            # A run that begins under the number of one that has ended counts from 0 again.
            before = self._seen.get(number, 0)
            self._packets += moment.packets - (before if moment.packets >= before else 0)
            self._seen[number] = moment.packets
        self._sink(standing.fraction, self._text(standing))

    def _text(self, standing: Standing) -> str:
        per_s = self._packets / max(1e-3, time.monotonic() - self._begun_s)
        now = ", ".join(
            f"{format_seconds(m.virtual_s)} {m.operations}/{m.of_operations}"
            for m in standing.moments.values()
        )
        runs = f"run {min(standing.ended + 1, standing.runs)} of {standing.runs}"
        return f"{runs}{': ' if now else ''}{now}, {per_s / 1e3:.0f}k packets/s"
