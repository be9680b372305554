"""Ray clusters that authenticate by a token, or that use TLS."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cluster.on_ray.ray_cluster import CLIENT_SERVER, RayCluster
from tests.cluster.on_ray.test_ray_machines import QUICK, SUMS, sums
from tests.cluster.several_machines.machines import Machines, machines, star

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

pytestmark = [pytest.mark.netns, pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(600)]
ONE = star(["h1"], h1="machine: {rack: a}")


async def runs_a_job(lab: Machines, ray: RayCluster) -> None:
    """Launch a network on a cluster, run a job there, and take it down."""
    name = f"access-{uuid.uuid4().hex[:8]}"
    up = ray.up(ONE, "--on", "ray", *QUICK, name=name)
    await up.says("is up")
    job = lab.innet("h0", "run", "--on", name, "--", "python", SUMS)
    assert await job.ends() == 0, job.text
    assert len(sums(job.text)) == 1
    await lab.innet("h0", "down", name).ends()
    await up.ends()
    assert await ray.leftovers() == []


async def refusal(ray: RayCluster, on: str = "ray", **environment: str) -> str:
    """What the launcher says that cannot use a cluster."""
    up = ray.up(ONE, "--on", on, name="refused", **environment)
    assert await up.ends() != 0
    return up.lines[-1]


async def test_a_network_starts_with_the_clusters_token_alone() -> None:
    async with machines(2) as lab:
        token, other = lab.folder / "token", lab.folder / "other"
        token.write_text("a" * 64)
        other.write_text("b" * 64)
        ray = RayCluster(lab, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
        await ray.start({"h1": "rack=a"})
        await runs_a_job(lab, ray)
        remedy = "Give it the cluster's token: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH"
        wrong = "refuses this process: its authentication token is missing or incorrect. " + remedy
        assert wrong in await refusal(ray, RAY_AUTH_TOKEN_PATH=str(other))
        assert wrong in await refusal(ray, CLIENT_SERVER, RAY_AUTH_TOKEN_PATH=str(other))
        assert wrong in await refusal(ray, RAY_AUTH_MODE="disabled")
        said = await refusal(ray, RAY_AUTH_TOKEN_PATH=str(lab.folder / "none"))
        assert "file cannot be opened or is empty" in said
        assert remedy in said


async def test_a_network_starts_with_the_clusters_certificates_alone() -> None:
    async with machines(2) as lab:
        own, other = (certificates(lab.folder / name) for name in ("own", "other"))
        ray = RayCluster(lab, RAY_USE_TLS="1", **own)
        await ray.start({"h1": "rack=a"})
        await runs_a_job(lab, ray)
        remedy = "set RAY_USE_TLS, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT"
        assert remedy in await refusal(ray, CLIENT_SERVER, RAY_USE_TLS="0")
        assert remedy in await refusal(ray, CLIENT_SERVER, **other)
        none = str(lab.folder / "none")
        said = await refusal(ray, RAY_TLS_SERVER_KEY=none)
        assert f"RAY_USE_TLS is set, and RAY_TLS_SERVER_KEY is '{none}', which cannot be" in said


def certificates(folder: Path) -> dict[str, str]:
    """Certificates of an authority and of all machines, as Ray's environment names them."""
    folder.mkdir()
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority, machine = name_of("authority"), name_of("machine")
    addresses = [x509.IPAddress(ipaddress.ip_address(f"10.0.0.{n}")) for n in (1, 2)]
    local = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    own = unsigned(authority, authority, authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    leaf = unsigned(machine, authority, key).add_extension(
        x509.SubjectAlternativeName([*addresses, *local]), critical=False
    )
    contents = {
        "RAY_TLS_CA_CERT": pem(own.sign(authority_key, hashes.SHA256())),
        "RAY_TLS_SERVER_CERT": pem(leaf.sign(authority_key, hashes.SHA256())),
        "RAY_TLS_SERVER_KEY": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    }
    for variable, content in contents.items():
        (folder / variable).write_bytes(content)
    return {variable: str(folder / variable) for variable in contents}


def name_of(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=2))
    )


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
