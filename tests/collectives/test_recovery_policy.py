"""The policy for the death of a worker is one that there is."""

from __future__ import annotations

import pytest

from innet.cluster.launch import RestartPolicy
from innet.collectives.group_member import checked_policy
from innet.errors import CollectiveError


def test_an_unknown_policy_is_refused_with_the_known_ones():
    assert checked_policy("shrink") == "shrink"
    with pytest.raises(CollectiveError, match=r"no policy 'ignore'.*abort, shrink, wait"):
        checked_policy("ignore")


def test_the_policy_determines_whether_the_launcher_restarts_workers():
    assert RestartPolicy().restarts == 0
    assert not RestartPolicy().goes_on_without
    assert RestartPolicy(on_worker_death="wait").restarts > 0
    assert RestartPolicy(0, on_worker_death="wait").restarts == 0
    assert not RestartPolicy(on_worker_death="wait").goes_on_without
    assert RestartPolicy(on_worker_death="shrink").goes_on_without
