"""Measures the speed of this machine at the work of nodes, in a few milliseconds.

The speed is measured when a network is launched for the first time, and cached in the user's cache
for this processor, kernel and build of innet. If the cache cannot be read or written, the speed is
measured again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

from pydantic import Field, ValidationError

from innet._native import _core
from innet.machine import processor_name
from innet.private_files import cache_folder
from innet.security.keys import SHARED_KEY_BYTES, Key
from innet.settings import Signature
from innet.validation_messages import StrictModel

_SMALL_BYTES: Final = 64
_LARGE_BYTES: Final = 8000
_SIGNED_PACKETS: Final = 4
_ROUNDS: Final = 3
_MOST_CACHED_BYTES: Final = 1 << 16

_log = logging.getLogger(__name__)

_Seconds = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class SignatureSpeed(StrictModel):
    """Seconds for signing or verifying a packet, and for each byte of it."""

    packet_s: _Seconds
    byte_s: _Seconds


class MachineSpeed(StrictModel):
    """Seconds that the work of nodes takes on this machine, with warm caches and no waiting."""

    forwarded_s: _Seconds = Field(description="a node passes a segment on: Interest and Data")
    copied_byte_s: _Seconds
    added_byte_s: _Seconds
    datagram_s: _Seconds = Field(description="sending one to a socket, and receiving it")
    datagram_byte_s: _Seconds
    wake_up_s: _Seconds = Field(description="waking up a thread that sleeps")
    signatures: dict[Signature, SignatureSpeed] = Field(min_length=5, description="all of them")

    @classmethod
    def measure(cls) -> MachineSpeed:
        """Measure it; other processes on the machine disturb little."""
        signatures: tuple[Signature, ...] = ("gmac", "hmac", "digest", "ed25519", "none")
        return cls(
            **_core.processor_speed(),
            signatures={signature: _signature_speed(signature) for signature in signatures},
        )


def machine_speed(folder: Path | None = None) -> MachineSpeed:
    """The speed of this machine: cached in ``folder``, by default that of the user, or measured."""
    folder = cache_folder() if folder is None else folder
    if folder is None:
        return MachineSpeed.measure()
    path = folder / f"processor-{_fingerprint()}.json"
    cached = _read(path)
    if cached is None:
        cached = MachineSpeed.measure()
        _write(path, cached)
    return cached


def _fingerprint() -> str:
    """Changes with whatever the speed depends on."""
    build = os.stat(_core.__file__)  # changes more often than the version
    parts = [processor_name(), platform.release(), f"{build.st_size} {build.st_mtime_ns}"]
    return hashlib.blake2s("\n".join(parts).encode(), digest_size=8).hexdigest()


def _read(path: Path) -> MachineSpeed | None:
    try:
        with path.open("rb") as file:
            return MachineSpeed.model_validate_json(file.read(_MOST_CACHED_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        _log.info("the speed of this machine is measured again: %s: %s", path, error)
        return None


def _write(path: Path, speed: MachineSpeed) -> None:
    """Without a cache, the speed is measured again next time."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:  # gone with the file, if it stays there
            written = Path(folder, path.name)
            written.write_text(speed.model_dump_json(indent=2))
            os.replace(written, path)


def _signature_speed(signature: Signature) -> SignatureSpeed:
    if signature == "none":
        return SignatureSpeed(packet_s=0.0, byte_s=0.0)
    small_s, large_s = (_signed_s(signature, size) for size in (_SMALL_BYTES, _LARGE_BYTES))
    byte_s = max(0.0, large_s - small_s) / (_LARGE_BYTES - _SMALL_BYTES)
    return SignatureSpeed(packet_s=small_s, byte_s=byte_s)


def _signed_s(signature: Signature, content_bytes: int) -> float:
    """Seconds of signing or verifying a packet."""
    secret = secrets.token_bytes(SHARED_KEY_BYTES.get(signature, 32)).hex()
    signing = Key(signature=signature, name="/key", secret=secret)
    trusted = signing.public() if signature == "ed25519" else signing
    pair = signing.native(), trusted.native()
    times_s = [
        sum(_core.signing_speed(*pair, content_bytes, _SIGNED_PACKETS)) for _ in range(_ROUNDS)
    ]
    return min(times_s) / (2 * _SIGNED_PACKETS)
