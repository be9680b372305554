"""What ``torchrun`` finds in a worker's environment, so that it needs no options of its own.

It takes the default of each option from a variable with the option's name behind ``PET_``; what is
typed goes before.
"""

from __future__ import annotations

from collections.abc import Mapping


def torchrun_options(
    environment: Mapping[str, str], rank: int, address: str, run_id: str
) -> dict[str, str]:
    """One worker on each host, which meet where rank 0 runs.

    Args:
        environment: has WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
        rank: of the host.
        address: where the other hosts reach this one.
        run_id: tells the rendezvous from others.
    """
    master, port = environment["MASTER_ADDR"], environment["MASTER_PORT"]
    return {
        "PET_NNODES": environment["WORLD_SIZE"],
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": port,
        "PET_LOCAL_ADDR": address,
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{master}:{port}",
        "PET_RDZV_ID": run_id,
        # By name, it would take the namespace of rank 0 for another machine.
        "PET_RDZV_CONF": f"is_host={int(rank == 0)}",
    }
