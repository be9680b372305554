"""Keys of a run: who can sign as whom."""

import pytest

from innet.errors import SecurityError
from innet.security import NodeKeys, deal_keys, own_key_name

NODES = ["h0", "h1", "s0"]


@pytest.mark.parametrize("signature", ["gmac", "hmac", "digest", "ed25519"])
def test_each_node_signs_objects_with_a_key_that_all_know_and_nobody_else_has(signature):
    dealt = deal_keys(NODES, signature)
    secrets = {keys.objects.secret for keys in dealt.values()}
    assert len(secrets) == len(NODES)
    for node, keys in dealt.items():
        assert keys.objects.name == own_key_name(node)
        trusted = {key.name: key for key in keys.trusted}
        for other in NODES:
            public = trusted[own_key_name(other)]
            assert public.signature == "ed25519"
            assert public.secret not in secrets
        keys.object_key()
        keys.trusted_keys()


def test_keys_survive_their_file_and_other_files_are_refused(tmp_path):
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
