"""The keys that a command signs with or trusts, and their passphrases.

A passphrase comes from a file or the terminal, never from the command line, which others see.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.errors import FileError, SecurityError

if TYPE_CHECKING:
    from innet.ndn import Client
    from innet.ndn.certificates import CertifiedSigner
    from innet.security.trust import Certificate, Policy, PolicyValidator, Revocation

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File with the passphrase; by default the terminal asks for it"
    ),
]


def passphrase_for(what: str, file: Path | None, *, is_new: bool = False) -> str:
    """The passphrase for ``what``: the first line of ``file``, or what the user types."""
    if file is not None:
        return _from_file(file)
    if not sys.stdin.isatty():
        raise SecurityError(
            f"{what} needs a passphrase, and there is no terminal to type it at: "
            "--passphrase-file FILE"
        )
    typed: str = typer.prompt(
        f"Passphrase for {what}", hide_input=True, confirmation_prompt=is_new, err=True
    )
    return typed


def _from_file(path: Path) -> str:
    try:
        line = path.read_text().partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"cannot read the passphrase in {path}: {error}") from error
    if not line:
        raise SecurityError(f"the first line of {path} is empty; expected the passphrase")
    return line


def stored_identity(
    key: str | None, passphrase_file: Path | None
) -> tuple[CertifiedSigner | None, list[Certificate]]:
    """The signer with the stored ``key``, and its certificates; ``None`` and none without a key."""
    if key is None:
        return None, []
    from innet.ndn.certificates import stored_signer
    from innet.security.trust import KeyStore
    from innet.security.trust.key_store import default_store

    store = KeyStore(default_store())
    passphrase = passphrase_for(key, passphrase_file) if store.find(key).is_encrypted else None
    signer, certificate = stored_signer(store, key, passphrase)
    return signer, [certificate]


@dataclass(frozen=True)
class Trust:
    """A policy, its anchor, and the revocations in the user's key store."""

    policy: Policy
    anchor: Certificate
    revocations: tuple[Revocation, ...] = ()

    def validator(self, client: Client) -> PolicyValidator:
        """Verifies what ``client`` receives, and fetches certificates through it."""
        from innet.ndn.certificates import policy_validator

        return policy_validator(client, self.policy, [self.anchor], self.revocations)


def trust_of(anchor: str | None, policy: str) -> Trust | None:
    """The trust that ``--anchor`` and ``--policy`` select; ``None`` without an anchor."""
    if anchor is None:
        return None
    from innet.security.trust import KeyStore, Policy
    from innet.security.trust.key_operations import load_certificate
    from innet.security.trust.key_store import default_store

    file, store = Path(anchor), KeyStore(default_store())
    if not file.is_file() and not anchor.startswith("/"):
        raise FileError(
            "there is no such file; --anchor takes the file of a certificate, or the name of one "
            "of innet keys, such as /lab",
            path=file,
        )
    certificate = load_certificate(file) if file.is_file() else store.find_certificate(anchor)
    return Trust(Policy.load(policy), certificate, tuple(store.revocations()))
