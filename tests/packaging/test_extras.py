"""A message that asks for a library names the extra that installs it."""

from __future__ import annotations

import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from innet import extras
from innet.errors import InnetError
from innet.topology import load_topology
from innet.topology.show import draw


@pytest.mark.parametrize("extra", sorted(set(extras.EXTRAS.values())))
def test_the_extra_of_a_message_exists(extra: str) -> None:
    assert extra in (metadata("innet").get_all("Provides-Extra") or ())


def test_a_picture_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InnetError, match=r"pip install 'innet\[plots\]'"):
        draw(load_topology("star8"), tmp_path / "star8.svg")
