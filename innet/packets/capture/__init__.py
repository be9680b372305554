"""Captures of the links of a running emulation, in pcapng files."""

from innet.packets.capture.links import DirectedPort, chosen_links
from innet.packets.capture.session import CaptureLimits, CaptureSession, CaptureTotals

__all__ = ["CaptureLimits", "CaptureSession", "CaptureTotals", "DirectedPort", "chosen_links"]
