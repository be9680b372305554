"""A client that costs little: it sends finished HTTP requests over one connection.

python benchmarks/shared/lookup_client.py HOST PORT PATH TYPE ROUNDS, with bodies of that content
type on standard input, each after its length in 8 bytes, and a length of 0 after the last. It
prints a line when it has them, waits for a line, sends all so many times, and prints the seconds
that they took.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO, Final

_HEAD: Final = (
    "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Content-Type: {form}\r\nContent-Length: {length}\r\n\r\n"
)
_END: Final = b"\r\n\r\n"
_READ_BYTES: Final = 1 << 16


def main() -> None:
    """Send one request after the other."""
    host, port, path, form, rounds = sys.argv[1:]
    requests = [
        _HEAD.format(path=path, form=form, length=len(body)).encode() + body
        for body in _bodies(sys.stdin.buffer)
    ]
    with socket.create_connection((host, int(port))) as connection:
        print("ready", flush=True)
        sys.stdin.buffer.readline()
        began_s = time.perf_counter()
        for _ in range(int(rounds)):
            for request in requests:
                connection.sendall(request)
                _read_answer(connection)
        print(time.perf_counter() - began_s)


def _bodies(source: BinaryIO) -> Iterator[bytes]:
    while length := struct.unpack("<Q", source.read(8))[0]:
        yield source.read(length)


def _read_answer(connection: socket.socket) -> None:
    answer = b""
    while _END not in answer:
        answer += _received(connection)
    head, _, body = answer.partition(_END)
    status, *fields = head.decode().lower().split("\r\n")
    if status.split()[1] != "200":
        raise SystemExit(f"the index answered {status}")
    length = next(int(f.split(":")[1]) for f in fields if f.startswith("content-length:"))
    missing = length - len(body)
    while missing > 0:
        missing -= len(_received(connection))


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(_READ_BYTES)
    if not data:
        raise SystemExit("the index closed the connection")
    return data


if __name__ == "__main__":
    main()
