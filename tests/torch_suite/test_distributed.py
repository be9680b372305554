"""PyTorch's tests of ``torch.distributed`` and DistributedDataParallel pass over innet."""

from __future__ import annotations

import pytest

from tests.torch_suite import forked_ranks, upstream
from tests.torch_suite.selection import load_skips, skipped

_UPSTREAM = upstream.load()
_TESTS = upstream.tests_of(_UPSTREAM)
_SKIPS = load_skips()

forked_ranks.preload(__name__)

pytestmark = [pytest.mark.torch]


class TestDistributed(
    forked_ranks.ForkedRanks,
    _UPSTREAM.TestDistBackend,
    _UPSTREAM.DistributedTest._DistTestBase,
):
    """All of ``DistributedTest``, less what ``skips.toml`` gives a reason for."""

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


for _name, _test in _TESTS.items():
    setattr(TestDistributed, _name, skipped(_test, _SKIPS[_name]) if _name in _SKIPS else _test)
