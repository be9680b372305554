"""SGLang's documented storage and servers, at a standing pool."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kv_adapters.running import require_sglang

require_sglang()

from tests.kv_adapters.running import documented_command, standing_pool
from tests.kv_adapters.sglang.servers import (
    HOSTS,
    LAUNCH,
    LOADABLE,
    Answer,
    Server,
    ServersAtAPool,
)

PROGRAM = Path(__file__).with_name("pages_at_a_pool.py")
ROOT = Path(__file__).parents[3]
POOL = """
name: prod
topology: star:2
pool:
  tenants:
    acme: {secret: acme.secret, memory: 16MiB}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder of a pool that is up."""
    with standing_pool(POOL) as folder:
        yield folder


def documented_options() -> dict[str, object]:
    """The JSON of the documented command."""
    found = re.search(r"'(\{.*\})'", documented_command("SGLang", LAUNCH), re.DOTALL)
    assert found is not None
    options: dict[str, object] = json.loads(found[1])
    return options


def test_the_documented_storage_loads_on_one_host_what_another_kept(folder: Path) -> None:
    options = documented_options()
    # The model is a name alone here: its weights have to be vouched for.
    options["innet"] = {**options["innet"], "weights": "none"}  # type: ignore[dict-item]

    def run(host: str, role: str) -> str:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), role, json.dumps(options)],
            cwd=folder, env={**os.environ, "INNET_HOST": host, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    assert run("h0", "keep") == "[True, True]"
    assert run("h1", "load") == "[True, False, True]"


def loads(server: Server, step: int) -> Answer:
    """A server's answer to a prompt, all of whose pages it loads from the pool."""
    answer = server.answer(step)
    while answer.loaded < LOADABLE:
        server.drop_caches()
        answer = server.answer(step)
    return answer


@pytest.mark.timeout(900)
def test_a_server_loads_what_one_that_was_killed_has_computed(folder: Path) -> None:
    with closing(ServersAtAPool(folder)) as servers:
        for host in range(HOSTS):
            servers.serve(host)
        one, other = (servers.wait_until_ready(host) for host in range(HOSTS))
        computed, loaded = one.answer(7), loads(one, 7)
        servers.kill(0)
        answer = other.answer(7)
        assert (answer.cached, answer.loaded) == (LOADABLE, LOADABLE)
        assert answer.tokens == computed.tokens
        assert answer.logprobs == loaded.logprobs

        computed, loaded = other.answer(11), loads(other, 11)
        servers.serve(0)
        answer = servers.wait_until_ready(0).answer(11)
        assert (answer.cached, answer.loaded) == (LOADABLE, LOADABLE)
        assert answer.tokens == computed.tokens
        assert answer.logprobs == loaded.logprobs
