"""A node alone as a forwarder: who connects to it, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from innet._native import _core
from innet.errors import CommandRefused, EmulationError, InterestRefused, SecurityError
from innet.ndn import Client
from innet.ndn.strategy import Decision, PendingInterest, Refuse, Strategy
from innet.node import open_node
from innet.node.command_keys import load_command_certificate
from innet.node.forwarder import Forwarder, ForwarderOptions
from innet.node.node_config import NodeConfig
from innet.security.key_dealer import KeyDealer
from innet.security.signers import Ed25519Signer
from innet.security.trust import Certificate, PrivateKey, PublicKey, Validity
from innet.security.trust.certificate import Issuer
from innet.security.trust.names import name_of
from innet.settings import Settings


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="innet-fw-") as directory:
        yield Path(directory) / "f.sock"


async def _is_answered(uri: str) -> bool:
    async with Client(uri) as client:
        with pytest.raises(InterestRefused, match="has a route to it"):
            await client.express("/nowhere", deadline_s=10)
    return True


def test_programs_connect_over_unix_tcp_and_udp(socket_path: Path) -> None:
    listeners = [f"unix://{socket_path}", "tcp4://127.0.0.1:0", "udp4://127.0.0.1:0"]
    with Forwarder(ForwarderOptions(listeners)) as forwarder:
        assert forwarder.listeners[0] == listeners[0]
        for uri in forwarder.listeners:
            assert asyncio.run(_is_answered(uri))
        assert forwarder.node.status()["node"]["faces_opened"] == 3
    assert not socket_path.exists()


def test_a_listener_that_fails_closes_the_others(socket_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"cannot listen on tcp4://192\.0\.2\.1:1"):
        Forwarder(ForwarderOptions([f"unix://{socket_path}", "tcp4://192.0.2.1:1"])).__enter__()
    assert not socket_path.exists()


@contextmanager
def _started(path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "innet", "forwarder", "--unix", str(path), *options]
    with subprocess.Popen(
        [*command, "--no-tcp", "--no-udp"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_command_removes_its_socket_and_refuses_a_second_instance(socket_path: Path) -> None:
    with _started(socket_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"listening on unix://{socket_path}\n"
        with pytest.raises(EmulationError, match="another forwarder listens on"):
            Forwarder(ForwarderOptions([f"unix://{socket_path}"])).__enter__()
        assert asyncio.run(_is_answered(f"unix://{socket_path}"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert not socket_path.exists()


def test_a_python_strategy_decides_for_its_prefix(socket_path: Path) -> None:
    asked: list[str] = []

    class Refusing(Strategy):
        def after_receive_interest(self, interest: PendingInterest) -> Decision:
            asked.append(interest.name)
            return Refuse()

    async def ask(forwarder: Forwarder) -> None:
        async with Client(forwarder.listeners[0]) as client, Client(forwarder.listeners[0]):
            forwarder.node.add_route("/video", 1)
            with pytest.raises(InterestRefused):
                await client.express("/video/1", deadline_s=10)

    options = ForwarderOptions([f"unix://{socket_path}"], strategies=[("/video", Refusing())])
    with Forwarder(options) as forwarder:
        asyncio.run(ask(forwarder))
    assert asked == ["/video/1"]


def test_an_invalid_strategy_is_refused_by_the_command(socket_path: Path) -> None:
    command = [sys.executable, "-m", "innet", "forwarder", "--unix", str(socket_path)]
    said = subprocess.run(
        [*command, "--strategy", "/video=no_such_module:X"], capture_output=True, text=True
    )
    assert said.returncode != 0
    assert "no_such_module" in said.stderr
    assert not socket_path.exists()


def test_the_command_accepts_only_commands_by_the_certified_key(socket_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    now = datetime.now(UTC)
    validity = Validity(now - timedelta(days=1), now + timedelta(days=1))
    own = PrivateKey.from_raw_ed25519(key.private_bytes_raw())
    certificate = Certificate.self_signed(name_of("/op/KEY/1"), own, validity, version=1)
    file = socket_path.with_name("op.cert")
    file.write_text(certificate.to_text())

    async def register() -> None:
        operator = Ed25519Signer("/op/KEY/1", key)
        async with Client(f"unix://{socket_path}", command_signer=operator) as client:
            await client.register("/mine", lambda _: None)
        async with Client(f"unix://{socket_path}") as client:
            with pytest.raises(CommandRefused, match="403"):
                await client.register("/mine", lambda _: None)

    with _started(socket_path, "--commands-by", str(file)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on unix://")
        asyncio.run(register())


def test_an_invalid_certificate_file_is_reported(socket_path: Path) -> None:
    socket_path.write_text("nothing")
    command = [sys.executable, "-m", "innet", "forwarder", "--commands-by", str(socket_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode != 0
    assert "certificate" in ended.stderr


def test_neighbours_cannot_register_unless_keys_are_listed(socket_path: Path) -> None:
    command = [sys.executable, "-m", "innet", "forwarder", "--unix", str(socket_path)]
    ended = subprocess.run(
        [*command, "--localhop"], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 2
    assert "--commands-by" in ended.stderr


def test_an_invalid_key_is_refused_before_the_node_starts(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    large = RSAPublicNumbers(65537, (1 << 8200) + 1).public_key()
    issuer = PrivateKey.generate()
    certificate = Certificate.issue(
        name_of("/op/KEY/1"),
        PublicKey.from_spki(large.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        Validity(now - timedelta(days=1), now + timedelta(days=1)),
        Issuer(issuer, name_of("/ca/KEY/1"), "ca"),
        version=1,
    )
    file = tmp_path / "op.cert"
    file.write_text(certificate.to_text())
    with pytest.raises(SecurityError, match=r"RSA key of 8201 bits; nodes verify .* up to 8192"):
        load_command_certificate(file, now)


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_an_invalid_command_key_leaves_no_forwarder_running(socket_path: Path) -> None:
    threads = _threads()
    key = _core.SigningKey("rsa", "/op/KEY/1", b"no key")
    forwarder = Forwarder(ForwarderOptions([f"unix://{socket_path}"], command_keys=[key]))
    with pytest.raises(ValueError, match="key"):
        forwarder.__enter__()
    assert _threads() == threads


def test_a_node_that_cannot_be_configured_leaves_no_threads(tmp_path: Path) -> None:
    config = NodeConfig(
        run_id="r", node="s0", kind="switch", mode="local", run_dir=tmp_path, faces=(), routes=(),
        slots=8, cache_bytes=0, cache_policy="lru", control_socket=tmp_path / "c",
        ndn_socket=tmp_path / "n", seed=1, ip_address=None,
    )  # fmt: skip
    keys = KeyDealer(["s0"], "digest").switches["s0"]
    broken = keys.model_copy(update={"commands_by": ("00",)})
    threads = _threads()
    with pytest.raises(SecurityError) as raised:  # whose frames keep the node
        open_node(config, Settings(), broken)
    assert _threads() == threads, raised
