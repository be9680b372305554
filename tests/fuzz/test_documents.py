"""A few hostile messages, certificates and safe bags, of the many that a fuzzing run tries."""

from __future__ import annotations

import pytest

from tests.fuzz.documents import Reader, finding, readers

SEED = 3
INPUTS = 300


@pytest.mark.parametrize("name", ["control", "certificates", "safe bags"])
def test_hostile_documents_are_read_or_refused(name: str) -> None:
    reader = readers()[name]
    following = reader.inputs(SEED)
    for document in [following() for _ in range(INPUTS)]:
        assert finding(reader, document) is None, (SEED, document)


def test_what_goes_wrong_is_a_finding() -> None:
    found = finding(Reader(bytes.decode, lambda _seed: bytes), b"\xff")
    assert found is not None
    assert "UnicodeDecodeError" in found
