"""The tests that are not run, each with its reason: ``skips.toml``."""

from __future__ import annotations

import tomllib
import unittest
from collections.abc import Callable
from pathlib import Path

_FILE = Path(__file__).with_name("skips.toml")


def load_skips() -> dict[str, str]:
    """The reason by the name of the test.

    Raises:
        ValueError: a test stands there twice, or a reason is empty.
    """
    reasons: dict[str, str] = {}
    for entry in tomllib.loads(_FILE.read_text())["skip"]:
        if not entry["reason"].strip():
            raise ValueError(f"{_FILE.name}: an entry has no reason")
        for name in entry["tests"]:
            if name in reasons:
                raise ValueError(f"{_FILE.name}: {name} stands there twice")
            reasons[name] = entry["reason"]
    return reasons


def skipped(test: Callable[..., None], reason: str) -> Callable[..., None]:
    """``test``, never run."""
    return unittest.skip(reason)(test)
