"""One browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.observe.web.browser import close_browser


@pytest.fixture(scope="module", autouse=True)
def _ends_the_browser() -> Iterator[None]:
    yield
    close_browser()
