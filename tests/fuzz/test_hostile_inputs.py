"""A few hostile files, messages and certificates, of the many that `make fuzz` tries."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.fuzz.documents import readers
from tests.fuzz.files import PARSERS, finding, inputs

SEED = 3


@pytest.mark.parametrize("name", PARSERS)
def test_hostile_files_are_read_or_refused(name: str) -> None:
    parse, pattern = PARSERS[name]
    for text in islice(inputs(pattern, SEED), 40):
        assert finding(parse, text) is None, text


@pytest.mark.parametrize("name", readers())
def test_hostile_documents_are_read_or_refused(name: str) -> None:
    reader = readers()[name]
    following = reader.inputs(SEED)
    for document in [following() for _ in range(300)]:
        assert finding(reader.read, document) is None, (SEED, document)


def test_what_goes_wrong_is_a_finding() -> None:
    found = finding(lambda text: text.index("x"), "abc")
    assert found is not None
    assert "ValueError" in found
