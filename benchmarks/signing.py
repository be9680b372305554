"""What signatures cost: each mode by itself, and in sums and copies on star8.

python benchmarks/signing.py --json

First one core signs and verifies packets of three sizes in each mode, beside OpenSSL's primitives
through Python's `cryptography`, whose calls cost a microsecond or two themselves, and beside each
library that can compute GMAC, and SHA-256 of several segments, here. Then networks with each
setting of `security.signature` are launched in turns, and the same job runs on each: an allreduce,
a broadcast (each segment signed), and the same array published as an object and fetched by all (a
manifest signed once). Sums cannot have manifests: see docs/security.md.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import secrets
import statistics
import time
from collections.abc import Callable
from itertools import product

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from innet._native import _core
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.settings import Settings
from innet.topology import Topology, load_topology
from shared.benchmark import (
    Benchmark,
    Figures,
    argument_parser,
    measured_by_workers,
    quantity,
    report,
    times_in_turns_s,
    worker_arguments,
)

MODES = ("none", "digest", "hmac", "gmac", "ed25519")
CONTENT_BYTES = {"1KB": 1000, "8KB": 8000, "60KB": 60000}
KEY_NAME = "/benchmark/KEY"
GMAC_IV = bytes(12)
GMAC_MESSAGES = 1000
HASHED_AT_ONCE = (4, 32)
"""Segments of objects of 256 KiB and of 2 MiB, in packets of 64 KB."""
HASH_BYTES = 10_000_000

Times = tuple[float, float]
"""Seconds for signing and for verifying."""


def main() -> None:
    """Measure and print."""
    given = worker_arguments()
    if given is not None:
        _measure_in_worker(*map(int, given))
        return
    parser = argument_parser("what each kind of signature costs")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="1gbit")
    parser.add_argument("--size", type=quantity(parse_size_bytes), default="4MiB")
    parser.add_argument("--mode", choices=["netns", "local"], default="netns")
    parser.add_argument("--turns", type=int, help="networks of each setting; default 5, quick: 2")
    parser.add_argument("--operations", type=int, default=10, help="of a turn; default 10")
    parser.add_argument("--rounds", type=int, help="of one core alone; default 15, quick: 5")
    arguments = parser.parse_args()
    turns = arguments.turns or (2 if arguments.quick else 5)
    rounds = arguments.rounds or (5 if arguments.quick else 15)
    benchmark = Benchmark("signing", arguments, deadline_s=120 + 90 * turns)

    async def measure(progress: ProgressBar) -> Figures:
        progress(0.0, "one core")
        figures = _one_core(rounds)
        topology = load_topology("star8").with_overrides(rate_bps=arguments.rate)
        figures |= await _on_star8(topology, turns, arguments, progress)
        return figures | {
            "rate_bps": arguments.rate,
            "size_bytes": arguments.size,
            "mode": arguments.mode,
            "turns": turns,
        }

    benchmark.run(measure)


def _one_core(rounds: int) -> Figures:
    """Medians over rounds in which every mode has its turn at every size."""
    gbps: dict[str, list[float]] = {}
    for _ in range(rounds):
        for (size, content_bytes), (mode, take) in product(
            CONTENT_BYTES.items(), _takers().items()
        ):
            packets = 16 if "ed25519" in mode else 64
            sign_s, verify_s = take(content_bytes, packets)
            for action, taken_s in (("sign", sign_s), ("verify", verify_s)):
                rate = content_bytes * packets * 8 / taken_s / 1e9
                gbps.setdefault(f"{mode}_{size}_{action}_gbps", []).append(rate)
        for size, content_bytes in CONTENT_BYTES.items():
            for way, rate in _rates_of_libraries(size, content_bytes).items():
                gbps.setdefault(f"{way}_gbps", []).append(rate)
    return {key: statistics.median(values) for key, values in gbps.items()}


def _rates_of_libraries(size: str, content_bytes: int) -> dict[str, float]:
    rates = {}
    for library, taken_s in _core.gmac_speed(content_bytes, GMAC_MESSAGES).items():
        rate = content_bytes * GMAC_MESSAGES * 8 / taken_s / 1e9
        rates[f"gmac_by_{_short(library)}_{size}"] = rate
    for at_once in HASHED_AT_ONCE:
        batches = max(1, HASH_BYTES // (content_bytes * at_once))
        for library, taken_s in _core.sha256_speed(content_bytes, at_once, batches).items():
            rate = content_bytes * at_once * batches * 8 / taken_s / 1e9
            rates[f"sha256_by_{_short(library)}_{size}_x{at_once}"] = rate
    return rates


def _short(library: str) -> str:
    return library.split()[0].lower()


def _takers() -> dict[str, Callable[[int, int], Times]]:
    """Who takes the time for some packets of some bytes, by mode."""
    own = {mode: _own_taker(mode) for mode in MODES if mode != "none"}
    pair = _key_pair()
    return {
        **own,
        "manifest": lambda content_bytes, packets: _core.manifest_speed(
            *pair, content_bytes, packets
        ),
        "cryptography_digest": _peer(_digest, _digest),
        "cryptography_hmac": _peer(_hmac, _hmac),
        "cryptography_gmac": _peer(_gmac_tag, _gmac_tag),
        "cryptography_ed25519": _ed25519_peer(),
    }


def _own_taker(mode: str) -> Callable[[int, int], Times]:
    if mode == "ed25519":
        signing, trusted = _key_pair()
    else:
        secret = {"hmac": bytes(32), "gmac": bytes(16)}.get(mode, b"")
        name = KEY_NAME if secret else ""
        signing = trusted = _core.SigningKey(mode, name, secret)
    return lambda content_bytes, packets: _core.signing_speed(
        signing, trusted, content_bytes, packets
    )


def _key_pair() -> tuple[_core.SigningKey, _core.SigningKey]:
    private = Ed25519PrivateKey.generate()
    return (
        _core.SigningKey("ed25519", KEY_NAME, private.private_bytes_raw()),
        _core.SigningKey("ed25519", KEY_NAME, private.public_key().public_bytes_raw()),
    )


def _digest(message: bytes) -> object:
    return hashlib.sha256(message).digest()


def _hmac(message: bytes) -> object:
    return hmac.digest(bytes(32), message, "sha256")


_AESGCM = AESGCM(bytes(16))


def _gmac_tag(message: bytes) -> object:
    return _AESGCM.encrypt(GMAC_IV, b"", message)


def _peer(
    sign: Callable[[bytes], object], verify: Callable[[bytes], object]
) -> Callable[[int, int], Times]:
    def take(content_bytes: int, packets: int) -> Times:
        messages = [secrets.token_bytes(content_bytes) for _ in range(packets)]
        return _seconds_of(sign, messages), _seconds_of(verify, messages)

    return take


def _ed25519_peer() -> Callable[[int, int], Times]:
    private = Ed25519PrivateKey.generate()
    public = private.public_key()

    def take(content_bytes: int, packets: int) -> Times:
        messages = [secrets.token_bytes(content_bytes) for _ in range(packets)]
        signatures = {message: private.sign(message) for message in messages}
        return (
            _seconds_of(private.sign, messages),
            _seconds_of(lambda message: public.verify(signatures[message], message), messages),
        )

    return take


def _seconds_of(work: Callable[[bytes], object], messages: list[bytes]) -> float:
    began_s = time.perf_counter()
    for message in messages:
        work(message)
    return time.perf_counter() - began_s


async def _on_star8(
    topology: Topology, turns: int, arguments: argparse.Namespace, progress: ProgressBar
) -> Figures:
    """Medians over all operations, and the quartiles of the turns' ratios to `none` beside."""
    taken: dict[str, list[Figures]] = {mode: [] for mode in MODES}
    for number in range(turns):
        # Who is first changes, so that what grows or shrinks meanwhile favours nobody.
        for mode in MODES[number % len(MODES) :] + MODES[: number % len(MODES)]:
            progress(number / turns, f"turn {number + 1} of {turns}: {mode}")
            taken[mode].append(
                await measured_by_workers(
                    __file__,
                    (arguments.size, arguments.operations),
                    topology,
                    mode=arguments.mode,
                    settings=Settings().with_assignments([f"security.signature={mode}"]),
                )
            )
    figures: Figures = {}
    for mode, of_mode in taken.items():
        for operation in ("allreduce", "broadcast", "object"):
            figures |= _spread(f"{operation}_{mode}", [turn[f"{operation}_s"] for turn in of_mode])
        ratios = [
            turn["allreduce_s"] / unsigned["allreduce_s"]
            for turn, unsigned in zip(of_mode, taken["none"], strict=True)
        ]
        figures[f"allreduce_{mode}_cost"] = statistics.median(ratios) - 1
    return figures


def _spread(name: str, values_s: list[float]) -> Figures:
    return {
        f"{name}_s": statistics.median(values_s),
        f"{name}_min_s": min(values_s),
        f"{name}_max_s": max(values_s),
    }


def _measure_in_worker(size_bytes: int, operations: int) -> None:
    import numpy as np

    import innet

    comm = innet.init()
    array = np.random.default_rng(comm.rank).standard_normal(size_bytes // 4).astype(np.float32)
    out = np.empty_like(array)

    def through_object(turn: int) -> None:
        name = f"copy{turn}"
        if comm.rank == 0:
            comm.publish(name, array)
        else:
            comm.fetch(name, source=0, out=out)

    methods: dict[str, Callable[[int], object]] = {
        "allreduce": lambda _turn: comm.allreduce(array, out=out),
        "broadcast": lambda _turn: comm.broadcast(out),
        "object": through_object,
    }

    def withdraw(turn: int) -> None:
        if comm.rank == 0:
            comm.withdraw(f"copy{turn}")

    times_s = times_in_turns_s(comm, methods, operations, after_turn=withdraw)
    if comm.rank == 0:
        report({f"{name}_s": statistics.median(times) for name, times in times_s.items()})
    comm.close()


if __name__ == "__main__":
    main()
