"""Hostile control messages, members' messages and certificates: refused, and nothing else happens.

``python -m tests.fuzz.documents SECONDS [SEED] [NAME]...`` gives each reader inputs for that long.
It ends with 1 at the first finding: an exception that the reader's caller does not expect.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from innet.node.messages import JobMessage, PoolMessage, RuleMessage, ServedPrefixes
from innet.node.requests import ControlReply, ControlRequest, reply_to
from innet.security import deal_keys
from innet.security.keys import JobTrust
from innet.security.trust import Certificate, PrivateKey
from innet.security.trust.certificate import Validity
from innet.security.trust.key_operations import SafeBag
from innet.security.trust.names import name_of
from innet.telemetry.commands import DumpState, Order
from tests.fuzz import members
from tests.fuzz.files import finding

_PASSPHRASE = "the passphrase of the fuzzer"
_CHANGES = 6
_JSON_TOKENS = (
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"99999999999999999999", b'""', b"{}", b"[]"),
    *(b'"\\ud800"', b'"\\u0000"', b'"\\u001b[2J"', b'"method"', b'"params"', b'"h0"', b"[" * 300),
)


class ByteMutator:
    """Makes inputs of ``seeds``, one to six changes away; a change may insert one of ``tokens``."""

    def __init__(
        self, seeds: Sequence[bytes], seed: int, tokens: Sequence[bytes] = (b"\0", b"\xff")
    ) -> None:
        self._seeds = seeds
        self._tokens = tokens
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """Another input."""
        made = bytearray(self._random.choice(self._seeds))
        for _ in range(self._random.randint(1, _CHANGES)):
            at = self._random.randrange(len(made) + 1)
            size = self._random.choice((1, 1, 2, 8, 64))
            match self._random.randrange(6):
                case 0:
                    del made[at : at + size]
                case 1:
                    made[at:at] = self._random.randbytes(size)
                case 2:
                    made[at : at + size] = self._random.randbytes(len(made[at : at + size]))
                case 3:
                    made[at : at + 1] = bytes([self._random.choice((0, 1, 0x7F, 0x80, 0xFD, 0xFF))])
                case 4:
                    made[at : at + size] = self._random.choice(self._tokens)
                case _:
                    made[at:at] = made[at : at + size]
        return bytes(made)


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
    return Reader(read, lambda seed: ByteMutator(seeds, seed, _JSON_TOKENS).next)


def _of_bytes(read: Callable[[bytes], object], seeds: Sequence[bytes]) -> Reader:
    return Reader(read, lambda seed: ByteMutator(seeds, seed).next)


def readers() -> dict[str, Reader]:
    """All of them."""
    keys = [PrivateKey.generate("ed25519"), PrivateKey.generate("ecdsa")]
    certificates = [_certificate(key) for key in keys]
    bag = SafeBag.seal(certificates[0], keys[0], _PASSPHRASE)
    return {
        "control": _control(),
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
