"""Public names of the last version still work, with a warning."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("innet.launch", "innet.cluster.launch", "Session"),
        ("innet.masking", "innet.collectives.masked", "MaskedSum"),
        ("innet.simulation", "innet.lab.simulation", "Simulation"),
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
