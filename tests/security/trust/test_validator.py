"""The validator: whom it believes, and what it says when it does not."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from innet.errors import SecurityError, TransportError
from innet.names import Name
from innet.ndn import ReceivedData
from innet.security.trust import (
    Certificate,
    PacketRefused,
    Policy,
    PolicyValidator,
    PrivateKey,
    Revocation,
    Validity,
    sign_data,
)
from innet.security.trust.certificate import Issuer
from innet.security.trust.names import name_of
from innet.security.trust.policy_source import read_policy
from innet.tlv_numbers import ContentType

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
DAY = timedelta(days=1)
FILE = "/lab/alice/file/v=1/seg=0"


@dataclass
class Network:
    """Packets by name, the time, and what was asked for."""

    packets: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    time: datetime = NOW

    async def fetch(self, name: str, can_be_prefix: bool) -> bytes:
        self.asked[name] += 1
        await asyncio.sleep(0)
        for known, packet in self.packets.items():
            if known == name or (can_be_prefix and known.startswith(name + "/")):
                return packet
        raise TransportError(f"nobody has {name}")

    def add(self, data: ReceivedData) -> None:
        self.packets[str(data.name)] = data.wire


class Lab:
    """A site /lab whose key is the anchor, and its user alice."""

    def __init__(self) -> None:
        self.network = Network()
        self.root = PrivateKey.generate("ecdsa")
        self.alice = PrivateKey.generate()
        period = Validity(NOW - 100 * DAY, NOW + 100 * DAY)
        self.anchor = Certificate.self_signed(name_of("/lab/KEY/0"), self.root, period, version=1)
        self.certificate = self.certify("/lab/alice/KEY/1")

    def certify(
        self,
        name: str,
        days: int = 10,
        of: PrivateKey | None = None,
        version: int = 1,
        **changes: Any,
    ) -> Certificate:
        issuer = replace(Issuer(self.root, self.anchor.name, "lab"), **changes)
        period = Validity(NOW - DAY, NOW + days * DAY)
        public = (of or self.alice).public
        made = Certificate.issue(name_of(name), public, period, issuer, version=version)
        self.network.add(made.data)
        return made

    def file(
        self, name: str = FILE, key: PrivateKey | None = None, by: Name | None = None
    ) -> ReceivedData:
        return sign_data(name_of(name), b"text", key or self.alice, by or self.certificate.name)

    def validator(self, policy: str = "store", **options: object) -> PolicyValidator:
        return PolicyValidator(
            Policy.load(policy),
            [self.anchor],
            fetch=self.network.fetch,
            now=lambda: self.network.time,
            **options,  # type: ignore[arg-type]
        )


@pytest.fixture
def lab() -> Lab:
    return Lab()


async def test_a_packet_is_validated_by_its_chain_and_certificates_are_fetched_once(
    lab: Lab,
) -> None:
    validator = lab.validator()
    verdicts = await asyncio.gather(
        *(validator.judge(lab.file(f"/lab/alice/file/v=1/seg={n}").wire) for n in range(20))
    )
    assert all(verdict.is_valid for verdict in verdicts)
    assert "#object allows it" in verdicts[0].reason
    assert [c.name for c in verdicts[0].chain] == [lab.certificate.name, lab.anchor.name]
    assert lab.network.asked == {str(lab.certificate.name): 1}


async def test_the_name_of_a_key_suffices_to_find_its_certificate(lab: Lab) -> None:
    verdict = await lab.validator().judge(lab.file(by=name_of("/lab/alice/KEY/1")))
    assert verdict.is_valid, verdict.reason


async def refusal(lab: Lab, packet: ReceivedData, **options: object) -> str:
    validator = lab.validator(**options)  # type: ignore[arg-type]
    with pytest.raises(PacketRefused) as caught:
        await validator.check(str(packet.name), packet)
    return str(caught.value)


async def test_a_wrong_key_is_refused(lab: Lab) -> None:
    assert "wrong signature" in await refusal(lab, lab.file(key=PrivateKey.generate()))
    assert "wrong signature" in await refusal(lab, lab.file(key=lab.root))


async def test_a_valid_key_with_a_wrong_name_is_refused_without_a_fetch(lab: Lab) -> None:
    said = await refusal(lab, lab.file("/lab/bob/file/v=1/seg=0"))
    assert "#object refuses it" in said
    assert "its user is alice" in said
    assert not lab.network.asked


async def test_an_expired_certificate_is_refused_even_after_it_was_accepted(lab: Lab) -> None:
    validator = lab.validator()
    assert (await validator.judge(lab.file())).is_valid
    lab.network.time = NOW + 11 * DAY
    verdict = await validator.judge(lab.file())
    assert "has expired on" in verdict.reason
    lab.network.time = NOW - 2 * DAY
    assert "is not valid before" in (await validator.judge(lab.file())).reason
    lab.network.time = NOW + 101 * DAY
    assert not (await validator.judge(lab.file(by=lab.anchor.name))).is_valid


async def test_a_renewed_certificate_is_fetched_when_the_old_one_has_expired(lab: Lab) -> None:
    packet = lab.file(by=name_of("/lab/alice/KEY/1"))
    validator = lab.validator()
    assert (await validator.judge(packet)).is_valid
    lab.network.time = NOW + 11 * DAY
    for _ in range(3):
        assert "has expired on" in (await validator.judge(packet)).reason
    assert lab.network.asked == {"/lab/alice/KEY/1": 2}  # not for each packet
    lab.network.packets.clear()
    renewed = lab.certify("/lab/alice/KEY/1", days=90, version=2)
    lab.network.time += timedelta(minutes=1)
    verdicts = await asyncio.gather(*(validator.judge(packet) for _ in range(3)))
    assert [verdict.chain[0].name for verdict in verdicts] == [renewed.name] * 3
    assert all(verdict.is_valid for verdict in verdicts)
    assert lab.network.asked == {"/lab/alice/KEY/1": 3}


async def test_a_renewed_certificate_of_an_issuer_is_fetched(lab: Lab) -> None:
    policy = Policy.of_text(
        '#file: "lab"/"file" <= #user\n#user: "lab"/"user"/"KEY"/_/_/_ <= #desk\n'
        '#desk: "lab"/"desk"/"KEY"/_/_/_ <= #anchor\n#anchor: "lab"/"KEY"/_/_/_\n'
    )
    desk = PrivateKey.generate()
    lab.certify("/lab/desk/KEY/1", of=desk)
    user = lab.certify("/lab/user/KEY/1", days=90, key=desk, locator=name_of("/lab/desk/KEY/1"))
    packet = lab.file("/lab/file", by=user.name)
    validator = PolicyValidator(
        policy, [lab.anchor], fetch=lab.network.fetch, now=lambda: lab.network.time
    )
    assert (await validator.judge(packet)).is_valid
    lab.network.packets.clear()
    lab.certify("/lab/desk/KEY/1", days=90, of=desk, version=2)
    lab.network.time = NOW + 11 * DAY
    verdict = await validator.judge(packet)
    assert verdict.is_valid, verdict.reason
    assert lab.network.asked == {str(user.name): 1, "/lab/desk/KEY/1": 2}


async def test_an_unexpired_anchor_of_a_key_is_used_among_several(lab: Lab) -> None:
    period = Validity(NOW, NOW + 300 * DAY)
    renewed = Certificate.self_signed(name_of("/lab/KEY/0"), lab.root, period, version=2)
    lab.certificate = lab.certify("/lab/alice/KEY/1", days=200, locator=name_of("/lab/KEY/0"))
    validator = PolicyValidator(
        Policy.load("store"), [lab.anchor, renewed], fetch=lab.network.fetch,
        now=lambda: lab.network.time,
    )  # fmt: skip
    for days in (1, 150):
        lab.network.time = NOW + days * DAY
        assert (await validator.judge(lab.file())).is_valid


async def test_a_certificate_by_another_issuer_is_refused(lab: Lab) -> None:
    stranger = PrivateKey.generate()
    lab.certificate = lab.certify("/lab/alice/KEY/1", key=stranger)
    assert "is not trusted" in await refusal(lab, lab.file())
    lab.certificate = lab.certify(
        "/lab/alice/KEY/1", key=lab.alice, locator=name_of("/lab/alice/KEY/1")
    )
    assert "lead to no anchor" in await refusal(lab, lab.file(by=name_of("/lab/alice/KEY/1")))


async def test_revoked_certificates_are_refused(lab: Lab) -> None:
    by_root = Revocation.of(lab.certificate, lab.root, lab.anchor.name, time=NOW, reason="stolen")
    by_alice = Revocation.of(lab.certificate, lab.alice, lab.anchor.name, time=NOW, reason="lost")
    for record in (by_root, by_alice):
        assert "is revoked: " in await refusal(lab, lab.file(), revocations=[record])
        lab.network.add(record.data)
        assert "is revoked: " in await refusal(lab, lab.file(), asks_for_revocations=True)
        lab.network.packets.pop(str(record.data.name))
    validator = lab.validator()
    assert (await validator.judge(lab.file())).is_valid
    validator.add_revocation(by_alice)
    assert not (await validator.judge(lab.file())).is_valid


async def test_a_forged_revocation_changes_nothing(lab: Lab) -> None:
    record = Revocation.of(lab.certificate, lab.root, lab.anchor.name, time=NOW, reason="stolen")
    forged = sign_data(
        record.data.name, record.data.content, PrivateKey.generate(), lab.anchor.name
    )
    lab.network.add(forged)
    validator = lab.validator(asks_for_revocations=True)
    assert (await validator.judge(lab.file())).is_valid


async def test_missing_or_malformed_certificates_are_reported(lab: Lab) -> None:
    lab.network.packets.clear()
    assert "cannot get the certificate" in await refusal(lab, lab.file())
    lab.network.packets[str(lab.certificate.name)] = lab.anchor.wire
    assert "and got /lab/KEY/0" in await refusal(lab, lab.file())
    lab.network.packets[str(lab.certificate.name)] = b"\x06\x00"
    assert "damaged" in await refusal(lab, lab.file())


async def test_the_length_of_chains_is_limited(lab: Lab) -> None:
    """A policy with long chains, and a chain that is longer than what is followed."""
    rules = "".join(f'#c{i}: "lab"/"c{i}"/"KEY"/_/_/_ <= #c{i + 1}\n' for i in range(8))
    text = f'#file: "lab"/"file" <= #c1 | #c2\n{rules}#c8: "lab"/"KEY"/_/_/_\n'
    for i in range(8):
        above = f"/lab/c{i + 1}/KEY/1/lab/v=1" if i < 7 else str(lab.anchor.name)
        issuer = lab.alice if i < 7 else lab.root
        lab.certify(f"/lab/c{i}/KEY/1", key=issuer, locator=name_of(above))
    validator = PolicyValidator(
        Policy.of_text(text), [lab.anchor], fetch=lab.network.fetch, now=lambda: NOW
    )
    for first, valid in ((1, False), (2, True)):  # docs/trust.md: at most six certificates
        packet = lab.file("/lab/file", by=name_of(f"/lab/c{first}/KEY/1/lab/v=1"))
        assert (await validator.judge(packet)).is_valid is valid


async def test_a_digest_signature_proves_no_origin(lab: Lab) -> None:
    import hashlib

    from innet.security.trust import tlv

    portion = b"\x07\x06\x08\x01a\x08\x01b" + tlv.encode(0x16, b"\x1b\x01\x00")
    packet = tlv.encode(6, portion, tlv.encode(0x17, hashlib.sha256(portion).digest()))
    verdict = await lab.validator().judge(packet)
    assert "signed by no key" in verdict.reason


def test_an_anchor_must_be_in_the_policy_and_self_signed(lab: Lab) -> None:
    for anchors, said in (
        ([], "needs an anchor"),
        ([lab.certificate], "is not an anchor of the policy store: its anchors are #anchor"),
    ):
        with pytest.raises(SecurityError, match=said):
            PolicyValidator(Policy.load("store"), anchors, fetch=lab.network.fetch, now=lambda: NOW)
    forged = Certificate.issue(
        name_of("/lab/KEY/0"),
        lab.root.public,
        lab.anchor.validity,
        Issuer(lab.alice, lab.anchor.name, "self"),
        version=1,
    )
    with pytest.raises(SecurityError, match="not signed by its own key"):
        PolicyValidator(Policy.load("store"), [forged], fetch=lab.network.fetch, now=lambda: NOW)


def test_python_ndns_validator_accepts_the_same_policy() -> None:
    """The shipped policies stay within the language: its own checker needs our functions alone."""
    from ndn.app_support.light_versec import Checker, compile_lvs

    from innet.security.trust.facts import functions_of

    for name in ("job", "pool", "store"):
        text, _ = read_policy(name)
        functions = {**functions_of({}), "$eq": lambda *_: True, "$eq_type": lambda *_: True}
        assert Checker(compile_lvs(text), functions).validate_user_fns()


def test_python_ndn_verifies_all_packets_that_a_job_signs(run_job: Any) -> None:
    result = run_job(
        "checked_by_python_ndn.py", topology="star:2", settings=["security.signature=ed25519"]
    )
    assert result.failure == ""
    assert "all are believed" in result.said("h0")


async def test_an_expired_certificate_is_refused_as_a_packet_too(lab: Lab) -> None:
    validator = lab.validator()
    assert (await validator.judge(lab.certificate.data)).is_valid
    lab.network.time = NOW + 11 * DAY
    verdict = await validator.judge(lab.certificate.data)
    assert not verdict.is_valid
    assert "/lab/alice/KEY/1/lab/v=1 has expired on 2026-05-14" in verdict.reason
    with pytest.raises(PacketRefused, match="has expired"):
        await validator.check("/lab/alice/KEY/1", lab.certificate.data)
    lab.network.time = NOW - 2 * DAY
    assert "is not valid before" in (await validator.judge(lab.certificate.data)).reason


async def test_a_revoked_certificate_is_refused_as_a_packet_too(lab: Lab) -> None:
    record = Revocation.of(lab.certificate, lab.root, lab.anchor.name, time=NOW, reason="stolen")
    verdict = await lab.validator(revocations=[record]).judge(lab.certificate.data)
    assert not verdict.is_valid
    assert "is revoked: stolen" in verdict.reason


async def test_any_packet_with_an_expired_validity_period_is_refused(lab: Lab) -> None:
    period = Validity(NOW - 2 * DAY, NOW + DAY)
    packet = sign_data(name_of(FILE), b"x", lab.alice, lab.certificate.name, info=period.encode())
    validator = lab.validator()
    assert (await validator.judge(packet)).is_valid
    lab.network.time = NOW + 2 * DAY
    assert f"{FILE} has expired" in (await validator.judge(packet)).reason


async def test_a_key_packet_without_a_period_is_no_certificate(lab: Lab) -> None:
    packet = sign_data(
        name_of("/lab/alice/KEY/2/lab/v=1"),
        lab.alice.public.spki,
        lab.root,
        lab.anchor.name,
        content_type=ContentType.KEY,
    )
    assert "has no validity period" in (await lab.validator().judge(packet)).reason
