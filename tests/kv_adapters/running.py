"""Programs with engines in them, as workers of a real run."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from innet.cluster.launch import Session
from innet.topology import load_topology

_ROOT = Path(__file__).parents[2]


def require_vllm_for_processors() -> None:
    """Skip a module whose tests compute with vLLM, where vLLM cannot compute."""
    if not importlib.util.find_spec("vllm") or not importlib.util.find_spec("vllm._C"):
        pytest.skip(
            "vLLM compiled for processors is not installed here: `make kv-adapters` tests with it",
            allow_module_level=True,
        )


def require_sglang() -> None:
    """Skip a module that imports SGLang, where it is not installed."""
    if not importlib.util.find_spec("sglang"):
        pytest.skip(
            "SGLang is not installed here: `make kv-adapters` has it", allow_module_level=True
        )


def run_on_two_hosts(
    arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """What Python with these arguments prints on each of two hosts, by host."""
    lines: dict[str, list[str]] = defaultdict(list)

    async def launch() -> None:
        async with Session(
            load_topology("star:2"), output=lambda node, line: lines[node].append(line)
        ) as session:
            await session.run_workers(
                [sys.executable, *arguments],
                env={"PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
            )

    asyncio.run(launch())
    return dict(lines)


@contextmanager
def standing_pool(pool: str) -> Iterator[Path]:
    """A folder whose ``pool.yaml`` is served, as ``prod``; engines attach from there."""
    with (
        tempfile.TemporaryDirectory(prefix="innet-p-") as name,
        pytest.MonkeyPatch.context() as env,
    ):
        folder = Path(name)
        env.setenv("XDG_RUNTIME_DIR", name)
        (folder / "pool.yaml").write_text(pool)
        (folder / "acme.secret").touch(mode=0o600)
        (folder / "acme.secret").write_text("at least sixteen bytes")
        innet = [sys.executable, "-m", "innet"]
        subprocess.run([*innet, "kv", "serve", "pool.yaml", "--detach"], cwd=folder, check=True)
        yield folder
        subprocess.run([*innet, "down", "prod"], check=True)


def documented_command(engine: str, program: str = "innet run") -> str:
    """The first command of a program in an engine's section of docs/kv-engines.md."""
    page = (_ROOT / "docs" / "kv-engines.md").read_text()
    section = page[page.index(f"\n## {engine}\n") :]
    found = re.search(rf"\n\n(    {program} .*\n(?:    .*\n)*)", section)
    assert found is not None
    return found[1].strip()


def documented_lmcache_file(settings: Mapping[str, object], **options: str) -> str:
    """The configuration file of LMCache inside an engine, in docs/kv-engines.md.

    Args:
        settings: of LMCache, in addition.
        options: of the plugin, in place of the documented ones or in addition.
    """
    page = (_ROOT / "docs" / "kv-engines.md").read_text()
    found = re.search(r"\n((?:    .*\n)*    remote_storage_plugins: .*\n(?:    .*\n)*)", page)
    assert found is not None
    file = YAML(typ="safe").load(textwrap.dedent(found[1]))
    for option, value in options.items():
        file["extra_config"][f"remote_storage_plugin.innet.{option}"] = value
    return json.dumps({**file, **settings})  # which is YAML as well


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except (OSError, OverflowError):
                continue
            return int(first)
