"""SGLang's factory makes the documented storage, at a standing pool."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("sglang") is None:
    pytest.skip("SGLang is not installed here: `make kv-adapters` has it", allow_module_level=True)

from tests.kv_adapters.running import documented_command, standing_pool

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
    found = re.search(
        r"'(\{.*\})'", documented_command("SGLang", "python -m sglang.launch_server"), re.DOTALL
    )
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
