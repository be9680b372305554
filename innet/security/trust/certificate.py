"""NDN certificates v2: a public key, whose it is, from when until when, signed by an issuer.

Source: NDN Certificate Format Version 2.0. The name is ``/<identity>/KEY/<id>/<issuer>/<version>``,
the Content an X.509 SubjectPublicKeyInfo, and SignatureInfo has a ValidityPeriod.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import UTC, datetime

from innet._native import _core
from innet.errors import SecurityError
from innet.names import Name
from innet.security.trust import tlv
from innet.security.trust.keys import PrivateKey, PublicKey
from innet.security.trust.names import (
    SELF,
    certificate_name,
    identity_of,
    is_certificate_name,
    key_of,
)
from innet.security.trust.signed_data import parse_data, sign_data
from innet.tlv_numbers import ContentType, TlvType

_TIME_FORMAT = "%Y%m%dT%H%M%S"
_LINE = 64


@dataclass(frozen=True)
class Validity:
    """From when until when a certificate counts, both inclusive, in UTC."""

    not_before: datetime
    not_after: datetime

    def __post_init__(self) -> None:
        """
        Raises:
            SecurityError: the period ends before it begins.
        """
        if self.not_after < self.not_before:
            raise SecurityError(
                f"a validity period from {self.not_before:%Y-%m-%d %H:%M:%S} to "
                f"{self.not_after:%Y-%m-%d %H:%M:%S} ends before it begins"
            )

    def covers(self, time: datetime) -> bool:
        """Whether a certificate counts at ``time``."""
        return self.not_before <= time <= self.not_after

    def describe(self, time: datetime) -> str | None:
        """Why a certificate does not count at ``time``; ``None`` when it does."""
        if time < self.not_before:
            return f"is not valid before {self.not_before:%Y-%m-%d %H:%M:%S} UTC"
        if time > self.not_after:
            return f"has expired on {self.not_after:%Y-%m-%d %H:%M:%S} UTC"
        return None

    def encode(self) -> bytes:
        """The ValidityPeriod element."""
        return tlv.encode(
            TlvType.VALIDITY_PERIOD,
            tlv.encode(TlvType.NOT_BEFORE, _encode_time(self.not_before)),
            tlv.encode(TlvType.NOT_AFTER, _encode_time(self.not_after)),
        )

    @classmethod
    def decode(cls, value: bytes) -> Validity:
        """The period that a ValidityPeriod's value is.

        Raises:
            SecurityError: it is malformed.
        """
        times = dict(tlv.decode(value))
        if not {TlvType.NOT_BEFORE, TlvType.NOT_AFTER} <= times.keys():
            raise SecurityError("a certificate's validity period has no beginning or no end")
        return cls(_decode_time(times[TlvType.NOT_BEFORE]), _decode_time(times[TlvType.NOT_AFTER]))


@dataclass(frozen=True)
class Issuer:
    """The signer of a certificate.

    Attributes:
        key: the private key.
        locator: name of its certificate, or of the key itself when it certifies itself.
        id: component of certificates' names that says how the issuer calls itself.
    """

    key: PrivateKey
    locator: Name
    id: str


@dataclass(frozen=True, eq=False)
class Certificate:
    """A certificate, not yet judged: :class:`innet.security.trust.PolicyValidator` does that.

    Attributes:
        data: the Data packet that it is.
        validity: from when until when it counts.
        public_key: the key that it certifies.

    Example:
        >>> key = PrivateKey.generate()
        >>> validity = Validity(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
        >>> made = Certificate.self_signed(name_of("/alice/KEY/1"), key, validity, version=7)
        >>> str(Certificate.parse(made.wire).name)
        '/alice/KEY/1/self/v=7'
    """

    data: _core.ReceivedData
    validity: Validity
    public_key: PublicKey = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.wire == other.wire

    def __hash__(self) -> int:
        return hash(self.wire)

    @classmethod
    def parse(cls, wire: bytes) -> Certificate:
        """The certificate that these bytes are.

        Raises:
            SecurityError: they are malformed; the message says why.
        """
        return cls.from_data(parse_data(wire))

    @classmethod
    def from_data(cls, data: _core.ReceivedData) -> Certificate:
        """The certificate that a packet is.

        Raises:
            SecurityError: it is malformed; the message says why.
        """
        if not is_certificate_name(data.name):
            raise SecurityError(
                f"{data.name} is not a certificate: its name would end with "
                "KEY/<id>/<issuer>/<version>"
            )
        if data.content_type != ContentType.KEY:
            raise SecurityError(f"{data.name} holds no key: its ContentType is another one")
        period = data.validity_period
        if period is None:
            raise SecurityError(f"certificate {data.name} has no validity period")
        return cls(data, Validity.decode(period), PublicKey.from_spki(data.content))

    @classmethod
    def issue(
        cls,
        key: Name,
        public_key: PublicKey,
        validity: Validity,
        issuer: Issuer,
        *,
        version: int,
    ) -> Certificate:
        """Certify that ``public_key`` is called ``key``.

        Args:
            key: the name of the key, ``/<identity>/KEY/<id>``.
            public_key: the key.
            validity: from when until when.
            issuer: who signs.
            version: of the certificate: the time of issue, in milliseconds since 1970.
        """
        data = sign_data(
            certificate_name(key, issuer.id, version),
            public_key.spki,
            issuer.key,
            issuer.locator,
            content_type=ContentType.KEY,
            info=validity.encode(),
        )
        return cls.from_data(data)

    @classmethod
    def self_signed(
        cls, key: Name, private: PrivateKey, validity: Validity, *, version: int
    ) -> Certificate:
        """A self-signed certificate: an anchor, or a request to an issuer."""
        issuer = Issuer(private, key, SELF)
        return cls.issue(key, private.public, validity, issuer, version=version)

    @classmethod
    def from_text(cls, text: bytes) -> Certificate:
        """The certificate in a file: base64 as ndnsec and python-ndn write it, or the bare packet.

        Raises:
            SecurityError: it is neither.
        """
        return cls.parse(packet_of(text, TlvType.DATA, "certificate"))

    def to_text(self) -> str:
        """Base64 in lines, as ndnsec and python-ndn read it."""
        return text_of(self.wire)

    @property
    def wire(self) -> bytes:
        """The packet."""
        return self.data.wire

    @property
    def name(self) -> Name:
        """``/<identity>/KEY/<id>/<issuer>/<version>``."""
        return self.data.name

    @property
    def key(self) -> Name:
        """The key's name: ``/<identity>/KEY/<id>``."""
        return key_of(self.name)

    @property
    def identity(self) -> Name:
        """The identity that owns the key."""
        return identity_of(self.key)

    @property
    def is_self_signed(self) -> bool:
        """Whether it names its own key as its issuer's."""
        locator = self.data.key_name
        return locator is not None and self.key.is_prefix_of(locator)

    @property
    def has_own_signature(self) -> bool:
        """Whether its own key has signed it, truly."""
        return self.public_key.has_signed(self.data)

    def describe_period(self, time: datetime) -> str | None:
        """Why it does not count at ``time``; ``None`` when it does."""
        return self.validity.describe(time)


def text_of(wire: bytes) -> str:
    """Base64 in lines of 64 characters."""
    text = base64.b64encode(wire).decode()
    return "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE)) + "\n"


def packet_of(text: bytes, number: int, what: str) -> bytes:
    """The element of type ``number`` in a file, in base64 or bare.

    Raises:
        SecurityError: it has none.
    """
    if text[:1] == bytes((number,)):
        return text
    try:
        wire = base64.b64decode(b"".join(text.split()), validate=True)
    except binascii.Error as error:
        raise SecurityError(f"this is no {what}: neither a packet nor base64 of one") from error
    if wire[:1] != bytes((number,)):
        raise SecurityError(f"this is no {what}, but base64 of something else")
    return wire


def _encode_time(time: datetime) -> bytes:
    return time.astimezone(UTC).strftime(_TIME_FORMAT).encode()


def _decode_time(value: bytes) -> datetime:
    try:
        return datetime.strptime(value.decode("ascii"), _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError as error:
        raise SecurityError(f"{value!r} is not a time of a validity period") from error
