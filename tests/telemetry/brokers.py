"""Brokers to test with, and clients that look at what they carry."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiomqtt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.feed import RunFeed

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists(),
    reason="mosquitto is not installed (Debian: apt-get install mosquitto)",
)

_PATIENCE_S = 60.0


class Mosquitto:
    """Eclipse's broker on one port of loopback, which may end, freeze and come back."""

    def __init__(self, directory: Path, *settings: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._configuration = directory / "mosquitto.conf"
        lines = [f"listener {self.port} 127.0.0.1", *settings]
        if not any(line.startswith("password_file") for line in settings):
            lines.append("allow_anonymous true")
        self._configuration.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> BrokerUrl:
        """Its address."""
        return BrokerUrl("127.0.0.1", self.port)

    async def start(self) -> None:
        """Run it, and wait until it takes connections."""
        self._run()
        await until(self._takes_connections)

    def send_signal(self, signum: signal.Signals) -> None:
        """Freeze it (SIGSTOP), or let it go on (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signum)

    def kill(self) -> None:
        """End it at once. Safe to call twice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _run(self) -> None:
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        self._process = subprocess.Popen(
            [program, "-c", str(self._configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _takes_connections(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


async def until(holds: Callable[[], bool]) -> None:
    """Poll until something holds that causes no event."""
    async with asyncio.timeout(_PATIENCE_S):
        while not holds():  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)


class Watcher:
    """Reads a run's topics into a feed."""

    def __init__(self, client: aiomqtt.Client) -> None:
        self.client = client
        self.feed = RunFeed()
        self.messages: list[tuple[str, bytes, bool]] = []

    async def until(self, holds: Callable[[RunFeed], bool]) -> None:
        """Read until the feed shows what is waited for."""
        async with asyncio.timeout(_PATIENCE_S):
            while not holds(self.feed):
                message = await anext(aiter(self.client.messages))
                payload = message.payload
                assert isinstance(payload, bytes)
                self.messages.append((str(message.topic), payload, bool(message.retain)))
                self.feed.take(str(message.topic), payload)

    def last(self, topic: str) -> bytes:
        """The last payload that came on a topic."""
        return next(p for t, p, _ in reversed(self.messages) if t == topic)


@contextlib.asynccontextmanager
async def watching(client: aiomqtt.Client, topics: str = "innet/#") -> AsyncIterator[Watcher]:
    """A watcher that has subscribed."""
    async with client:
        await client.subscribe(topics, 1)
        yield Watcher(client)


def self_signed(host: str, directory: Path) -> tuple[Path, Path]:
    """The files of a certificate for ``host`` that is its own authority, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files
