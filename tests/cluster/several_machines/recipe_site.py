"""Machines with the commands of launchers: ``ssh``, ``srun`` and ``scontrol``.

They run programs in the machines' namespaces, where the machines know each other by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.several_machines.machines import Machines, Program, machines
from tests.docs.command_lines import ROOT

RECIPES = ROOT / "docs" / "recipes"
PAGE = ROOT / "docs" / "cluster-recipes.md"

_ON = """#!/bin/sh
# on MACHINE COMMAND...: runs a command as a shell of that machine does
machine=$1
shift
export HOME={folder}/$machine XDG_RUNTIME_DIR={folder}/$machine
exec nsenter --net="$(cat {folder}/$machine.namespace)" unshare --mount \\
    sh -c 'mount --bind {folder}/hosts /etc/hosts && exec "$@"' sh "$@"
"""
_HOLD = "echo /proc/$$/ns/net; exec sleep infinity"
_SSH = """#!/bin/sh
[ "$1" = -n ] && shift && exec </dev/null
machine=$1
shift
exec on "$machine" setsid --wait sh -c "cd && $*"  # as sshd does
"""
_SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames h[0-2]" ] && printf 'h0\\nh1\\nh2\\n'
"""
# Every task of a job has the same home: it is on a file system that all nodes share.
_SRUN = """#!/bin/sh
while [ "${{1#--}}" != "$1" ]; do shift; done
for id in 0 1 2; do
    on h$id env HOME={folder}/shared SLURM_NODEID=$id SLURM_JOB_ID=17 "$@" &
    tasks="$tasks $!"
done
status=0
for task in $tasks; do wait "$task" || status=$?; done
exit $status
"""


class Site:
    """Machines ``h0``, ``h1``, … with names, homes and launchers' commands."""

    def __init__(self, lab: Machines) -> None:
        self.lab = lab
        self.folder = lab.folder
        self._bin = self.folder / "bin"

    async def open(self, count: int, names: Mapping[str, str]) -> None:
        """Write the commands, and the names of the machines; ``names`` are further ones."""
        self._bin.mkdir()
        (self.folder / "shared").mkdir()
        for name, text in {"on": _ON, "ssh": _SSH, "scontrol": _SCONTROL, "srun": _SRUN}.items():
            (self._bin / name).write_text(text.format(folder=self.folder))
            (self._bin / name).chmod(0o755)
        lines = ["127.0.0.1 localhost"]
        for number in range(count):
            machine = f"h{number}"
            lines.append(f"10.0.0.{number + 1} {machine} {names.get(machine, '')}")
            # No process of a run: Machines.leftovers() looks for this variable.
            holder = ("env", "-u", "XDG_RUNTIME_DIR", "sh", "-c", _HOLD)
            shell = self.lab.start(machine, *holder)
            path = await shell.says("/proc/")
            (self.folder / f"{machine}.namespace").write_text(path)
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")

    def start(self, machine: str, *argv: str, **variables: str) -> Program:
        """Start a command in a shell of a machine."""
        path = os.pathsep.join([str(self._bin), str(Path(sys.executable).parent)])
        environment = [f"{name}={value}" for name, value in variables.items()]
        return self.lab.start(
            machine,
            *("env", f"PATH={path}{os.pathsep}{os.environ['PATH']}", *environment),
            *("on", machine, *argv),
        )

    async def innet(self, machine: str, *arguments: str) -> Program:
        """Run a command of innet to its end."""
        program = self.start(machine, "innet", *arguments)
        assert await program.ends() == 0, program.text
        return program


@asynccontextmanager
async def site(count: int, names: Mapping[str, str] | None = None) -> AsyncIterator[Site]:
    """So many machines with the commands of launchers."""
    async with machines(count) as lab:
        there = Site(lab)
        await there.open(count, names or {})
        try:
            yield there
        finally:
            if (there.folder / "h0" / "innet").exists():  # a launcher in the background
                await there.start("h0", "innet", "down", "--all").ends()


def shown(pattern: str) -> list[str]:
    """The commands of the page that contain a text."""
    lines = [line.strip() for line in PAGE.read_text().splitlines() if line.startswith("    ")]
    return [line for line in lines if pattern in line]
