"""Messages between a launcher and its driver of Ray."""

from __future__ import annotations

from pathlib import Path

from innet.cluster.on_ray.placement import ClusterView, Reservation
from innet.validation_messages import StrictModel


class Start(StrictModel):
    """The machines to start.

    Attributes:
        network: its name.
        address: of the launcher, at which they join.
        token_file: that they need for it, on the driver's machine.
        keys_file: the key files of the machines, by machine; the same for each driver.
        restarts: how often Ray may start each again.
    """

    network: str
    reservation: Reservation
    address: str
    token_file: Path
    keys_file: Path
    restarts: int


class Order(StrictModel):
    """The launcher's request to a driver.

    Attributes:
        cluster: ``auto``, or ``ray://HOST:PORT``.
        start: ``None``: report the cluster's machines, and end.
    """

    cluster: str
    start: Start | None = None


class Notice(StrictModel):
    """A message of the driver.

    Attributes:
        line: for the user, from the agent of ``machine`` if there is one.
        error: why ``machine`` cannot come any more; without one, why the driver ends.
        view: what the cluster consists of.
    """

    line: str = ""
    machine: str | None = None
    error: str = ""
    view: ClusterView | None = None
