"""How Open MPI is started across network namespaces: ``mpirun`` with a launch agent of ours.

``mpirun`` starts a daemon on every other host by a program that it takes for ``ssh``. Ours enters
the host's network namespace, and a UTS namespace with the host's name, for Open MPI tells hosts
apart by their names. The daemons die with ``mpirun``, and that with the launcher. The mpirun(1)
parameters are those of Open MPI 4.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.runs import find_run
from innet.lab.compare.named_interface import INTERFACE

_AGENT = """#!/bin/sh
# Called by mpirun as: agent HOST COMMAND...
host=$1
shift
case "$host" in
{cases}
*) echo "no namespace for $host" >&2; exit 1;;
esac
mkdir -p {directory}/$host
export TMPDIR={directory}/$host
exec setpriv --pdeathsig KILL nsenter --net="$namespace" unshare --uts \\
    sh -c 'hostname "$0" && eval exec "$@"' "$host" "$@"
"""


def write_launch_agent(network: Network) -> Path:
    """Write the agent for a network's hosts into the run's directory; returns its path."""
    directory = network.run_dir / "openmpi"
    directory.mkdir(exist_ok=True)
    namespaces = find_run(network.run_id).namespaces
    cases = "\n".join(
        f"{host}) namespace={shlex.quote(namespaces[host])};;" for host in network.topology.hosts
    )
    agent = directory / "launch-agent"
    agent.write_text(_AGENT.format(cases=cases, directory=shlex.quote(str(directory))))
    agent.chmod(0o700)
    return agent


def mpirun_arguments(hosts: Sequence[str], agent: Path) -> list[str]:
    """The ``mpirun`` command before the program's own; rank r runs on host r."""
    parameters = {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",
        "btl": "tcp,self",
        "pml": "ob1",
        "oob_tcp_if_include": INTERFACE,
        "btl_tcp_if_include": INTERFACE,
        # All hosts share the machine's few cores: a rank that waits must let the others run.
        "mpi_yield_when_idle": "1",
    }
    options = [word for key, value in parameters.items() for word in ("--mca", key, value)]
    permission = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    placement = ["--leave-session-attached", "--bind-to", "none", "--host", ",".join(hosts)]
    return ["mpirun", *permission, *placement, *options]
