"""A group is left and joined again under the same name; its sequence numbers begin anew."""

import numpy as np
import pytest

import innet
from innet.errors import CollectiveError

for value in (1, 10, 100):
    with innet.init() as comm:
        total = comm.allreduce(np.full(1000, value, np.float32))
        assert (total == value * comm.size).all(), "a sum of the group before it"
        with pytest.raises(CollectiveError, match="already"):
            innet.init()
print("all right")
