"""Names of keys, certificates and revocations: the conventions of NDN certificates v2.

key          /<identity>/KEY/<id>
certificate  /<identity>/KEY/<id>/<issuer>/<version>
revocation   /<identity>/REVOKE/<id>/<issuer>/<version>/<who revoked>
"""

from __future__ import annotations

from innet.errors import SecurityError
from innet.names import Name, with_component, with_version
from innet.tlv_numbers import ComponentType

KEY = (ComponentType.GENERIC, b"KEY")
_REVOKE = (ComponentType.GENERIC, b"REVOKE")
SELF = "self"
"""IssuerId of a certificate whose key has signed it."""
_BELOW_KEY = 2
"""Components of a key's name from KEY on, and of a certificate's name behind that of its key."""


def name_of(uri: str) -> Name:
    """The name of a URI.

    Raises:
        SecurityError: the URI is malformed, or the empty name.

    >>> str(name_of("/alice/KEY/1/self/v=7"))
    '/alice/KEY/1/self/v=7'
    """
    text = uri.removeprefix("ndn:")
    if not text.startswith("/"):
        raise SecurityError(f"invalid name {uri!r}: a name begins with a slash, as /alice/KEY/1")
    try:
        name = Name(text)
    except ValueError as error:
        raise SecurityError(f"invalid name {uri!r}: {error}") from error
    if not len(name):
        raise SecurityError(f"{uri!r} is the empty name; give at least one component")
    return name


def is_key_name(name: Name) -> bool:
    """Whether this is ``/<identity>/KEY/<id>``."""
    return len(name) >= _BELOW_KEY and name[-_BELOW_KEY] == KEY


def is_certificate_name(name: Name) -> bool:
    """Whether this is ``/<identity>/KEY/<id>/<issuer>/<version>``."""
    return len(name) >= 2 * _BELOW_KEY and is_key_name(key_of(name))


def is_revocation_name(name: Name) -> bool:
    """Whether this is ``/<identity>/REVOKE/<id>/<issuer>/<version>/<who revoked>``."""
    return len(name) > 2 * _BELOW_KEY and name[-2 * _BELOW_KEY - 1] == _REVOKE


def key_of(certificate: Name) -> Name:
    """The name of the key that a certificate of that name certifies."""
    return certificate.prefix(len(certificate) - _BELOW_KEY)


def identity_of(key: Name) -> Name:
    """The identity that owns the key of that name."""
    return key.prefix(len(key) - _BELOW_KEY)


def new_key_name(identity: Name, key_id: str) -> Name:
    """``/<identity>/KEY/<id>``.

    Raises:
        SecurityError: the identity has the component that keys have.
    """
    if any(identity[index] == KEY for index in range(len(identity))):
        raise SecurityError(
            f"{identity} has a component KEY, so it names a key and not an identity; give the "
            "components before KEY"
        )
    return with_component(identity.append(*KEY), key_id.encode())


def certificate_name(key: Name, issuer_id: str, version: int) -> Name:
    """The name of a certificate for ``key``."""
    return with_version(with_component(key, issuer_id.encode()), version)


def revocation_name(certificate: Name, by_itself: bool) -> Name:
    """The name of the record that revokes a certificate: by its own key, or by its issuer's."""
    renamed = identity_of(key_of(certificate)).append(*_REVOKE)
    renamed = _with_last(renamed, certificate, 3)
    return with_component(renamed, b"self" if by_itself else b"issuer")


def revoked_certificate(revocation: Name) -> Name:
    """The name of the certificate that a record of that name revokes."""
    certificate = revocation.parent()
    return _with_last(identity_of(key_of(certificate)).append(*KEY), certificate, 3)


def _with_last(name: Name, source: Name, count: int) -> Name:
    """``name`` with the last ``count`` components of ``source`` behind it."""
    for index in range(-count, 0):
        name = name.append(*source[index])
    return name
