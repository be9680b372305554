"""Scans machines as a stranger, and prints the open TCP ports and all that anybody answers.

stranger.py KEY ADDRESS...: ``KEY`` is the launcher's public one, which a stranger may have.
"""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import zmq

SILENCE_S = 1
"""Longer than an answer within this machine takes."""
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
INTEREST = bytes.fromhex("05 0d 07 05 08 03") + b"foo" + bytes.fromhex("0a 04 01 02 03 04")


def greeting(mechanism: bytes) -> bytes:
    """What a ZMTP 3.1 peer begins with."""
    return SIGNATURE + b"\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


def command(name: bytes, body: bytes = b"") -> bytes:
    """A ZMTP command."""
    content = bytes([len(name)]) + name + body
    return bytes([4, len(content)]) + content


BEGINNINGS: dict[str, tuple[bytes, ...]] = {
    "nothing": (),
    "garbage": (os.urandom(1000),),
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",),
    "ndn": (INTEREST,),
    "null": (greeting(b"NULL"), command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER")),
    "plain": (greeting(b"PLAIN"), command(b"HELLO", b"\x01a\x01b")),
    "curve": (greeting(b"CURVE"), command(b"HELLO", bytes(194))),
}


def open_ports(address: str) -> list[int]:
    """The TCP ports that accept connections."""
    found = []
    for port in range(1, 1 << 16):
        with socket.socket() as tried:
            if tried.connect_ex((address, port)) == 0:
                found.append(port)
    return found


def answer_to(address: str, port: int, parts: Sequence[bytes]) -> bytes:
    """All that comes over a connection, each part of what is sent after a silence."""
    received = b""
    with socket.create_connection((address, port)) as connection:
        connection.settimeout(SILENCE_S)
        try:
            for part in (b"", *parts):
                connection.sendall(part)
                with suppress(TimeoutError):
                    while answer := connection.recv(1 << 16):
                        received += answer
        except ConnectionError:  # it is reset
            pass
    return received


def curve_answers(address: str, port: int, server_key: bytes) -> list[bytes]:
    """What a peer gets that has a key pair of its own, and no secret."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.curve_publickey, peer.curve_secretkey = zmq.curve_keypair()
        peer.curve_serverkey = server_key
        peer.connect(f"tcp://{address}:{port}")
        for message in (b"", b"garbage", b"\x00" * 100, b"\x02" + os.urandom(50), b'{"a": 1}'):
            peer.send(message)
        received = []
        while peer.poll(1000 * SILENCE_S):
            received.append(peer.recv())
        return received


def udp_answers(addresses: Sequence[str]) -> list[object]:
    """Who answers datagrams to any port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for address in addresses:
            for port in range(1, 1 << 16):
                asked.sendto(INTEREST, (address, port))
        asked.settimeout(SILENCE_S)
        received: list[object] = []
        try:
            while True:
                received.append(asked.recvfrom(1 << 16))
        except TimeoutError:
            return received


key, *machines = sys.argv[1:]
for machine in machines:
    for open_port in open_ports(machine):
        print("open", f"{machine}:{open_port}")
        for name, parts in BEGINNINGS.items():
            print("answer to", name, answer_to(machine, open_port, parts).hex())
        own, _ = zmq.curve_keypair()
        for server_key in (own, key.encode()):
            for message in curve_answers(machine, open_port, server_key):
                print("message", message.hex())
for datagram in udp_answers(machines):
    print("datagram", datagram)
