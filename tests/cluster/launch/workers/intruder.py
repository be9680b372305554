"""A rank that writes packets of its own to its link: it reads, forges, floods, exhausts slots."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from pathlib import Path

import innet
from innet.node.link_descriptors import link_descriptors
from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig

VICTIM = "victim.1"
OWN = "intruder.2"
FORBIDDEN = b"\xfd\x03\x21\x01\xca"  # NackReason 202
HELLO = b"\xfd\x03\x94\x01"


def tlv(kind: int, value: bytes) -> bytes:
    length = len(value)
    size = bytes([length]) if length < 253 else b"\xfd" + length.to_bytes(2, "big")
    return bytes([kind]) + size + value


def number(value: int) -> bytes:
    size = 1 if value < 1 << 8 else 2 if value < 1 << 16 else 4
    return value.to_bytes(size, "big")


def segment_name(job: str, interval: str, seq: int, segment: int) -> bytes:
    parts = [tlv(8, text.encode()) for text in (job, "g0.inc", interval, "sum.f32")]
    return tlv(7, b"".join((*parts, tlv(58, number(seq)), tlv(50, number(segment)))))


def interest(name: bytes, node: str) -> bytes:
    hint = tlv(7, tlv(8, b"n") + tlv(8, node.encode()))
    waits = tlv(12, number(60_000))
    return tlv(5, name + tlv(30, hint) + tlv(10, os.urandom(4)) + waits)


def forged(name: bytes) -> bytes:
    signed = name + tlv(21, bytes(8192)[:200]) + tlv(22, tlv(27, b"\0"))
    return tlv(6, signed + tlv(23, hashlib.sha256(signed).digest()))


def read_is_refused(link: socket.socket) -> bool:
    """Whether both a rank's tensor and the sum are refused, also from the switch's cache."""
    refusals = 0
    for interval, node in (("0", "h0"), ("0-1", "s0")):
        link.send(interest(segment_name(VICTIM, interval, 0, 0), node))
        refusals += FORBIDDEN in answer(link)
    return refusals == 2


def answer(link: socket.socket) -> bytes:
    """The next packet that is no hello."""
    while HELLO in (packet := link.recv(9000)):
        pass
    return packet


meeting_place = Path(sys.argv[1])
config = NodeConfig.load(Path(os.environ[NODE_CONFIG_VARIABLE]))
((fd,),) = link_descriptors(config)
assert fd is not None
link = socket.socket(fileno=os.dup(fd))
link.settimeout(20)
print("read refused:", read_is_refused(link), flush=True)

comm = innet.init(group="g0")
comm.barrier()
link.setblocking(False)
attacks = 0
while comm.rank == 1 and not (meeting_place / "counted").exists():
    packets = [forged(segment_name(VICTIM, "0-1", attacks % 40, s)) for s in range(32)]
    packets += [forged(segment_name(VICTIM, "0", attacks % 40, s)) for s in range(32)]
    packets += [interest(segment_name(VICTIM, "0-1", attacks % 40, s), "s0") for s in range(32)]
    packets += [interest(segment_name(OWN, "9", attacks, s), "h2") for s in range(64)]
    packets += [interest(segment_name(OWN, "0-1", 50 + attacks, s), "s0") for s in range(64)]
    for packet in packets:
        try:
            link.send(packet)
        except BlockingIOError:
            time.sleep(0.001)
    attacks += 1
    if attacks == 20:
        (meeting_place / "attacking").touch()
while not (meeting_place / "counted").exists():
    time.sleep(0.01)
print("attacked", flush=True)
os._exit(0)  # it does not leave in good order either
