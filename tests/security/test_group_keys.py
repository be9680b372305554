"""Keys of groups: sealed to their members, others in each epoch, and no nonce twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import SecurityError
from innet.security import KeyDealer, node_certificate_name
from innet.security.credential_packets import CredentialOpener, KeyAuthority, SealingKey, seal
from innet.security.group_keys import GroupCredentials, GroupKeySource, epoch_name
from innet.security.trust import PrivateKey, parse_data

HOSTS = ("h0", "h1", "h2")


def dealt(signature: str = "gmac") -> GroupKeySource:
    return KeyDealer(["s0"], signature).deal("j1", HOSTS).groups  # type: ignore[arg-type]


def credentials(source: GroupKeySource, number: int = 1, *members: str) -> GroupCredentials:
    prefixes = [f"/j1/g0.inc.{number}"]
    return source.credentials(prefixes, epoch_name(prefixes, number), members or HOSTS)


class Run:
    """The authority of a run, and who trusts it."""

    def __init__(self) -> None:
        self.private = PrivateKey.generate("ed25519")
        self.authority = KeyAuthority(self.private)

    def opener(self, node: str) -> CredentialOpener:
        return CredentialOpener(node, self.private.public.spki.hex())

    def sealed(self, opener: CredentialOpener, node: str, number: int = 1) -> bytes:
        return self.authority.seal(
            f"/j1/KEY/g0/v={number}", credentials(dealt(), number), node, opener.public
        )


@pytest.fixture
def run() -> Run:
    return Run()


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_sealed_data_is_opened_by_one_key_for_one_purpose(secret, purpose):
    key, other = SealingKey.generate(), SealingKey.generate()
    sealed = seal(secret, key.public, purpose)
    assert key.open(sealed, purpose) == secret
    for opener, given_purpose, bytes_ in (
        (other, purpose, sealed),
        (key, purpose + b"x", sealed),
        (key, purpose, sealed[:-1]),
        (key, purpose, b""),
    ):
        with pytest.raises(SecurityError, match="not for this process"):
            opener.open(bytes_, given_purpose)


@pytest.mark.parametrize("public", ["", "zz", "00" * 31, "00" * 32])
def test_sealing_to_an_invalid_key_is_refused(public):
    with pytest.raises(SecurityError, match="not a key that can be sealed to"):
        seal(b"secret", public, b"")


@pytest.mark.parametrize("signature", ["gmac", "hmac"])
def test_each_epoch_has_its_own_key_shared_by_its_members(signature):
    source = dealt(signature)
    first, again, second = (credentials(source, number).key for number in (1, 1, 2))
    assert first == again
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == ("/j1/KEY/g0/v=1", "/j1/KEY/g0/v=2")
    assert first.secret != second.secret
    assert dealt(signature).credentials(["/j1/g0.inc"], first.name, HOSTS).key != first


def test_only_members_are_trusted_in_a_group():
    source = dealt("ed25519")
    trusted = {key.name for key in credentials(source, 2, "h0", "h2").trusted}
    assert trusted == {node_certificate_name(node, "j1") for node in ("h0", "h2", "s0")}
    (alone,) = credentials(dealt(), 2, "h1").trusted
    assert alone.name == node_certificate_name("h1", "j1")


def test_key_files_contain_no_shared_key():
    keys = KeyDealer(["s0"], "gmac").deal("j1", HOSTS)
    for node in keys.hosts.values():
        assert node.signing == node.objects
        assert node.trusted == ()
        assert keys.groups.secret is not None
        assert keys.groups.secret.secret not in node.model_dump_json()


def test_credentials_reach_their_process(run):
    opener = run.opener("h1")
    opened = opener.open(run.sealed(opener, "h1"))
    assert opened.prefixes == ("/j1/g0.inc.1",)
    assert opened.key is not None
    assert opened.key.name == "/j1/KEY/g0/v=1"
    assert {key.name for key in opened.trusted} == {
        node_certificate_name(host, "j1") for host in HOSTS
    }


def test_a_rank_that_left_can_neither_read_the_next_key_nor_use_anothers_packet(run):
    left, member = run.opener("h2"), run.opener("h1")
    for_member = run.sealed(member, "h1", 2)
    with pytest.raises(SecurityError, match="is not for h2"):
        left.open(for_member)
    impostor = run.opener("h1")  # another process on the member's host
    with pytest.raises(SecurityError, match="not for this process"):
        impostor.open(for_member)
    member.open(for_member)


def test_credentials_of_another_authority_are_refused(run):
    opener = run.opener("h1")
    with pytest.raises(SecurityError, match="not signed by the authority"):
        opener.open(Run().sealed(opener, "h1"))
    with pytest.raises(SecurityError):
        opener.open(b"no packet")


def test_a_changed_packet_is_refused(run):
    opener = run.opener("h1")
    packet = run.sealed(opener, "h1")
    for place in range(4, len(packet), 7):
        changed = bytearray(packet)
        changed[place] ^= 1
        with pytest.raises(SecurityError):
            opener.open(bytes(changed))
    opener.open(packet)


def test_nonces_are_never_reused(run):
    """Salts differ between all that is sealed, whoever seals; and none is used twice."""
    salts = set()
    opener = run.opener("h1")
    authorities = [KeyAuthority(run.private, generation) for generation in (0, 1, 2)]
    for authority in authorities:
        for _ in range(3):
            packet = authority.seal("/j1/KEY/g0/v=1", credentials(dealt()), "h1", opener.public)
            salts.add(opener.open(packet).salt)
            with pytest.raises(SecurityError, match="opened before"):
                opener.open(packet)
    assert len(salts) == 9
    assert {len(bytes.fromhex(salt)) for salt in salts} == {6}
    with pytest.raises(SecurityError, match="not for this process"):
        run.opener("h1").open(packet)  # the process that comes after a restart


def test_exhausted_salts_raise_and_never_overlap_the_next_generation():
    authority = KeyAuthority(PrivateKey.generate("ed25519"), 5)
    authority._numbers = iter([(6 << 32) - 1, 6 << 32])  # type: ignore[assignment]
    to = SealingKey.generate().public
    name = parse_data(authority.seal("/j1/KEY/g0/v=1", credentials(dealt()), "h0", to)).name
    assert name[-1][1].endswith(b"\x00\x05\xff\xff\xff\xff")
    with pytest.raises(SecurityError, match="no salts are left"):
        authority.seal("/j1/KEY/g0/v=1", credentials(dealt()), "h0", to)
    with pytest.raises(SecurityError, match="launch the run again"):
        KeyAuthority(PrivateKey.generate("ed25519"), 1 << 16)
