"""Sends that wait for room: more than a receiver may leave unreceived."""

from __future__ import annotations

import numpy as np
import pytest

from innet.collectives.point_to_point import MESSAGES_IN_FLIGHT
from innet.errors import RankFailed
from innet.topology import load_topology
from tests.collectives.cluster import Cluster


def test_waiting_sends_fail_at_once_when_a_rank_fails() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        comm = cluster.communicators[0]
        works = [comm.isend(np.zeros(1), 1) for _ in range(2 * MESSAGES_IN_FLIGHT + 2)]
        cluster.fail(comm, "rank 1 (h1) was killed", 1)
        for work in works[MESSAGES_IN_FLIGHT:]:
            with pytest.raises(RankFailed, match="was killed"):
                work.wait(30)
