"""A message that comes after its receive has given up goes to the next one."""

from __future__ import annotations

import numpy as np
import pytest

from innet.errors import Cancelled, DeadlineExceeded
from innet.topology import load_topology
from tests.collectives.cluster import Cluster


def test_the_receive_after_a_cancelled_one_gets_its_message() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        sender, receiver = cluster.communicators
        late = receiver.irecv(np.zeros(1), 0, timeout_s=0.05)
        cancelled = receiver.irecv(np.zeros(1), 0)
        patient = receiver.irecv(np.zeros(1), 0)
        with pytest.raises(DeadlineExceeded):
            late.wait()
        cancelled.cancel()
        with pytest.raises(Cancelled):
            cancelled.wait()
        for number in range(4):
            sender.send(np.full(1, number, float), 1)
        assert patient.wait()[0] == 2  # it was the third to ask
        assert [receiver.recv(np.zeros(1), 0)[0] for _ in range(3)] == [0, 1, 3]
