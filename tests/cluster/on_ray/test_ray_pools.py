"""A standing pool on machines that Ray starts, and engines there that attach by its name."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.cluster.on_ray.ray_cluster import RayCluster, processes_with
from tests.cluster.several_machines.machines import QUICK, machines, star
from tests.cluster.several_machines.test_standing_pool import engine, write_pool

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

pytestmark = [pytest.mark.netns, pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(900)]
RACKS = star(["h1", "h2"], h1="machine: {rack: b}", h2="machine: {rack: a}")


async def test_engines_on_machines_of_ray_share_blocks() -> None:
    name = f"pool-{uuid.uuid4().hex[:8]}"  # machines of tests share their processes
    async with machines(3) as lab:
        ray = RayCluster(lab, RAY_raylet_start_wait_time_s="120")
        await ray.start({"h1": "rack=b", "h2": "rack=a"})
        serve = ("-m", "innet", "kv", "serve", write_pool(lab, RACKS), "--name", name)
        serving = ray.python(*serve, "--on", "ray", *QUICK)
        await serving.says("the blocks of acme on 2 hosts")
        writer = engine(lab, "h1", "put 1", "put 2", network=name)
        assert await writer.ends() == 0, writer.text
        assert writer.lines == ["at h1.1", "put 1", "put 1"]
        reader = engine(lab, "h2", "get 1", "get 2", "get 3", network=name)
        assert await reader.ends() == 0, reader.text
        assert reader.lines == ["at h2.1", "found", "found", "none"]
        await ray.kill_raylet("h2")
        await serving.says("what ran there counts as ended")
        alone = engine(lab, "h1", "put 4", "get 4", network=name)
        assert await alone.ends() == 0, alone.text
        assert alone.lines == ["at h1.1", "put 1", "found"]
        await lab.innet("h0", "down", name).ends()
        await serving.ends()
        while processes_with(name) or processes_with("innet-join-"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        of_ray = str(lab.folder / "r")
        left = [each for each in lab.leftovers() if each.startswith(str(lab.folder))]
        assert [each for each in left if not each.startswith(of_ray)] == []
        assert await ray.leftovers() == []
