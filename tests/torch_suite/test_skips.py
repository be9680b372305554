"""The list of skipped tests is exact."""

from __future__ import annotations

import unittest

import pytest

from tests.torch_suite import test_distributed
from tests.torch_suite.forked_ranks import ForkedRanks
from tests.torch_suite.selection import SELECTED, load_skips

pytestmark = pytest.mark.torch

_TESTS = {name for name in dir(test_distributed.TestDistributed) if name.startswith("test_")}


def test_every_skipped_test_exists() -> None:
    assert set(load_skips()) <= _TESTS


def test_nothing_else_is_skipped_before_it_runs() -> None:
    tests = {name: getattr(test_distributed.TestDistributed, name) for name in _TESTS}
    marked = {name for name, test in tests.items() if getattr(test, "__unittest_skip__", False)}
    assert marked == set(load_skips())


def test_a_test_that_skips_itself_fails() -> None:
    class Skips(unittest.TestCase):
        def _check_return_codes(self, fn: object, elapsed_time: float) -> None:
            raise unittest.SkipTest("no reason here")

    class Forked(ForkedRanks, Skips):
        pass

    with pytest.raises(AssertionError, match=r"no reason here.*skips\.toml"):
        Forked()._check_return_codes(None, 0.0)


def test_what_is_selected_for_every_run_exists_and_runs() -> None:
    assert set(SELECTED) <= _TESTS - set(load_skips())
