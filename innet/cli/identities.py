"""Who a producer is: the key it signs with, and the certificates that show whose key that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from innet.cli.passphrases import passphrase_for

if TYPE_CHECKING:
    from innet.ndn.certificates import CertifiedSigner
    from innet.security.trust import Certificate


def stored_identity(
    key: str | None, passphrase_file: Path | None
) -> tuple[CertifiedSigner | None, list[Certificate]]:
    """Who signs, and the certificates that show who that is; nobody without a key.

    Raises:
        SecurityError: there is no such key or certificate, or it cannot be read.
    """
    if key is None:
        return None, []
    from innet.ndn.certificates import stored_signer
    from innet.security.trust import KeyStore
    from innet.security.trust.key_store import default_store

    store = KeyStore(default_store())
    passphrase = passphrase_for(key, passphrase_file) if store.find(key).is_encrypted else None
    signer, certificate = stored_signer(store, key, passphrase)
    return signer, [certificate]
