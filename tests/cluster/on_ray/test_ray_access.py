"""A Ray cluster that authenticates by a token and uses TLS."""

from __future__ import annotations

import asyncio
import re
import uuid
from dataclasses import dataclass, field

import pytest

from tests.cluster.on_ray.certificates import certificates
from tests.cluster.on_ray.ray_cluster import CLIENT_SERVER, QUICK, SUMS, RayCluster, sums
from tests.cluster.several_machines.machines import Machines, machines, star

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

pytestmark = [pytest.mark.netns, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]
ONE = star(["h1"], h1="machine: {rack: a}")


@dataclass
class Outcome:
    """The output of programs, by the fault in their environment."""

    sums: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


class Access:
    """Launchers with different environments, on one cluster."""

    def __init__(self, lab: Machines, ray: RayCluster) -> None:
        self.outcome = Outcome()
        self._lab = lab
        self._ray = ray

    async def runs_a_job(self, on: str) -> None:
        """Launch a network on the cluster, run a job there, and take it down."""
        name = f"access-{uuid.uuid4().hex[:8]}"
        up = self._ray.up(ONE, "--on", on, *QUICK, name=name)
        await up.says("is up")
        job = self._lab.innet("h0", "run", "--on", name, "--", "python", SUMS)
        await job.ends()
        self.outcome.sums[on] = job.text
        await self._lab.innet("h0", "down", name).ends()
        await up.ends()
        self.outcome.left += await self._ray.leftovers()

    async def is_refused(self, what: str, on: str, **environment: str) -> None:
        """Keep what a launcher says that cannot use the cluster."""
        name = f"refused-{uuid.uuid4().hex[:8]}"
        up = self._ray.up(ONE, "--on", on, name=name, **environment)
        assert await up.ends() != 0, up.text
        self.outcome.refusals[what] = up.lines[-1]


async def all_of_it() -> Outcome:
    async with machines(2) as lab:
        own, other = (certificates(lab.folder / name) for name in ("own", "other"))
        token, wrong = lab.folder / "token-of-ray", lab.folder / "wrong"
        token.write_text("a" * 64)
        wrong.write_text("b" * 64)
        none = str(lab.folder / "none")
        with_token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        ray = RayCluster(lab, RAY_USE_TLS="1", **own, **with_token)
        await ray.start({"h1": "rack=a"})
        access = Access(lab, ray)
        for on in ("ray", CLIENT_SERVER):
            await access.runs_a_job(on)
        await asyncio.gather(
            access.is_refused("no TLS", "ray", RAY_USE_TLS="0"),
            access.is_refused("no TLS, client", CLIENT_SERVER, RAY_USE_TLS="0"),
            access.is_refused("other authority", CLIENT_SERVER, **other),
            access.is_refused("wrong token", "ray", RAY_AUTH_TOKEN_PATH=str(wrong)),
            access.is_refused("wrong token, client", CLIENT_SERVER, RAY_AUTH_TOKEN_PATH=str(wrong)),
            access.is_refused("no token", "ray", RAY_AUTH_MODE="disabled"),
            access.is_refused("empty token", "ray", RAY_AUTH_TOKEN_PATH=none),
        )
        return access.outcome


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return asyncio.run(all_of_it())


@pytest.mark.parametrize("on", ["ray", CLIENT_SERVER])
def test_a_network_starts_with_the_clusters_token_and_certificates(outcome, on) -> None:
    assert len(sums(outcome.sums[on])) == 1, outcome.sums[on]
    assert outcome.left == []


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no TLS", "at 10.0.0.1:6379 uses TLS, .* Set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT"),
        ("no TLS, client", "at 10.0.0.1:10001 uses TLS, or .* Set RAY_USE_TLS=1"),
        ("other authority", "a certificate that is not valid here: .* Set RAY_TLS_CA_CERT"),
        ("wrong token", "refuses this process: its authentication token is missing or .* Give it"),
        ("wrong token, client", "refuses this process: its authentication token is missing"),
        ("no token", "refuses this process: its authentication token is missing or incorrect"),
        ("empty token", "file cannot be opened or is empty.* RAY_AUTH_TOKEN_PATH"),
    ],
)
def test_a_launcher_without_them_is_refused_with_what_is_missing(outcome, what, said) -> None:
    assert re.search(said, outcome.refusals[what]), outcome.refusals[what]
