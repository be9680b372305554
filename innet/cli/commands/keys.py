"""``innet keys``: manages keys and NDN certificates on this machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from innet.cli import options
from innet.cli.key_choice import PassphraseFile, passphrase_for
from innet.cli.text_output import say, write_text

if TYPE_CHECKING:
    from innet.security.trust.certificate import Certificate, Validity
    from innet.security.trust.key_store import KeyStore, StoredKey

app = typer.Typer()

Store = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The key store; [cyan]$INNET_KEY_STORE[/] or the user's own by default"
    ),
]
KeyName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="An identity ([cyan]/alice[/]), a key ([cyan]/alice/KEY/1[/]) or a certificate",
    ),
]

_MAX_DAYS = 36500


@app.command(
    "new",
    epilog=options.examples(
        "innet keys new /alice",
        "innet keys new /site --days 3650 --encrypt",
        "innet keys new /alice --type ecdsa --id laptop",
    ),
)
def new(
    identity: Annotated[str, typer.Argument(metavar="IDENTITY", help="Name of the key's owner")],
    kind: Annotated[
        Literal["ed25519", "ecdsa"], typer.Option("--type", help="Type of the key")
    ] = "ed25519",
    key_id: Annotated[
        str | None,
        typer.Option("--id", metavar="TEXT", help="Identifier of the key; random by default"),
    ] = None,
    days: Annotated[
        float, typer.Option(min=0, max=_MAX_DAYS, help="Validity of its self-signed certificate")
    ] = 365,
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Encrypt with a passphrase")] = False,
    passphrase_file: PassphraseFile = None,
    store: Store = None,
) -> None:
    """Make a key with a self-signed certificate: an anchor, or a request to an issuer."""
    from innet.security.trust.key_operations import make_key

    passphrase = None
    if encrypt or passphrase_file is not None:
        passphrase = passphrase_for(f"the new key of {identity}", passphrase_file, is_new=True)
    certificate = make_key(
        _store(store),
        identity,
        _validity(days),
        kind=kind,
        key_id=key_id,
        passphrase=passphrase,
    )
    say(f"key          {certificate.key}")
    say(f"certificate  {certificate.name}")


@app.command("list", epilog=options.examples("innet keys list", "innet keys list --json"))
def list_keys(store: Store = None, as_json: options.AsJson = False) -> None:
    """List the keys of the store, their certificates and revocations."""
    import json

    opened = _store(store)
    keys = opened.keys()
    revoked = {record.certificate: record.reason for record in opened.revocations()}
    now = _now()
    documents = [
        {
            "key": str(key.name),
            "private": key.has_private,
            "encrypted": key.is_encrypted,
            "certificates": [_document(c, revoked.get(c.name), now) for c in key.certificates],
        }
        for key in keys
    ]
    if as_json:
        say(json.dumps(documents, indent=2))
        return
    if not keys:
        say(f"no keys in {opened.directory}; `innet keys new /NAME` makes one")
    for key in keys:
        kind = key.certificates[0].public_key.kind if key.certificates else "key"
        lock = " (encrypted)" if key.is_encrypted else ""
        say(f"{key.name}  {kind}{lock if key.has_private else ' (public only)'}")
        for certificate in key.certificates:
            document = _document(certificate, revoked.get(certificate.name), now)
            say(f"    {document['certificate']}  {document['state']}")


@app.command(
    "issue",
    epilog=options.examples(
        "innet keys issue /site/alice --issuer /site --days 30",
        "innet keys issue --request alice.cert --issuer /site -o alice-by-site.cert",
    ),
)
def issue(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A key of the store to certify")
    ] = None,
    issuer: Annotated[
        str, typer.Option(metavar="NAME", help="The issuer's key, in the store")
    ] = "",
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Self-signed certificate of a key that is not in the store"
        ),
    ] = None,
    days: Annotated[
        float, typer.Option(min=0, max=_MAX_DAYS, help="Validity of the certificate")
    ] = 30,
    issuer_id: Annotated[
        str, typer.Option("--issuer-id", metavar="TEXT", help="Issuer component of its name")
    ] = "NA",
    output: options.OutputFile = None,
    passphrase_file: PassphraseFile = None,
    store: Store = None,
) -> None:
    """Certify a key with a key of the store; prints the certificate."""
    from innet.security.trust import key_operations

    if not issuer:
        raise typer.BadParameter("name the issuer's key, in the store", param_hint="'--issuer'")
    if (name is None) == (request is None):
        raise typer.BadParameter("give a key's NAME, or --request FILE", param_hint="'NAME'")
    opened = _store(store)
    wanted = (
        opened.find_certificate(name or "")
        if request is None
        else key_operations.load_certificate(request)
    )
    key = opened.find(issuer)
    certificate = key_operations.issue(
        opened,
        wanted,
        key,
        _validity(days),
        issuer_id=issuer_id,
        passphrase=_own_passphrase(key, passphrase_file),
    )
    say(f"issued {certificate.name}", err=True)
    write_text(certificate.to_text(), output)


@app.command(
    "revoke",
    epilog=options.examples(
        "innet keys revoke /site/alice --reason 'laptop stolen'",
        "innet keys revoke /site/alice --by /site -o alice.revoked",
    ),
)
def revoke(
    name: KeyName,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The issuer's key; by default the certificate's own"),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Free text")] = "not said",
    output: options.OutputFile = None,
    passphrase_file: PassphraseFile = None,
    store: Store = None,
) -> None:
    """Revoke a certificate; prints the record, to be published under its name."""
    from innet.security.trust import key_operations

    opened = _store(store)
    certificate = opened.find_certificate(name)
    key = opened.find(by or str(certificate.key))
    passphrase = _own_passphrase(key, passphrase_file)
    record = key_operations.revoke(opened, certificate, key, _now(), reason, passphrase)
    say(f"revoked {certificate.name}", err=True)
    say(f"publish it as {record.data.name}", err=True)
    write_text(key_operations.record_text(record), output)


@app.command(
    "export",
    epilog=options.examples(
        "innet keys export /site -o site.cert",
        "innet keys export /alice --private -o alice.safebag",
    ),
)
def export(
    name: KeyName,
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="Include the private key, encrypted: a SafeBag, as ndnsec exports"
        ),
    ] = False,
    output: options.OutputFile = None,
    passphrase_file: PassphraseFile = None,
    store: Store = None,
) -> None:
    """Print a certificate in base64, for ndnsec and python-ndn."""
    from innet.security.trust import key_operations

    opened = _store(store)
    certificate = opened.find_certificate(name)
    if not private:
        write_text(certificate.to_text(), output)
        return
    key = opened.find(str(certificate.key))
    own = _own_passphrase(key, passphrase_file)
    passphrase = own or passphrase_for("the exported file", passphrase_file, is_new=True)
    write_text(
        key_operations.export_private(opened, certificate, passphrase, own).to_text(), output
    )


@app.command(
    "import",
    epilog=options.examples(
        "innet keys import site.cert",
        "innet keys import alice.safebag --encrypt",
        "ndnsec export /alice > alice.safebag; innet keys import alice.safebag",
    ),
)
def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A certificate, a SafeBag or a revocation")
    ],
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Keep the key encrypted with the SafeBag's passphrase")
    ] = False,
    passphrase_file: PassphraseFile = None,
    store: Store = None,
) -> None:
    """Import a certificate, a SafeBag (of ndnsec or innet) or a revocation into the store."""
    from innet.security.trust import key_operations
    from innet.security.trust.key_operations import SafeBag
    from innet.security.trust.revocation import Revocation

    text = key_operations.read_file(file)
    passphrase = None
    if key_operations.is_safe_bag(text):
        passphrase = passphrase_for(f"the key in {file}", passphrase_file)
    own = passphrase if encrypt else None
    found = key_operations.import_text(_store(store), text, passphrase, own)
    if isinstance(found, SafeBag):
        say(f"key          {found.certificate.key}")
        say(f"certificate  {found.certificate.name}")
    elif isinstance(found, Revocation):
        say(f"revoked      {found.certificate}: {found.reason}")
    else:
        say(f"certificate  {found.name}")


def _store(directory: Path | None) -> KeyStore:
    from innet.security.trust.key_store import KeyStore, default_store

    return KeyStore(directory or default_store())


def _own_passphrase(key: StoredKey, file: Path | None) -> str | None:
    """The passphrase of a stored key; ``None`` when it is not encrypted."""

    return passphrase_for(str(key.name), file) if key.is_encrypted else None


def _document(certificate: Certificate, revoked: str | None, now: datetime) -> dict[str, str]:

    state = f"revoked: {revoked}" if revoked is not None else certificate.describe_period(now)
    period = certificate.validity
    return {
        "certificate": str(certificate.name),
        "issuer": str(certificate.data.key_name or "nobody"),
        "not_before": period.not_before.isoformat(),
        "not_after": period.not_after.isoformat(),
        "state": state or f"valid until {period.not_after:%Y-%m-%d %H:%M:%S} UTC",
    }


def _now() -> datetime:
    return datetime.now(UTC)


def _validity(days: float) -> Validity:
    from innet.security.trust.certificate import Validity

    now = _now()
    return Validity(now, now + timedelta(days=days))
