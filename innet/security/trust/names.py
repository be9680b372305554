"""Names of keys, certificates and revocations: the conventions of NDN certificates v2.

A name is a tuple of its components, each with type and length.

    key          /<identity>/KEY/<id>
    certificate  /<identity>/KEY/<id>/<issuer>/<version>
    revocation   /<identity>/REVOKE/<id>/<issuer>/<version>/<who revoked>
"""

from __future__ import annotations

from typing import TypeAlias

from innet._native import _core
from innet.errors import SecurityError
from innet.security.trust.tlv import encode
from innet.tlv_numbers import ComponentType, TlvType

Name: TypeAlias = tuple[bytes, ...]
"""The components of a name, each with its type and length."""

KEY = encode(ComponentType.GENERIC, b"KEY")
REVOKE = encode(ComponentType.GENERIC, b"REVOKE")
SELF = "self"
"""IssuerId of a certificate whose key has signed it."""

_IMPLICIT_DIGEST = bytes([ComponentType.IMPLICIT_SHA256_DIGEST])


def name_of(uri: str) -> Name:
    """The name of a URI.

    Raises:
        SecurityError: the URI is malformed.

    >>> uri_of(name_of("/alice/KEY/1/self/v=7"))
    '/alice/KEY/1/self/v=7'
    """
    text = uri.removeprefix("ndn:")
    if not text.startswith("/"):
        raise SecurityError(f"{uri!r} is no name: names begin with a slash, such as /alice/KEY/1")
    try:
        parts = components_of(_core.Name(text))
    except ValueError as error:
        raise SecurityError(f"{uri!r} is no name of NDN: {error}") from error
    if not parts:
        raise SecurityError(f"{uri!r} is the empty name; give at least one component")
    return parts


def uri_of(name: Name) -> str:
    """How people write a name."""
    return str(native_name(name))


def components_of(name: _core.Name) -> Name:
    """The components of a name of the compiled module."""
    return tuple(encode(kind, value) for kind, value in _core.read_elements(name.value()))


def native_name(name: Name) -> _core.Name:
    """The same name as the compiled module has it."""
    return _core.Name.from_value(b"".join(name))


def encode_name(name: Name) -> bytes:
    """The Name element."""
    return encode(TlvType.NAME, *name)


def without_digest(name: Name) -> Name:
    """``name`` without an implicit digest at its end."""
    return name[:-1] if name and name[-1][:1] == _IMPLICIT_DIGEST else name


def is_key_name(name: Name) -> bool:
    """Whether this is ``/<identity>/KEY/<id>``."""
    return len(name) >= 2 and name[-2] == KEY


def is_certificate_name(name: Name) -> bool:
    """Whether this is ``/<identity>/KEY/<id>/<issuer>/<version>``."""
    return len(name) >= 4 and name[-4] == KEY


def key_of(certificate: Name) -> Name:
    """The key that a certificate of that name is of."""
    return certificate[:-2]


def identity_of(key: Name) -> Name:
    """Whose key of that name it is."""
    return key[:-2]


def new_key_name(identity: Name, key_id: str) -> Name:
    """``/<identity>/KEY/<id>``.

    Raises:
        SecurityError: the identity has the component that keys have.
    """
    if KEY in identity:
        raise SecurityError(
            f"{uri_of(identity)} has a component KEY, so it names a key and not an identity; "
            "give the components before KEY"
        )
    return (*identity, KEY, encode(ComponentType.GENERIC, key_id.encode()))


def certificate_name(key: Name, issuer_id: str, version: int) -> Name:
    """The name of a certificate for ``key``."""
    return (
        *key,
        encode(ComponentType.GENERIC, issuer_id.encode()),
        _core.encode_number_element(ComponentType.VERSION, version),
    )


def revocation_name(certificate: Name, by_itself: bool) -> Name:
    """The name of the record that revokes a certificate: by its own key, or by its issuer's."""
    publisher = encode(ComponentType.GENERIC, b"self" if by_itself else b"issuer")
    return (*certificate[:-4], REVOKE, *certificate[-3:], publisher)
