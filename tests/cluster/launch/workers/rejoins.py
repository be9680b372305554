"""One worker dies; the others go on without it, and with its successor later."""

import os
import signal

import numpy as np

import innet
from innet.errors import RankFailed

ones = np.ones(50_000, np.float32)
if os.environ["INNET_RESTARTS"] == "0":
    everybody = innet.init(timeout_s=60)
    nodes = everybody.nodes
    try:
        for step in range(1000):
            if (everybody.rank, step) == (2, 5):
                os.kill(os.getpid(), signal.SIGKILL)
            assert (everybody.allreduce(ones) == 4).all()
    except RankFailed as error:
        lost, cause = error.rank, str(error)
    assert lost is not None
    dead = nodes[lost]
    print(f"lost {dead} {'SIGKILL' in cause}")
    everybody.close()
    few = innet.init(nodes=[node for node in nodes if node != dead], timeout_s=60)
    print(f"few {int(few.allreduce(ones)[0])}")
    few.close()
again = innet.init(group="again", timeout_s=60)
print(f"again {int(again.allreduce(ones)[0])} {innet.present_nodes() == again.nodes}")
again.barrier()
