"""A running capture: writes the packets of all sources to a file until a limit is reached."""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from innet._native import _core
from innet.cluster.emulation.runs import RunRecord
from innet.errors import EmulationError
from innet.observe.packets.capture.links import DirectedPort
from innet.observe.packets.capture.sources import (
    CapturedFrame,
    PacketSource,
    open_kernel_sources,
    open_node_sources,
)
from innet.observe.packets.frames import ndn_packets
from innet.observe.packets.outline import Outline, PacketChoice
from innet.output_files import find_output

_LOOK_PERIOD_S = 0.25


@dataclass(frozen=True)
class CaptureLimits:
    """Limits that end a capture; ``None``: no limit."""

    packets: int | None = None
    seconds: float | None = None
    size_bytes: int | None = None
    """Limit of captured frames in bytes; the file is a little larger."""


@dataclass
class CaptureTotals:
    """The contents of the file so far.

    Attributes:
        packets: frames written.
        size_bytes: of these frames.
        lost: packets that crossed the links and were not captured.
        elapsed_s: since the capture began.
        ended: why the capture ended; empty while it runs.
    """

    packets: int = 0
    size_bytes: int = 0
    lost: int = 0
    elapsed_s: float = 0.0
    ended: str = ""


class CaptureSession:
    """Captures links of a run.

    >>> with CaptureSession(record, ports, Path("a.pcapng")) as session:  # doctest: +SKIP
    ...     session.run(CaptureLimits(seconds=5))
    """

    def __init__(
        self,
        record: RunRecord,
        ports: Sequence[DirectedPort],
        path: Path,
        choice: PacketChoice | None = None,
    ) -> None:
        """Open the sources of packets; :meth:`run` writes what they capture.

        Args:
            path: of the file; an existing file is replaced.
            choice: only these NDN packets; by default all packets, those of foreign programs too.
        """
        self.totals = CaptureTotals()
        self._path = path
        self._choice = choice or PacketChoice()
        self._resources = contextlib.ExitStack()
        with contextlib.ExitStack() as opened:
            self._sources = _open_sources(record, ports)
            self._selector = opened.enter_context(selectors.DefaultSelector())
            for source in self._sources:
                opened.callback(source.close)
                self._selector.register(source.fileno(), selectors.EVENT_READ, source)
            self._file = _core.PcapngFile(_opened(path))
            self._interfaces: dict[str, int] = {}
            for source in self._sources:
                for direction in source.directions:
                    self._interfaces[direction] = len(self._interfaces)
                    self._file.add_interface(direction)
            self._flush()
            self._resources = opened.pop_all()

    def run(
        self,
        limits: CaptureLimits = CaptureLimits(),  # it is frozen
        on_progress: Callable[[CaptureTotals], None] = lambda _: None,
    ) -> CaptureTotals:
        """Write packets until a limit is reached or the run ends; the file is valid at any time.

        Args:
            on_progress: called with the totals a few times a second.

        Raises:
            EmulationError: the file cannot be written any more.
            KeyboardInterrupt: Ctrl-C; the file has all packets so far.
        """
        began_s = time.monotonic()
        try:
            while not self.totals.ended:
                self._step(limits, began_s)
                on_progress(self.totals)
        finally:
            self._count_lost()
            self._flush()
        return self.totals

    def _step(self, limits: CaptureLimits, began_s: float) -> None:
        """Write the packets that arrive within one period of progress."""
        moment_ends_s = time.monotonic() + _LOOK_PERIOD_S
        totals = self.totals
        while not totals.ended and (now_s := time.monotonic()) < moment_ends_s:
            totals.elapsed_s = now_s - began_s
            wait_s = moment_ends_s - now_s
            if limits.seconds is not None:
                if totals.elapsed_s >= limits.seconds:
                    totals.ended = "the time limit is reached"
                    break
                wait_s = min(wait_s, limits.seconds - totals.elapsed_s)
            for key, _ in self._selector.select(wait_s):
                self._take(key.data, limits)
        self._count_lost()
        self._flush()

    def _take(self, source: PacketSource, limits: CaptureLimits) -> None:
        frames = source.read()
        if frames is None:
            self._selector.unregister(source.fileno())
            if not self._selector.get_map():
                self.totals.ended = "the network has ended"
            return
        for frame in frames:
            if self._wants(frame):
                self._write(frame, limits)
            if self.totals.ended:
                return

    def _wants(self, captured: CapturedFrame) -> bool:
        return self._choice.is_everything or any(
            self._choice.wants(Outline.of(packet)) for packet in ndn_packets(captured.frame)
        )

    def _write(self, captured: CapturedFrame, limits: CaptureLimits) -> None:
        totals = self.totals
        size = len(captured.frame)
        if limits.size_bytes is not None and totals.size_bytes + size > limits.size_bytes:
            totals.ended = "the size limit is reached"
            return
        interface = self._interfaces[captured.direction]
        self._file.add_packet(interface, captured.time_ns, captured.frame)
        totals.packets += 1
        totals.size_bytes += size
        if totals.packets == limits.packets:
            totals.ended = "the packet limit is reached"

    def _count_lost(self) -> None:
        self.totals.lost = sum(source.lost_packets() for source in self._sources)

    def _flush(self) -> None:
        self._file.flush()
        if not self._file.good:
            raise EmulationError(
                f"the capture {self._path} cannot be written any more: the disk is full, or the "
                "program that reads it has ended"
            )

    def close(self) -> None:
        """Close the sources and the file."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: Path) -> int:
    try:
        return find_output(path).open()
    except OSError as error:
        raise EmulationError(f"the capture {path} cannot be written: {error.strerror}") from error


def _open_sources(record: RunRecord, ports: Sequence[DirectedPort]) -> Sequence[PacketSource]:
    if record.mode == "netns":
        return open_kernel_sources(record, ports)
    return open_node_sources(record, ports)
