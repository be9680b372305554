from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.nodes import Route, two_switches
from tests.interop.run import two_switches_of_a_run

_ADDRESSES = {
    "unix": "unix://{folder}/{node}.ndn",
    "tcp": "tcp4://127.0.0.1:0",
    "udp": "udp4://127.0.0.1:0",
}


@pytest.fixture(params=list(_ADDRESSES))
async def route(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Route]:
    """Producers at one switch, consumers at another, over each kind of socket; or in a run."""
    if request.param == "run":
        async with two_switches_of_a_run() as route:
            yield route
        return
    near, far = (
        _ADDRESSES[request.param].format(folder=tmp_path, node=node) for node in ("s0", "s1")
    )
    with two_switches(near, far) as route:
        yield route
