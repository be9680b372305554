"""A running node for the tests of what collects its completions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from innet._native import _core
from innet.security import NodeKeys, deal_keys


@pytest.fixture
def keys() -> NodeKeys:
    return deal_keys(["h0"], "gmac")["h0"]


@pytest.fixture
def node(keys: NodeKeys) -> Iterator[_core.Node]:
    settings = _core.NodeSettings()
    settings.own_name = "/n/h0"
    made = _core.Node(settings, keys.signing_key(), keys.trusted_keys())
    made.start()
    made.register_objects(_core.Name("/j/obj"), "0")
    yield made
    made.stop("the test is over")
