"""Hostile control messages, members' messages and certificates: refused, and nothing else happens.

``python -m tests.fuzz.documents SECONDS [SEED] [NAME]...`` gives each reader inputs for that long.
It ends with 1 at the first finding: an exception that the reader's caller does not expect.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from innet.cluster.machines.messages import (
    CreditFrame,
    DataFrame,
    EndFrame,
    Frame,
    JoinRequest,
    MalformedMessage,
    NumberedFrame,
    OpenFrame,
    ResetFrame,
    bye_message,
    frame_message,
    heartbeat_message,
    join_message,
    parse_message,
)
from innet.cluster.machines.multiplexer import Multiplexer
from innet.cluster.machines.resumption import BrokenSession, ResumableSession
from innet.node.messages import JobMessage, PoolMessage, RuleMessage, ServedPrefixes
from innet.node.requests import ControlReply, ControlRequest, reply_to
from innet.observe.web.document import picture_of, read_recording
from innet.observe.web.live import recorded_view
from innet.security import deal_keys
from innet.security.keys import JobTrust
from innet.security.trust import Certificate, PrivateKey
from innet.security.trust.certificate import Validity
from innet.security.trust.key_operations import SafeBag
from innet.security.trust.names import name_of
from innet.telemetry.commands import DumpState, Order
from innet.telemetry.feed import RunFeed
from innet.telemetry.logs.output import ConsoleOutput, JsonLinesOutput, OutputSink
from innet.topology import load_topology
from tests.fuzz import members
from tests.fuzz.files import finding
from tests.fuzz.mutators import JSON_TOKENS, ByteMutator, JsonMutator
from tests.fuzz.statuses import (
    MESSAGES,
    honest_status,
    read_status,
    reply_of,
    show_all,
    show_telemetry,
)

_PASSPHRASE = "the passphrase of the fuzzer"
_LEAVES = ("status", "counters", "event")
_LINE_TOKENS = (
    *(b"\n", b"\r", b"\x1b[2J", b"\x1b[31m", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff", b"\0"),
    *(b"[innet] ", b'"', b"\\", b'"node": "h2", ', b'"\\u006eode": "s0", ', b"{", b"}"),
)


@dataclass(frozen=True)
class Reader:
    """Something that reads bytes of others.

    Attributes:
        read: raises nothing but an :class:`InnetError`.
        inputs: a source of inputs, by its seed.
    """

    read: Callable[[bytes], object]
    inputs: Callable[[int], Callable[[], bytes]]


def _control_seeds() -> list[bytes]:
    """A request of each kind."""
    keys = deal_keys(["h0"], "gmac")["h0"]
    trust = JobTrust(signing=keys.signing, trusted=keys.trusted)
    order = Order(run="r", node="s0", number=1, issued_at_s=0.5, command=DumpState())
    rule = RuleMessage(interval="0-1", operands=[("0", "h0"), ("1", "h1")], primary=True)
    registrations = ServedPrefixes(version=3, prefixes=("/a/b", "/c"))
    pool = PoolMessage(prefix="/kv/t", weight=1, hosts=("h0",), key=keys.objects.public())
    job = JobMessage(prefix="/j1", weight=1, hosts=("h0",), keys=trust, admits_others=False)
    params = {
        "rule": rule.model_dump(mode="json"),
        "registrations": registrations.model_dump(mode="json"),
        "pool": pool.model_dump(mode="json"),
        "job": job.model_dump(mode="json"),
        "order": order.model_dump(mode="json"),
        "status": {},
    }
    requests = [ControlRequest(method=method, params=of) for method, of in params.items()]
    return [request.model_dump_json().encode() for request in requests]


def _control() -> Reader:
    """Questions on a control socket, for handlers that read what the real ones read."""
    models = {
        "rule": RuleMessage,
        "registrations": ServedPrefixes,
        "pool": PoolMessage,
        "job": JobMessage,
        "order": Order,
    }
    handlers: dict[str, Callable[..., object]] = {
        method: (lambda model=model, **params: model.model_validate(params).model_dump())
        for method, model in models.items()
    }

    def read(document: bytes) -> None:
        reply = reply_to(document, handlers | {"status": dict}, "fuzzed")
        ControlReply.model_validate_json(reply.encoded("fuzzed"))

    return _of_json(read, _control_seeds())


def _certificate(key: PrivateKey) -> Certificate:
    validity = Validity(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    return Certificate.self_signed(name_of("/a/KEY/1"), key, validity, version=7)


def _of_json(read: Callable[[bytes], object], seeds: Sequence[bytes]) -> Reader:
    return Reader(read, lambda seed: ByteMutator(seeds, seed, JSON_TOKENS).next)


def _statuses(read: Callable[[bytes], object]) -> Reader:
    """Replies of a node to ``status``; in most, a table has one counter, for they are alike."""
    seeds = [reply_of(honest_status()), *[reply_of(honest_status(1))] * 7]
    return Reader(read, lambda seed: JsonMutator(seeds, seed).next)


def _telemetry(take: Callable[[str, bytes], object]) -> Reader:
    """Messages on the topics of a node; the byte before each says which."""

    def read(message: bytes) -> None:
        take(f"innet/lab/nodes/s0/{_LEAVES[message[0] % 3 if message else 0]}", message[1:])

    seeds = [
        bytes([number]) + json.dumps(of).encode() for number, of in enumerate(MESSAGES.values())
    ]
    return Reader(read, lambda seed: JsonMutator(seeds, seed).next)


def _machine_messages() -> Reader:
    """What a machine sends to the launcher, after it has joined."""
    request = JoinRequest(network="n", version="1", machines={"h1": "x" * 22}, session="0" * 32)
    frames: list[Frame] = [
        OpenFrame(2, "session.sock"), DataFrame(2, b"{}\n"), CreditFrame(2, 9), EndFrame(2),
        ResetFrame(2, "why"),
    ]  # fmt: skip
    seeds = [
        join_message(request), heartbeat_message(3), bye_message("x\n[innet] y"), b"\2{}",
        *(frame_message(number, 0, frame.encoded()) for number, frame in enumerate(frames, 1)),
    ]  # fmt: skip

    def read(message: bytes) -> None:
        try:
            parsed = parse_message(message)
            if isinstance(parsed, NumberedFrame):
                session, sent = ResumableSession(), list[bytes]()
                streams = Multiplexer(sent.append, is_launcher=True, may_open=lambda _: True)
                streams.receive(OpenFrame(2, "session.sock").encoded())
                streams.receive(parsed.frame)
                session.take(parsed)
        except (MalformedMessage, BrokenSession):
            return

    return _of_bytes(read, seeds)


def _lines(output_to: Callable[[io.StringIO], OutputSink], is_own: Callable[[str], bool]) -> Reader:
    """Lines that a process prints; each that is shown names the process."""

    def read(text: bytes) -> None:
        stream = io.StringIO()
        output_to(stream)("h1", text.decode(errors="replace"))
        shown = stream.getvalue().removesuffix("\n").splitlines()
        if not all(map(is_own, shown)):
            raise AssertionError(shown)

    record = b'{"time": 1, "level": "info", "node": "h1", "message": "x"}'
    seeds = [b"epoch 1: \x1b[31mloss\x1b[0m 0.5\r\n[innet] up\xe2\x80\xa8[innet] x", record]
    return Reader(read, lambda seed: ByteMutator(seeds, seed, _LINE_TOKENS).next)


def _console(stream: io.StringIO, *, is_terminal: bool = False) -> Console:
    return Console(file=stream, force_terminal=is_terminal, no_color=True, width=80)


def _is_labelled(line: str) -> bool:
    return line.startswith("[h1] ")


def _is_own_record(line: str) -> bool:
    return bool(json.loads(line)["node"] == "h1")


def _recordings() -> Reader:
    picture = picture_of(load_topology("star:2"), "lab", "local").model_dump_json().encode()
    frame = b'{"frame":{"time_s":1,"states":{"h0":"off"},"nodes":{"cpu":[0.5,null]},"cut":[0]}}'
    event = b'{"event":{"time_s":2,"source":"h0","kind":"peer_lost","message":"x"}}'

    descriptor = os.memfd_create("recording")

    def read(content: bytes) -> None:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
        recorded_view(read_recording(Path(f"/proc/self/fd/{descriptor}")))

    seeds = [b"\n".join((picture, frame, event, b""))]
    return Reader(read, lambda seed: ByteMutator(seeds, seed, JSON_TOKENS).next)


def _of_bytes(read: Callable[[bytes], object], seeds: Sequence[bytes]) -> Reader:
    return Reader(read, lambda seed: ByteMutator(seeds, seed).next)


def readers() -> dict[str, Reader]:
    """All of them."""
    keys = [PrivateKey.generate("ed25519"), PrivateKey.generate("ecdsa")]
    certificates = [_certificate(key) for key in keys]
    bag = SafeBag.seal(certificates[0], keys[0], _PASSPHRASE)
    return {
        "control": _control(),
        "statuses": _statuses(read_status),
        "shown statuses": _statuses(lambda document: show_all(read_status(document))),
        "telemetry": _telemetry(RunFeed("lab").take),
        "shown telemetry": _telemetry(show_telemetry),
        "machine messages": _machine_messages(),
        "lines": _lines(lambda stream: ConsoleOutput(_console(stream)), _is_labelled),
        "lines as records": _lines(
            lambda stream: JsonLinesOutput(_console(stream)), _is_own_record
        ),
        "lines on a terminal": _lines(
            lambda stream: ConsoleOutput(_console(stream, is_terminal=True)), _is_labelled
        ),
        "recordings": _recordings(),
        "certificates": _of_bytes(Certificate.parse, [made.wire for made in certificates]),
        "requests of members": _of_json(members.read_request, members.request_seeds()),
        "replies of members": _of_json(members.read_reply, members.reply_seeds()),
        "safe bags": _of_bytes(SafeBag.from_text, [bag.to_text().encode()]),
    }


def main() -> int:
    """Try the readers that are named, or all."""
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    known = readers()
    for name in sys.argv[3:] or known:
        following, runs = known[name].inputs(seed), 0
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            document, runs = following(), runs + 1
            found = finding(known[name].read, document)
            if found is not None:
                print(f"{name}, seed {seed}:\n{document!r}\n{found}")
                return 1
        print(f"{name}: {runs} inputs, seed {seed}: each was read, or refused by an error of innet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
