"""A network on two machines of a real Ray cluster: the sum of its ranks, and its end."""

from __future__ import annotations

import hashlib
import uuid

import numpy as np
import pytest

from tests.cluster.on_ray.ray_cluster import QUICK, SUMS, RayCluster, processes_with, sums
from tests.cluster.several_machines.machines import machines, star

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")
pytest.importorskip("grpc", reason="Ray's client is not installed: pip install 'innet[ray]'")

# The launcher is on the machine of Ray's head, which is a machine of the network as well.
PAIR = star(["h0", "h1"], h0="machine: {rack: a}", h1="machine: {rack: b}", s0="machine: h0")


@pytest.mark.netns
@pytest.mark.slow
async def test_ranks_on_ray_have_the_exact_sum_and_leave_nothing() -> None:
    name = f"short-{uuid.uuid4().hex[:8]}"
    async with machines(2) as lab:
        ray = RayCluster(lab)
        await ray.start({"h1": "rack=b"}, "--num-cpus=1", "--labels", "rack=a")
        up = ray.up(PAIR, "--on", "ray", "--listen", "10.0.0.1", *QUICK, name=name)
        await up.says("is up")
        job = lab.innet("h0", "run", "--on", name, "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        first, second = (np.random.default_rng(n).standard_normal(300_000) for n in range(2))
        total = first.astype(np.float32) + second.astype(np.float32)
        assert sums(job.text) == [hashlib.sha256(total.tobytes()).hexdigest()] * 2
        down = lab.innet("h0", "down", name)
        assert await down.ends() == 0, down.text
        await up.ends()
        assert await ray.leftovers() == []
        assert processes_with(name) == []
        assert [found for found in lab.leftovers() if name in found] == []
