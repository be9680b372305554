"""Four ranks over a star, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torch_backend.ranks import Ranks, opened_ranks


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with opened_ranks() as made:
        yield made
