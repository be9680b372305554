"""Package names of the last version still work, with a warning."""

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
