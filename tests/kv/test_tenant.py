"""A tenant's name and key: those who have its secret derive the same, and nobody else does."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from innet.errors import KVError, SecurityError
from innet.kv.tenant import Tenant
from innet.ndn import ReceivedData
from innet.security.trust import Policy, PolicyValidator, PrivateKey, Validity, sign_data
from innet.security.trust.names import name_of

SECRET = bytes(range(32))


def test_the_secret_determines_name_and_key() -> None:
    one, again = Tenant("acme", SECRET), Tenant("acme", SECRET)
    assert (one.component, one.key) == (again.component, again.key)
    others = [Tenant("other", SECRET), Tenant("acme", SECRET[::-1])]
    assert len({tenant.component for tenant in (one, *others)}) == 3
    assert len({tenant.key.secret for tenant in (one, *others)}) == 3


def test_names_and_public_keys_stay_those_of_blocks_on_disk() -> None:
    tenant = Tenant("acme", SECRET)
    assert tenant.component == "90f631ffbe4bb74a79fad83043477746"
    assert (
        tenant.public_key.secret
        == "4a2af3d44c665dffb10c0bf7ea7f3bd31f8376a9288b85d6f12c85085180f165"
    )
    assert tenant.key_name == f"/kv/{tenant.component}/KEY"


def test_the_secret_is_not_shown() -> None:
    tenant = Tenant("acme", b"do not show this to anyone")
    assert "do not show" not in repr(tenant)
    assert tenant.key.secret not in repr(tenant.key)


def test_a_secret_is_read_from_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    assert Tenant.from_file("acme", path) == Tenant("acme", SECRET)
    path.chmod(0o640)
    with pytest.raises(SecurityError, match="chmod 600"):
        Tenant.from_file("acme", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"short", "at least 16"), (None, "cannot read"), (bytes(70000), "larger than")],
)
def test_files_without_a_secret_are_refused(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(SecurityError, match=message):
        Tenant.from_file("acme", path)


def test_a_path_that_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(SecurityError, match="is not a regular file"):
        Tenant.from_file("acme", pipe)
    with pytest.raises(SecurityError, match="cannot read"):
        Tenant.from_file("acme", tmp_path)


def test_a_tenant_needs_a_name() -> None:
    with pytest.raises(KVError, match="has a name"):
        Tenant("", SECRET)


async def _nobody_is_asked(name: str, _can_be_prefix: bool) -> bytes:
    raise AssertionError(f"asked for {name}")


async def test_a_tenants_certificate_validates_only_its_own_blocks() -> None:
    tenant, other = Tenant("acme", SECRET), Tenant("acme", SECRET[::-1])
    now = datetime(2026, 1, 2, tzinfo=UTC)
    anchor = tenant.certificate(Validity(datetime(2026, 1, 1, tzinfo=UTC), now))
    policy = Policy.load("pool")
    validator = PolicyValidator(policy, [anchor], fetch=_nobody_is_asked, now=lambda: now)

    def block(signer: Tenant, owner: Tenant = tenant) -> ReceivedData:
        key = PrivateKey.from_raw_ed25519(bytes.fromhex(signer.key.secret))
        name = name_of(f"{owner.prefix}/00ff/raw/0-1/abcd/seg=0")
        return sign_data(name, b"a block", key, name_of(tenant.key_name))

    believed = await validator.judge(block(tenant))
    assert believed.is_valid, believed.reason
    assert "wrong signature" in (await validator.judge(block(other))).reason
    assert not (await validator.judge(block(tenant, owner=other))).is_valid


def test_the_key_of_tags_depends_only_on_the_secret() -> None:
    tenant = Tenant("acme", SECRET)
    assert len(tenant.tag_key) == 64
    assert tenant.tag_key == Tenant("acme", SECRET).tag_key
    others = [
        Tenant("acme", SECRET + b"!").tag_key,
        *(Tenant(name, SECRET).tag_key for name in ("other", "hash acme")),
    ]
    halves = [key[at : at + 32] for key in (tenant.tag_key, *others) for at in (0, 32)]
    secrets = {*halves, bytes.fromhex(tenant.key.secret), bytes.fromhex(tenant.public_key.secret)}
    assert len(secrets) == 10
