"""Certificates for a Ray cluster that uses TLS."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


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
