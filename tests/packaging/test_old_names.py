"""Names and parameters of the last version still work, with a warning."""

import importlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from innet.security import KeyDealer
from innet.security.trust import Certificate, KeyStore, PrivateKey
from innet.security.trust.certificate import Issuer, Validity
from innet.security.trust.key_operations import issue, make_key
from innet.security.trust.names import name_of


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("innet.launch", "innet.cluster.launch", "Session"),
        ("innet.masking", "innet.collectives.masked", "MaskedSum"),
        ("innet.simulation", "innet.lab.simulation", "Simulation"),
        ("innet.kv.weights", "innet.kv.model", "weights_digest"),
        ("innet.kv.worker_network", "innet.kv.pool_member", "open_worker_network"),
    ],
)
def test_an_old_package_name_warns_and_gives_the_same_class(old: str, new: str, name: str) -> None:
    sys.modules.pop(old, None)

    with pytest.warns(DeprecationWarning, match=new):
        package = importlib.import_module(old)

    assert getattr(package, name) is getattr(importlib.import_module(new), name)


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("Decision", "PolicyDecision"),
        ("Refusal", "PacketRefused"),
        ("Validator", "PolicyValidator"),
    ],
)
def test_classes_of_trust_have_their_former_names_as_well(former: str, name: str) -> None:
    package = importlib.import_module("innet.security.trust")
    with pytest.warns(DeprecationWarning, match=name):
        old = getattr(package, former)
    assert old is getattr(package, name)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_a_certificate_takes_the_parts_of_its_issuer() -> None:
    private, certificate = PrivateKey.generate(), Certificate.issue
    name, validity = name_of("/alice/KEY/1"), Validity(NOW, NOW + DAY)
    old: Any = certificate
    with pytest.warns(DeprecationWarning, match="Certificate.issue are now .*issuer, version"):
        made = old(
            name,
            private.public,
            validity,
            version=7,
            issuer=private,
            issuer_locator=name,
            issuer_id="self",
        )
    issuer = Issuer(private, name, "self")
    assert made.name == certificate(name, private.public, validity, issuer, version=7).name


def test_keys_are_made_and_certified_for_a_time_from_now(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    old_make: Any = make_key
    old_issue: Any = issue
    with pytest.warns(DeprecationWarning, match="make_key are now store, identity, validity"):
        made = old_make(store, "/lab", NOW, DAY, key_id="1")
    assert made.validity == Validity(NOW, NOW + DAY)
    request = make_key(store, "/lab/alice", Validity(NOW, NOW + DAY))
    with pytest.warns(DeprecationWarning, match="issue are now store, request, issuer, validity"):
        issued = old_issue(
            store, request, store.find("/lab"), now=NOW, lifetime=DAY / 2, issuer_id="lab"
        )
    assert issued.validity == Validity(NOW, NOW + DAY / 2)


def test_a_dealer_takes_each_authority() -> None:
    old: Any = KeyDealer
    with pytest.warns(DeprecationWarning, match="KeyDealer.__init__ are now .*authorities"):
        dealer = old(["s0"], "gmac", operator="aa", authority="bb")
    assert (dealer.switches["s0"].operator, dealer.switches["s0"].authority) == ("aa", "bb")
