"""Judges packets by a policy: from their signature over certificates up to an anchor."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from innet._native import _core
from innet.errors import InnetError, SecurityError
from innet.names import Name
from innet.security.trust.certificate import Certificate, Validity
from innet.security.trust.keys import PublicKey
from innet.security.trust.names import is_certificate_name, revocation_name
from innet.security.trust.policy import Policy, PolicyDecision
from innet.security.trust.revocation import Revocation
from innet.security.trust.signed_data import parse_data
from innet.tlv_numbers import ContentType

Fetch: TypeAlias = Callable[[str, bool], Awaitable[bytes]]
"""Gets the packet of a name (or, when the second argument says so, of one that begins with it).

Raises an :class:`InnetError` when no answer arrives in time.
"""
Clock: TypeAlias = Callable[[], datetime]
"""The time, in UTC."""

MAX_DEPTH = 6
"""Certificates between a packet and its anchor, at most."""
_MAX_CACHED = 1024
_RENEWAL_PAUSE = timedelta(seconds=30)
"""Between requests for a successor of an expired certificate."""


@dataclass(frozen=True)
class Verdict:
    """The result of the validation of a packet.

    Attributes:
        is_valid: whether the packet is accepted.
        reason: a sentence for people.
        decision: the policy's, of the packet and its key; ``None`` if it was not consulted.
        chain: the certificates from the packet's key to the anchor, as far as they are known.
    """

    is_valid: bool
    reason: str
    decision: PolicyDecision | None = None
    chain: tuple[Certificate, ...] = ()


@dataclass
class _Believed:
    """A validated key locator.

    Attributes:
        chain: the certificate that it names, and those above it.
        asked: when the validator last requested it.
    """

    chain: tuple[Certificate, ...]
    asked: datetime


class PacketRefused(SecurityError):
    """The policy, a certificate or the signature of a packet is against it.

    Attributes:
        verdict: why.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class PolicyValidator:
    """Validates packets by a policy and its anchors. For one event loop.

    Missing certificates are fetched by name, once, and kept. Periods and revocations are checked
    each time, so that a certificate is rejected as soon as it expires or is revoked; in place of
    an expired one, another certificate of the same key is fetched.

    Example:
        >>> validator = PolicyValidator(                                         # doctest: +SKIP
        ...     Policy.load("store"), [anchor], fetch=fetch, now=lambda: datetime.now(UTC)
        ... )
        >>> (await validator.judge(packet)).reason                         # doctest: +SKIP
        'rule #object allows it: ...'
    """

    def __init__(
        self,
        policy: Policy,
        anchors: Sequence[Certificate],
        *,
        fetch: Fetch,
        now: Clock,
        revocations: Iterable[Revocation] = (),
        asks_for_revocations: bool = False,
    ) -> None:
        """
        Args:
            policy: which key may sign which names.
            anchors: trusted certificates; each must match an anchor's rule.
            fetch: gets certificates by their names.
            now: the clock for validity periods.
            revocations: known records.
            asks_for_revocations: fetch the records of each certificate when it is first accepted.
                No answer means "not revoked", and takes as long as the timeout of ``fetch``.

        Raises:
            SecurityError: there is no anchor, or the policy does not accept one.
        """
        if not anchors:
            raise SecurityError("a policy needs an anchor: give the certificate that is trusted")
        for anchor in anchors:
            _require_anchor(policy, anchor)
        self._policy = policy
        self._anchors = tuple(anchors)
        self._fetch = fetch
        self._now = now
        self._asks_for_revocations = asks_for_revocations
        self._believed: OrderedDict[Name, _Believed] = OrderedDict()
        self._fetching: dict[Name, asyncio.Task[Certificate]] = {}
        self._revocations: dict[Name, list[Revocation]] = {}
        for record in revocations:
            self.add_revocation(record)

    def add_revocation(self, record: Revocation) -> None:
        """Reject the record's certificate from now on, if the record's signer may revoke it."""
        self._revocations.setdefault(record.certificate, []).append(record)

    async def check(self, name: str, data: _core.ReceivedData) -> None:
        """Return when ``data``, requested as ``name``, is valid.

        Raises:
            PacketRefused: it is not; the message names the rule, certificate or signature.
        """
        verdict = await self.judge(data)
        if not verdict.is_valid:
            raise PacketRefused(verdict)

    async def judge(self, packet: bytes | _core.ReceivedData) -> Verdict:
        """Whether a Data packet may be trusted, and why."""
        try:
            data = parse_data(packet) if isinstance(packet, bytes) else packet
            verdict = await self._judge(data, ())
            why = self._why_over_packet(data, verdict) if verdict.is_valid else None
            return verdict if why is None else replace(verdict, is_valid=False, reason=why)
        except PacketRefused as refused:
            return refused.verdict
        except SecurityError as error:
            return Verdict(False, str(error))

    async def _judge(self, data: _core.ReceivedData, above: tuple[Name, ...]) -> Verdict:
        """``above``: the locators that have led to ``data``, which is a certificate then."""
        locator = data.key_name
        if locator is None:
            return Verdict(False, f"{data.name} is signed by no key, so its origin is unknown")
        if is_certificate_name(locator):  # a key that may not sign is not even fetched
            decision = self._policy.decide(data.name, locator)
            if not decision.is_allowed:
                return Verdict(False, decision.reason, decision)
        chain = await self._believe(locator, above)
        certificate = chain[0]
        decision = self._policy.decide(data.name, certificate.name)
        if not decision.is_allowed:
            return Verdict(False, decision.reason, decision, chain)
        if not certificate.public_key.has_signed(data):
            reason = f"{data.name} has a wrong signature: it is not {locator}'s"
            return Verdict(False, reason, decision, chain)
        if why := self._why_over(chain):
            return Verdict(False, f"{data.name} is not trusted: {why}", decision, chain)
        return Verdict(True, decision.reason, decision, chain)

    async def _believe(self, locator: Name, above: tuple[Name, ...]) -> tuple[Certificate, ...]:
        """The certificate that ``locator`` means and those above it, up to an anchor."""
        if (anchor := self._anchor(locator)) is not None:
            return (anchor,)
        believed = self._believed.get(locator)
        if believed is not None:
            self._believed.move_to_end(locator)
            if not self._may_be_renewed(believed):
                return believed.chain
        if locator in above or len(above) == MAX_DEPTH:
            raise SecurityError(
                f"the certificates above {above[0]} lead to no anchor within {MAX_DEPTH} steps"
            )
        try:
            if believed is not None and is_certificate_name(locator):
                certificate = believed.chain[0]  # there is no other; its issuer may have one
            else:
                certificate = await self._fetched_once(locator)
            chain = await self._follow(certificate, (*above, locator))
        except SecurityError:
            if believed is None:
                raise
            believed.asked = self._now()
            return believed.chain  # the caller reports which certificate has expired
        self._believed[locator] = _Believed(chain, self._now())
        if len(self._believed) > _MAX_CACHED:
            self._believed.popitem(last=False)
        return chain

    def _may_be_renewed(self, believed: _Believed) -> bool:
        """Whether to look for another certificate in place of one that has expired."""
        now = self._now()
        has_expired = any(now > certificate.validity.not_after for certificate in believed.chain)
        return has_expired and now - believed.asked >= _RENEWAL_PAUSE

    def _anchor(self, locator: Name) -> Certificate | None:
        """The anchor that ``locator`` names: a valid one, and of several the one valid longest."""
        now = self._now()
        meant = (known for known in self._anchors if locator.is_prefix_of(known.name))
        return max(
            meant,
            key=lambda known: (known.validity.covers(now), known.validity.not_after),
            default=None,
        )

    async def _follow(
        self, certificate: Certificate, above: tuple[Name, ...]
    ) -> tuple[Certificate, ...]:
        verdict = await self._judge(certificate.data, above)
        if not verdict.is_valid:
            reason = f"certificate {certificate.name} is not trusted: {verdict.reason}"
            chain = (certificate, *verdict.chain)
            raise PacketRefused(Verdict(False, reason, verdict.decision, chain))
        if self._asks_for_revocations:
            await self._ask_for_revocations(certificate)
        return certificate, *verdict.chain

    async def _fetched_once(self, locator: Name) -> Certificate:
        if (task := self._fetching.get(locator)) is None:
            task = asyncio.create_task(self._fetched(locator))
            self._fetching[locator] = task
            task.add_done_callback(lambda _: self._fetching.pop(locator, None))
        return await asyncio.shield(task)  # others may wait for it, too

    async def _fetched(self, locator: Name) -> Certificate:
        try:
            wire = await self._fetch(str(locator), not is_certificate_name(locator))
        except InnetError as error:
            raise SecurityError(f"cannot get the certificate {locator}: {error}") from error
        certificate = Certificate.parse(wire)
        if not locator.is_prefix_of(certificate.name):
            raise SecurityError(f"asked for the certificate {locator}, and got {certificate.name}")
        return certificate

    async def _ask_for_revocations(self, certificate: Certificate) -> None:
        async def ask(by_itself: bool) -> None:
            name = revocation_name(certificate.name, by_itself)
            with suppress(InnetError):
                record = Revocation.parse(await self._fetch(str(name), False))
                if record.certificate == certificate.name:
                    self.add_revocation(record)

        await asyncio.gather(ask(True), ask(False))

    def _why_over_packet(self, data: _core.ReceivedData, verdict: Verdict) -> str | None:
        """Why the packet itself is not valid now: an expired or revoked certificate, for instance.

        Raises:
            SecurityError: it is no certificate, and says that it is one.
        """
        if data.content_type == ContentType.KEY and is_certificate_name(data.name):
            return self._why_over((Certificate.from_data(data), *verdict.chain))
        if data.validity_period is not None:
            why = Validity.decode(data.validity_period).describe(self._now())
            return None if why is None else f"{data.name} {why}"
        return None

    def _why_over(self, chain: Sequence[Certificate]) -> str | None:
        """Why one of the certificates is not valid now; ``None`` when all are."""
        now = self._now()
        keys: list[PublicKey] = [certificate.public_key for certificate in chain]
        for certificate, issuer in zip(chain, [*keys[1:], keys[-1]], strict=True):
            if why := certificate.describe_period(now):
                return f"certificate {certificate.name} {why}"
            for record in self._revocations.get(certificate.name, ()):
                if record.revokes(certificate, issuer):
                    return f"certificate {certificate.name} is revoked: {record.reason}"
        return None


def _require_anchor(policy: Policy, anchor: Certificate) -> None:
    if not policy.is_anchor(anchor.name):
        raise SecurityError(
            f"{anchor.name} is not an anchor of the policy {policy.name}: its anchors are "
            f"{', '.join(sorted(policy.roots)) or 'none'}"
        )
    if not anchor.has_own_signature:
        raise SecurityError(f"the anchor {anchor.name} is not signed by its own key")
