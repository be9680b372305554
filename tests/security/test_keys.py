"""Keys of a run: who can sign as whom."""

import pytest

from innet.errors import SecurityError
from innet.security import (
    KeyDealer,
    NodeKeys,
    deal_keys,
    node_certificate_name,
)

NODES = ["h0", "h1", "s0"]


@pytest.mark.parametrize("signature", ["gmac", "hmac", "digest", "ed25519"])
def test_each_node_signs_objects_with_its_own_key_that_all_can_verify(signature):
    dealt = deal_keys(NODES, signature)
    secrets = {keys.objects.secret for keys in dealt.values()}
    assert len(secrets) == len(NODES)
    for node, keys in dealt.items():
        assert keys.objects.name == node_certificate_name(node, "j")
        trusted = {key.name: key for key in keys.trusted}
        for other in NODES:
            public = trusted[node_certificate_name(other, "j")]
            assert public.signature == "ed25519"
            assert public.secret not in secrets
        keys.object_key()
        keys.trusted_keys()


def test_keys_round_trip_through_their_file_and_other_files_are_refused(tmp_path):
    keys = deal_keys(NODES, "gmac")["h0"]
    path = tmp_path / "h0.keys"
    keys.save(path)
    assert path.stat().st_mode & 0o077 == 0
    assert NodeKeys.load(path) == keys
    path.write_text("{}")
    with pytest.raises(SecurityError, match="launch the run again"):
        NodeKeys.load(path)
    with pytest.raises(SecurityError, match="cannot read"):
        NodeKeys.load(tmp_path / "missing")


@pytest.mark.parametrize("signature", ["gmac", "hmac", "ed25519", "digest", "none"])
def test_each_job_has_its_own_keys(signature):
    dealer = KeyDealer(["s0"], signature)
    jobs = [dealer.deal(name, ["h0", "h1"]) for name in ("j1", "j2")]
    pairs = [{keys.objects.secret for keys in job.hosts.values()} for job in jobs]
    assert pairs[0].isdisjoint(pairs[1])
    shared = [job.groups.secret for job in jobs]
    assert (shared[0] is None) == (signature in ("ed25519", "digest", "none"))
    assert shared[0] is None or shared[0] != shared[1]
    for job in jobs:
        job.switches.trusted_keys()
        assert (job.switches.signing_key() is None) == (signature in ("gmac", "hmac", "ed25519"))
        for host, keys in job.hosts.items():
            assert job.groups.hosts[host] == keys.objects.public()
            keys.signing_key()
            keys.trusted_keys()


def test_only_hosts_of_a_job_share_its_pool_secret():
    dealer = KeyDealer(["s0"], "gmac")
    dealt = [dealer.deal(name, ["h0", "h1"]) for name in ("j1", "j2")]
    of_jobs = [{keys.pool_secret_bytes() for keys in job.hosts.values()} for job in dealt]
    assert [len(secrets) for secrets in of_jobs] == [1, 1]
    assert of_jobs[0] != of_jobs[1]
    with pytest.raises(SecurityError, match="no pool's secret"):
        dealer.switches["s0"].pool_secret_bytes()
    keys = dealt[0].hosts["h0"]
    assert keys.pool_secret is not None
    assert keys.pool_secret not in repr(keys)
    assert keys.pool_secret not in dealt[0].switches.model_dump_json()
