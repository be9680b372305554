"""Reflexive names: how whoever is called asks the caller back, who needs no prefix for it.

A trigger Interest ends with a random component of type 59. As long as it is pending, each
forwarder on its way sends Interests for names that begin with that component back to where the
trigger came from (draft-irtf-icnrg-reflexive-forwarding; docs/protocol.md).
"""

from __future__ import annotations

import secrets

from innet.names import Name, as_name

REFLEXIVE = 59
_PREFIX_BYTES = 16


def new_reflexive_name() -> Name:
    """A name that nobody else has, and nobody can guess: one random component."""
    return as_name("/").append(REFLEXIVE, secrets.token_bytes(_PREFIX_BYTES))


def trigger_name(function: Name, reflexive: Name) -> Name:
    """What is asked of ``function`` by a caller who can be asked back under ``reflexive``."""
    return function.append(REFLEXIVE, reflexive[0][1])


def reflexive_name_of(trigger: Name) -> Name | None:
    """The name under which the sender of ``trigger`` can be asked back; ``None`` if it cannot."""
    component, value = trigger[-1]
    return as_name("/").append(REFLEXIVE, value) if component == REFLEXIVE else None
