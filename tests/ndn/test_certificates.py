"""From a key on disk to an object that a policy believes, and one that it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from innet.errors import SecurityError
from innet.ndn.certificates import policy_validator, serve_certificates, stored_signer
from innet.ndn.objects import fetch, publish
from innet.security.trust import KeyStore, Policy, Validity
from innet.security.trust.key_operations import issue, make_key, revoke
from innet.security.trust.keys import KeyKind
from tests.ndn.direct_client import DirectClient

DAY = timedelta(days=1)


@pytest.fixture
def store(tmp_path):
    """Of a site that has certified Alice; Mallory has certified himself."""
    store = KeyStore(tmp_path / "keys")
    now = datetime.now(UTC)
    kinds: dict[str, KeyKind] = {
        "/lab": "ed25519",
        "/lab/alice": "ecdsa",
        "/lab/mallory": "ecdsa",
    }
    for identity, kind in kinds.items():
        request = make_key(store, identity, Validity(now, now + DAY), kind=kind)
        if identity == "/lab/alice":
            issue(store, request, store.find("/lab"), Validity(now, now + DAY), issuer_id="lab")
    return store


@pytest.mark.parametrize("manifest", [False, True])
async def test_a_policy_accepts_an_object_after_fetching_its_certificate(store, manifest):
    client = DirectClient()
    signer, certificate = stored_signer(store, "/lab/alice")
    await serve_certificates(client, [certificate])
    validator = policy_validator(client, Policy.load("store"), [store.find_certificate("/lab")])
    async with await publish(client, "/lab/alice/x", b"hers", signer=signer, manifest=manifest):
        assert (await fetch(client, "/lab/alice/x", validator=validator)).content == b"hers"
    assert str(signer.key_name).startswith("/lab/alice/KEY/")


@pytest.mark.parametrize("name", ["/lab/alice/x", "/lab/mallory/x"])
async def test_objects_of_uncertified_keys_are_refused(store, name):
    client = DirectClient()
    signer, certificate = stored_signer(store, "/lab/mallory")
    await serve_certificates(client, [certificate])
    validator = policy_validator(client, Policy.load("store"), [store.find_certificate("/lab")])
    async with await publish(client, name, b"his", signer=signer):
        with pytest.raises(SecurityError):
            await fetch(client, name, validator=validator, patience_s=0.1)


async def test_objects_of_revoked_keys_are_refused(store):
    client = DirectClient()
    signer, certificate = stored_signer(store, "/lab/alice")
    revoke(store, certificate, store.find("/lab"), datetime.now(UTC), "lost")
    await serve_certificates(client, [certificate])
    anchors = [store.find_certificate("/lab")]
    validator = policy_validator(client, Policy.load("store"), anchors, store.revocations())
    async with await publish(client, "/lab/alice/x", b"hers", signer=signer):
        with pytest.raises(SecurityError, match="is revoked: lost"):
            await fetch(client, "/lab/alice/x", validator=validator, patience_s=0.1)
