"""Captures of the links of a running emulation, in pcapng files."""

from innet.observe.packets.capture.links import DirectedPort, chosen_links
from innet.observe.packets.capture.session import CaptureLimits, CaptureSession, CaptureTotals

__all__ = ["CaptureLimits", "CaptureSession", "CaptureTotals", "DirectedPort", "chosen_links"]
