"""Fetches packets of known names from a forwarder as ndn-tools' ``ndnget`` does with its defaults.

CUBIC (RFC 9438) with slow start; a congestion mark or a lost packet shrinks the window, once per
window; only a retransmission timeout (RFC 6298) tells of a loss. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from innet.names import number_at, with_segment
from innet.ndn import Name
from innet.ndn.control import ControlParameters, command_name
from innet.ndn.face import StreamFramer
from innet.ndn.wire import encode_interest, parse_data, parse_lp_packet
from innet.security.signers import DigestSigner
from innet.tlv_numbers import ComponentType, TlvType

_RECEIVE_BYTES = 1 << 16
_CHECK_S = 0.01
_MIN_RTO_S, _MAX_RTO_S = 0.2, 4.0
_MARKING_FLAG = 4


class Cubic:
    """A window in packets."""

    _C, _BETA = 0.4, 0.7

    def __init__(self) -> None:
        self.packets = 2.0
        self._threshold = float("inf")
        self._largest = 0.0
        self._reduced_s = 0.0

    def on_data(self, now_s: float) -> None:
        """A packet arrived in time and without a mark."""
        if self.packets < self._threshold:
            self.packets += 1
            return
        crossing_s = (self._largest * (1 - self._BETA) / self._C) ** (1 / 3)
        target = self._C * (now_s - self._reduced_s - crossing_s) ** 3 + self._largest
        self.packets += max(0.0, target - self.packets) / self.packets + 0.01 / self.packets

    def on_congestion(self, now_s: float) -> None:
        """A mark or a loss."""
        self._largest = self.packets
        self.packets = self._threshold = max(2.0, self.packets * self._BETA)
        self._reduced_s = now_s


class Timer:
    """When a request is taken for lost."""

    def __init__(self) -> None:
        self.rto_s = 1.0
        self._smoothed_s: float | None = None
        self._variation_s = 0.0

    def on_sample(self, rtt_s: float) -> None:
        """A round trip of a request that was sent once."""
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = rtt_s, rtt_s / 2
        else:
            self._variation_s += (abs(self._smoothed_s - rtt_s) - self._variation_s) / 4
            self._smoothed_s += (rtt_s - self._smoothed_s) / 8
        self.rto_s = min(_MAX_RTO_S, max(_MIN_RTO_S, self._smoothed_s + 4 * self._variation_s))

    def on_timeout(self) -> None:
        """Back off."""
        self.rto_s = min(_MAX_RTO_S, 2 * self.rto_s)


@dataclass
class Request:
    """An Interest that is waiting."""

    sent_s: float
    order: int
    repeated: bool


class Transfer:
    """One transfer of ``count`` packets below ``prefix``."""

    def __init__(self, connection: socket.socket, prefix: Name, count: int) -> None:
        self._socket = connection
        self._prefix = prefix
        self._count = count
        self._framer = StreamFramer()
        self._window, self._timer = Cubic(), Timer()
        self._waiting: dict[int, Request] = {}
        self._lost: deque[int] = deque()
        self._fresh: Iterator[int] = iter(range(count))
        self._order = self._reduced_at = 0
        self._arrived: set[int] = set()
        self._bytes = self._repeated = self._marks = self._nacks = 0

    def run(self) -> dict[str, float]:
        """What it took."""
        begin_s = checked_s = time.monotonic()
        while len(self._arrived) < self._count:
            self._ask()
            if select.select([self._socket], [], [], _CHECK_S)[0]:
                received = self._socket.recv(_RECEIVE_BYTES)
                if not received:
                    raise SystemExit("the forwarder closed the connection")
                for packet in self._framer.feed(received):
                    self._on_packet(packet)
            now_s = time.monotonic()
            if now_s - checked_s >= _CHECK_S:
                checked_s = now_s
                self._find_lost(now_s)
        duration_s = time.monotonic() - begin_s
        return {
            "goodput_bps": 8 * self._bytes / duration_s,
            "repeated": self._repeated / self._order,
            "marks": self._marks,
            "nacks": self._nacks,
            "duration_s": duration_s,
        }

    def _ask(self) -> None:
        packets = []
        while len(self._waiting) < self._window.packets:
            again = bool(self._lost)
            segment = self._lost.popleft() if again else next(self._fresh, None)
            if segment is None:
                break
            if segment in self._arrived:
                continue
            self._order += 1
            self._repeated += again
            self._waiting[segment] = Request(time.monotonic(), self._order, again)
            packets.append(encode_interest(with_segment(self._prefix, segment), lifetime_s=4.0))
        if packets:
            self._socket.sendall(b"".join(packets))

    def _on_packet(self, packet: bytes) -> None:
        link = parse_lp_packet(packet)
        if link.payload[0] != TlvType.DATA:
            self._nacks += 1
            return
        data = parse_data(link.payload)
        hashlib.sha256(link.payload).digest()  # as who verifies does
        segment = int(number_at(data.name, -1, ComponentType.SEGMENT) or 0)
        if segment not in self._arrived:
            self._arrived.add(segment)
            self._bytes += len(data.content)
        request = self._waiting.pop(segment, None)
        if request is None:
            return
        now_s = time.monotonic()
        if not request.repeated:
            self._timer.on_sample(now_s - request.sent_s)
        if link.congestion_mark:
            self._marks += 1
            self._on_congestion(request.order, now_s)
        else:
            self._window.on_data(now_s)

    def _on_congestion(self, order: int, now_s: float) -> None:
        if order > self._reduced_at:  # asked for after the last reduction
            self._reduced_at = self._order
            self._window.on_congestion(now_s)

    def _find_lost(self, now_s: float) -> None:
        late = [s for s, r in self._waiting.items() if now_s - r.sent_s > self._timer.rto_s]
        if not late:
            return
        newest = max(self._waiting.pop(segment).order for segment in late)
        self._lost.extend(late)
        self._timer.on_timeout()
        self._on_congestion(newest, now_s)


def turn_marks_off(connection: socket.socket) -> None:
    """For this face alone, by the command of NFD's management."""
    parameters = ControlParameters(flags=0, mask=_MARKING_FLAG)
    command = command_name("faces", "update", parameters)
    connection.sendall(encode_interest(command, signer=DigestSigner(), must_be_fresh=True))
    framer = StreamFramer()
    while not (answers := framer.feed(connection.recv(_RECEIVE_BYTES))):
        pass
    if b"OK" not in parse_data(parse_lp_packet(answers[0]).payload).content:
        raise SystemExit("the forwarder did not turn congestion marking off")


def main() -> None:
    """Fetch, and print how it went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", help="the forwarder's Unix socket")
    parser.add_argument("prefix")
    parser.add_argument("count", type=int)
    parser.add_argument("--no-marks", action="store_true")
    arguments = parser.parse_args()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(arguments.path)
        if arguments.no_marks:
            turn_marks_off(connection)
        transfer = Transfer(connection, Name(arguments.prefix), arguments.count)
        print(json.dumps(transfer.run()), flush=True)


if __name__ == "__main__":
    main()
