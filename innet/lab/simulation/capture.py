"""Packet traces of a simulation, for Wireshark and its like."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from innet.errors import SimulationError
from innet.lab.simulation.network import SimulatedNetwork


class Capture:
    """Writes packets to a pcapng file while a simulation runs.

    Each direction of a link is an interface, named ``h0->s0``. A packet is there when it arrives,
    with a time in nanoseconds since the simulation began: lost ones are not. NDN packets stand in
    UDP datagrams of port 6363 between the neighbours, streams in TCP segments between their hosts.
    What is virtual counts in the length of a packet and is missing in its bytes.
    """

    def __init__(
        self,
        network: SimulatedNetwork,
        path: str | Path,
        links: Iterable[tuple[str, str]] | None,
    ) -> None:
        """
        Args:
            network: whose links are captured.
            path: of the file, which is replaced.
            links: pairs of neighbours, captured in both directions; by default all.

        Raises:
            SimulationError: there is no such link, or the file cannot be written.
        """
        pairs = [link.nodes for link in network.topology.links] if links is None else list(links)
        names = {
            network.direction(source, to): f"{source}->{to}"
            for a, b in pairs
            for source, to in ((a, b), (b, a))
        }
        self._native = network.native
        self._path = path
        try:
            self._number: int | None = self._native.start_capture(str(path), names)
        except RuntimeError:
            raise self._failed() from None

    def close(self) -> None:
        """Capture no more; the file is complete.

        Raises:
            SimulationError: it could not be written.
        """
        if self._number is not None:
            number, self._number = self._number, None
            if not self._native.stop_capture(number):
                raise self._failed()

    def _failed(self) -> SimulationError:
        return SimulationError(
            f"the packet trace {self._path} cannot be written; is its folder there, and the disk "
            "not full?"
        )
