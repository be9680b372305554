"""How ``mpirun`` reaches the hosts of an emulated network.

``python -m innet.lab.compare.openmpi_launch ADDRESS`` runs in each host's network namespace before.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pyroute2 import IPRoute

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.runs import find_run

INTERFACE = "stable0"
_OTHER_END = "stable1"


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


def main() -> None:
    """Give this network namespace an interface with the address of the command line alone.

    Open MPI takes only the first address of each interface, and a host's stable address is the
    second one of its loopback interface. One end of a veth pair gets it.
    """
    (address,) = sys.argv[1:]
    with IPRoute() as netlink:
        if netlink.link_lookup(ifname=INTERFACE):
            return  # made when Open MPI was started here before
        netlink.link("add", kind="veth", ifname=INTERFACE, peer={"ifname": _OTHER_END})
        for name in (INTERFACE, _OTHER_END):
            netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")
        (index,) = netlink.link_lookup(ifname=INTERFACE)
        netlink.addr("add", index=index, address=address, prefixlen=32)


if __name__ == "__main__":
    main()
