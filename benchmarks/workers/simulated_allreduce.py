"""One allreduce in a simulation; prints what it took as JSON. See ../sim_scale.py."""

from __future__ import annotations

import json
import resource
import sys
import time

import innet
from innet.collectives import Communicator
from innet.plans import bound_s
from innet.settings import Settings
from innet.topology import load_topology


def main() -> None:
    """``simulated_allreduce.py TOPOLOGY SIZE_BYTES VIRTUAL_SCALE ALGORITHM``."""
    name, size_bytes, virtual_scale = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    began_s = time.perf_counter()
    # Large packets, as few as the wire format allows, and room in the queues for the first windows
    # of all flows: what is measured is the simulator, on a network without congestion.
    topology = load_topology(name).with_overrides(
        rate_bps=10e9, delay_s=1e-6, mtu_bytes=65000, queue_bytes=64 << 20
    )
    # Each host has a flow to each of 64 roots: a few segments in each are enough to fill its link.
    settings = Settings().with_assignments(["transport.initial_window=1", "transport.max_window=4"])
    with innet.Simulation(topology, settings=settings, virtual_scale=virtual_scale) as sim:
        group = sim.group(algorithm=sys.argv[4])
        ready_s = time.perf_counter()

        async def program(comm: Communicator) -> None:
            array = sim.array(size_bytes)
            await comm.iallreduce(array, out=array)

        set_up_user_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        sim.run(*(program(comm) for comm in group))
        ended_s = time.perf_counter()
        user_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime - set_up_user_s
        events = sim.counters()["packets"]
        bound = bound_s(group[0].plan_for(size_bytes), topology, size_bytes)
        figures = {
            "topology": name,
            "hosts": len(topology.hosts),
            "size_bytes": size_bytes,
            "algorithm": sys.argv[4],
            "virtual_scale": virtual_scale,
            "wall_s": ended_s - began_s,
            "cpu_s": time.process_time(),
            "run_user_s": user_s,
            "set_up_s": ready_s - began_s,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "simulated_s": sim.now_s,
            "bound_s": bound,
            "ratio_to_bound": sim.now_s / bound,
            "events": events,
            "events_per_s": events / (ended_s - ready_s),
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
