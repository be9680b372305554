"""A few hostile files, of the many that `make fuzz` tries."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.fuzz.files import PARSERS, finding, inputs


@pytest.mark.parametrize("name", PARSERS)
def test_hostile_files_are_read_or_refused(name: str) -> None:
    parse, pattern = PARSERS[name]
    for text in islice(inputs(pattern, seed=3), 40):
        assert finding(parse, text) is None, text


def test_what_goes_wrong_is_a_finding() -> None:
    found = finding(lambda text: text.index("x"), "abc")
    assert found is not None
    assert "ValueError" in found
