"""Sentences about refused values name what was found."""

from __future__ import annotations

import pytest

from innet.validation_messages import found


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "nothing"),
        ({"a": 1}, "a mapping"),
        ([1, 2], "a list"),
        ((1, 2), "a list"),
        ("text", "'text'"),
        (b"bytes", "b'bytes'"),
        (7, "7"),
    ],
)
def test_what_was_found_is_named_as_a_person_would(value: object, named: str) -> None:
    assert found(value) == named
