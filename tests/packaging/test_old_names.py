"""Public names of the last version still work, with a warning."""

import importlib
import re
import sys

import pytest

from tests.docs.command_lines import ROOT

PACKAGES = {
    "innet.launch": ("innet.cluster.launch", "Session"),
    "innet.masking": ("innet.collectives.masked", "MaskedSum"),
    "innet.parameter_server": ("innet.torch_backend.parameter_server", "Server"),
    "innet.simulation": ("innet.lab.simulation", "Simulation"),
}
"""Each old package, the new one, and a name that both have."""


@pytest.mark.parametrize("old", PACKAGES)
def test_an_old_package_name_warns_and_gives_the_same_class(old: str) -> None:
    new, name = PACKAGES[old]
    if "torch" in new:
        pytest.importorskip("torch")
    sys.modules.pop(old, None)

    with pytest.warns(DeprecationWarning, match=new):
        package = importlib.import_module(old)

    assert getattr(package, name) is getattr(importlib.import_module(new), name)


def test_the_changelog_lists_every_old_package_and_its_new_name() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    _, _, deprecated = changelog.partition("### Deprecated\n")
    (entry,) = re.findall(r"\* The packages (.*?)\n\*", deprecated, re.DOTALL)
    old, new = (re.findall(r"`(innet[.\w]+)`", part) for part in entry.split("they are"))
    assert dict(zip(old, new, strict=True)) == {old: new for old, (new, _) in PACKAGES.items()}


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("Decision", "PolicyDecision"),
        ("Refusal", "PacketRefused"),
        ("Validator", "PolicyValidator"),
    ],
)
def test_classes_of_trust_keep_their_former_names(former: str, name: str) -> None:
    package = importlib.import_module("innet.security.trust")
    with pytest.warns(DeprecationWarning, match=name):
        old = getattr(package, former)
    assert old is getattr(package, name)
