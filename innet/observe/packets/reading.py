"""Packets of capture files, pcap and pcapng, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innet.errors import FileError
from innet.observe.packets.frames import ndn_packets
from innet.observe.packets.scapy_extra import require_scapy
from innet.tlv_numbers import NDN_PORT


@dataclass(frozen=True)
class ReadPacket:
    """An NDN packet of a file.

    Attributes:
        number: of its frame in the file, from 1.
        time_s: since 1970, or since a simulation began.
        since_first_s: since the file's first frame.
        where: the interface that it was captured on; empty when the file does not say.
        packet: its bytes.
        frame: all bytes of the frame.
        link_type: what the frame begins with.
    """

    number: int
    time_s: float
    since_first_s: float
    where: str
    packet: bytes
    frame: bytes
    link_type: int


def read_packets(path: Path, ports: Collection[int] = (NDN_PORT,)) -> Iterator[ReadPacket]:
    """The NDN packets of a file; takes memory for one at a time.

    Raises:
        FileError: it cannot be read, or is no capture.
        InnetError: scapy is not installed.
    """
    require_scapy()
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapNgReader, RawPcapReader

    try:
        # What it gives is of either class, by what the file begins with.
        reader: Any = RawPcapReader(str(path))
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", path=path) from error
    except Scapy_Exception as error:
        raise FileError(
            "is no capture: neither pcap nor pcapng. `innet capture` and tcpdump -w write them",
            path=path,
        ) from error
    first_s = 0.0
    with reader:
        for number, (frame, meta) in enumerate(reader, 1):
            if isinstance(reader, RawPcapNgReader):
                link_type, where = meta.linktype, (meta.ifname or b"").decode(errors="replace")
                time_s = ((meta.tshigh << 32) | meta.tslow) / meta.tsresol
            else:
                link_type, where = reader.linktype, ""
                time_s = meta.sec + meta.usec / (1e9 if reader.nano else 1e6)
            first_s = time_s if number == 1 else first_s
            for packet in ndn_packets(frame, link_type, ports):
                yield ReadPacket(number, time_s, time_s - first_s, where, packet, frame, link_type)
