"""What is imported before it is used: innet answers at once where little of it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "aiomqtt",
    "asyncio",
    "cryptography",
    "matplotlib",
    "networkx",
    "numpy",
    "psutil",
    "pydantic",
    "rich",
    "ruamel",
    "scapy",
    "torch",
    "typer",
    "zmq",
}
SHOW = "import sys; print(*(name for name in {names!r} if name in sys.modules))"
LIBRARIES_OF_THE_COMMAND_LINE = {"asyncio", "pydantic", "rich", "typer"}
"""Typer itself reads arguments with pydantic."""


def heavy_after(code: str) -> set[str]:
    """Which heavy modules a new process has loaded when it has run ``code``."""
    show = SHOW.format(names=sorted(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], check=True, capture_output=True, text=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_completion_shows_names_that_are_not_imported_yet():
    show = "import innet; print(*(set(innet.__all__) - set(dir(innet))))"
    done = subprocess.run([sys.executable, "-c", show], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["innet", "innet.worker", "innet.errors"])
def test_a_package_loads_no_library_before_it_needs_one(module: str) -> None:
    assert heavy_after(f"import {module}") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_only_the_libraries_of_the_command_line(arguments: list[str]) -> None:
    code = f"from innet.cli.main import app; app({arguments!r}, standalone_mode=False)"
    assert heavy_after(code) <= LIBRARIES_OF_THE_COMMAND_LINE


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_list_of_commands_and_the_version_need_no_typer(argument: str) -> None:
    code = f"import sys; sys.argv[1:] = [{argument!r}]; from innet.cli.entry import main; main()"
    assert heavy_after(code) <= {"rich"}


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("innet.cluster.launch", {"matplotlib", "networkx", "psutil", "scapy", "torch"}),
        ("innet.cluster.control.__main__", {"networkx", "numpy", "psutil", "rich", "ruamel"}),
    ],
)
def test_processes_of_every_network_load_no_unused_library(module: str, unused: set[str]) -> None:
    loaded = heavy_after(f"import {module}")
    assert "asyncio" in loaded
    assert loaded.isdisjoint(unused)


FOR_A_TOPOLOGY = {"innet.topology.document", "innet.topology.located_yaml", "networkx", "ruamel"}
FOR_A_LAUNCHER = {
    "innet.cluster.control.controller",
    "innet.security.key_dealer",
    "innet.security.trust.key_store",
}
FOR_RARE_CALLS = {
    "innet.collectives.keyed",
    "innet.collectives.masked",
    "innet.collectives.one_sided",
    "innet.collectives.partial",
}
FOR_OTHERS = {"matplotlib", "ml_dtypes", "psutil", "rich", "scapy", "torch", "typer"}


UNUSED_BY_A_WORKER = FOR_A_TOPOLOGY | FOR_A_LAUNCHER | FOR_OTHERS | {"innet.collectives", "numpy"}
UNUSED_BY_A_SUM = FOR_A_TOPOLOGY | FOR_A_LAUNCHER | FOR_RARE_CALLS | FOR_OTHERS
RANK = f"""
import sys
from innet.worker import current_worker
current_worker()
print('loaded', *({UNUSED_BY_A_WORKER!r} & set(sys.modules)))
import innet, numpy as np
innet.init().allreduce(np.ones(4, np.float32))
print('loaded', *({UNUSED_BY_A_SUM!r} & set(sys.modules)))
"""


def test_a_rank_loads_no_unused_module() -> None:
    """Each rank of a job pays for what it imports, on the processors that train."""
    run = ["innet", "run", "star:2", "--", sys.executable, "-c", RANK]
    done = subprocess.run([sys.executable, "-m", *run], check=True, capture_output=True, text=True)
    said = [line.split("loaded") for line in done.stdout.splitlines() if "loaded" in line]
    assert [loaded.split() for _, loaded in said] == [[]] * 4


def test_lazy_names_of_a_package_resolve() -> None:
    code = (
        "import innet, innet.worker\n"
        "assert innet.__version__\n"
        "for package in (innet, innet.worker):\n"
        "    for name in package.__all__: getattr(package, name)"
    )
    assert "numpy" in heavy_after(code)


def test_nodes_do_not_load_the_compiler_of_policies() -> None:
    program = "import sys, innet.node.__main__, innet.worker; print('lark' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


def test_a_worker_starts_without_networkx() -> None:
    code = "import sys, innet; innet.init; print('networkx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_switch_starts_without_the_libraries_of_plans_and_topologies() -> None:
    code = (
        "import sys, innet.node.__main__\n"
        "print(sorted({'networkx', 'numpy', 'innet.plans', 'innet.topology'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
