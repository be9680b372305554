"""Attaches this process to the network of a standing pool, by the pool's address."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from innet.cluster.attachment import attach, detach
from innet.cluster.emulation.runs import find_run, names_of_runs
from innet.cluster.machines.token_file import TokenFile
from innet.errors import EmulationError, HostTaken, KVError
from innet.kv.process_share import ProcessShare

_JOB_BYTES: Final = 16


def network_at(address: str, token_file: Path | None = None) -> str:
    """The name of the network that has the pool.

    Args:
        address: that name, or ``HOST:PORT`` where the network's launcher listens.
        token_file: of the network; needed with ``HOST:PORT``.

    Raises:
        KVError: this machine has no part in such a network.
        SecurityError: the token file cannot be used.
    """
    if token_file is None and ":" in address:
        raise KVError(
            f"the address {address} does not say which network it is: give token_file=, the file "
            "that this machine joined it with, or the network's name as address="
        )
    network = address if token_file is None else TokenFile.load(token_file).network
    try:
        find_run(network)
    except EmulationError:
        joining = "ADDRESS:PORT --token-file FILE"
        if token_file is not None:
            joining = f"{address} --token-file {token_file}"
        raise KVError(
            f"this machine has no node of network {network} that user {os.geteuid()} runs; "
            f"networks here: {names_of_runs()}. Let it join as that user: innet node join "
            f"{joining}; on a machine of its own: innet kv serve FILE --name {network}"
        ) from None
    return network


def _attached(network: str) -> None:
    # Each process is a job of its own, also a rank of an engine.
    attach(network, job=secrets.token_hex(_JOB_BYTES), rank=0, size=1)


def _other_network(attached: str, wanted: str) -> HostTaken:
    return HostTaken(
        f"this process is attached to {attached}, and cannot be to {wanted} as well. Close its "
        "other pools first, or use another process"
    )


network_use: Final = ProcessShare[str, None](_attached, lambda _: detach(), _other_network)
"""The attachment of this process, which its members of pools share."""
os.register_at_fork(after_in_child=network_use.forget_after_fork)
