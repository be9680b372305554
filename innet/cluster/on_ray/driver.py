"""The program that talks to Ray for a launcher: ``python -m innet.cluster.on_ray.driver``.

It is a separate process because Ray ends a process whose cluster it loses, and takes over its
signals. Ray ends all actors of this process when it ends for any reason.

Its argument is an :class:`Order`. It prints each :class:`Notice` as a line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import ray
from ray._private.grpc_utils import init_grpc_channel
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray.core.generated.ray_client_pb2 import ClusterInfoRequest, ClusterInfoType
from ray.core.generated.ray_client_pb2_grpc import RayletDriverStub
from ray.exceptions import ActorDiedError, ActorUnavailableError, AuthenticationError, RayError
from ray.experimental.internal_kv import _internal_kv_exists
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from innet.cluster.machines.addresses import Address, address_towards
from innet.cluster.machines.messages import own_version
from innet.cluster.machines.token_file import TokenFile
from innet.cluster.on_ray.actor import Joining, MachineActor
from innet.cluster.on_ray.handshake import require_server
from innet.cluster.on_ray.head_watch import HeadWatch
from innet.cluster.on_ray.orders import Notice, Order, Start
from innet.cluster.on_ray.placement import (
    ClusterView,
    RayNode,
    Reservation,
    no_room,
    require_nodes,
)
from innet.errors import EXIT_REFUSED, EmulationError

_END_S: Final = 10.0
_RETRY_S: Final = 0.5
_TRIES: Final = 3
_PROBE_S: Final = 5.0
_CLIENT: Final = "ray://"
_CLIENT_PORT: Final = 10001
_NOT_ADMITTED: Final = "its authentication token is missing or incorrect"
_LATE_SERVER: Final = "Initialization failure from server"
"""Message of a client server when the process that it starts for a client is late."""


def address_of(cluster: str) -> str:
    """The address of a cluster's GCS, or ``ray://HOST:PORT`` of its client server.

    Raises:
        EmulationError: there is no cluster.
    """
    if cluster == "auto" and os.environ.get("RAY_ADDRESS", "").startswith(_CLIENT):
        cluster = os.environ["RAY_ADDRESS"]
    if cluster.startswith(_CLIENT):
        server = Address.parsed(cluster.removeprefix(_CLIENT), default_port=_CLIENT_PORT)
        return f"{_CLIENT}{server}"
    try:
        return str(canonicalize_bootstrap_address_or_die(cluster))
    except (ConnectionError, ValueError) as error:
        raise EmulationError(connect_problem(cluster, error)) from error


def connect(address: str) -> None:
    """Connect to a Ray cluster that runs.

    Raises:
        EmulationError: it does not, or does not accept this process.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    server = Address.parsed(address.removeprefix(_CLIENT))
    for attempt in range(_TRIES):
        try:
            require_server(server, named=address.startswith(_CLIENT))
            ray.init(address, log_to_driver=False, logging_level="warning")
        except EmulationError:
            raise
        except Exception as error:  # of many kinds
            if attempt == _TRIES - 1 or _LATE_SERVER not in str(error):
                raise EmulationError(connect_problem(address, error)) from error
        else:
            return


def connect_problem(address: str, error: BaseException) -> str:
    """Why a cluster cannot be used, and what helps."""
    said = _first_words(error)
    refusal = _refusal(error) or (address.startswith(_CLIENT) and _refusal_of_server(address))
    if refusal:
        return (
            f"the Ray cluster at {address} refuses this process: {refusal}. Give it the cluster's "
            "token: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH or RAY_AUTH_TOKEN in the "
            "environment"
        )
    if "ersion mismatch" in str(error):
        return f"the Ray cluster has another version: {error}. Install the same here"
    if address.startswith(_CLIENT):
        remedy = (
            f"Check that its client server listens at {address.removeprefix(_CLIENT)} (ray start "
            "--head --ray-client-server-port)"
        )
    else:
        remedy = (
            "Run `innet up` on a node of the cluster (ray start --address), or name its client "
            f"server: --on {_CLIENT}HOST:{_CLIENT_PORT}"
        )
    return f"there is no Ray cluster at {address}: {said}. {remedy}"


def _first_words(error: BaseException) -> str:
    """The first sentence of an error."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
    said = f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") else lines[0]
    return said.rstrip(".")


def _refusal(error: BaseException | None) -> str:
    """Why a cluster does not accept this process's token, if that caused the error."""
    while error is not None:
        if isinstance(error, AuthenticationError):
            return _first_words(Exception(error.message))
        if "InvalidAuthToken" in str(error):
            return _NOT_ADMITTED
        error = error.__cause__
    return ""


def _refusal_of_server(address: str) -> str:
    """Why a client server does not accept this process: Ray's client reports a timeout."""
    ping = ClusterInfoRequest(type=ClusterInfoType.PING)
    with contextlib.closing(init_grpc_channel(address.removeprefix(_CLIENT))) as channel:
        try:
            RayletDriverStub(channel).ClusterInfo(ping, timeout=_PROBE_S)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return _NOT_ADMITTED
    return ""


def view(address: str) -> ClusterView:
    """The nodes and resources of the connected cluster."""
    server = address.removeprefix(_CLIENT)
    is_client = server != address
    own_address = (
        address_towards(Address.parsed(server)) if is_client else ray.util.get_node_ip_address()
    )
    return ClusterView(own_address=own_address, nodes=nodes())


def nodes() -> tuple[RayNode, ...]:
    """The nodes that are alive."""
    available = _available()
    return tuple(
        RayNode(
            address=node["NodeManagerAddress"],
            labels=node.get("Labels", {}),
            resources=node["Resources"],
            available=available.get(node["NodeID"]),
        )
        for node in ray.nodes()
        if node["Alive"]
    )


def _available() -> dict[str, dict[str, float]]:
    """The free resources of each node, if Ray reports them: not to a client."""
    if ray.util.client.ray.is_connected():
        return {}
    from ray._private.state import available_resources_per_node

    found: dict[str, dict[str, float]] = available_resources_per_node()
    return found


def tell(notice: Notice) -> None:
    """Send the launcher a notice."""
    print(notice.model_dump_json(), flush=True)


@asynccontextmanager
async def reserved(reservation: Reservation, network: str) -> AsyncIterator[Any]:
    """A placement group with a bundle for each machine, on a node each.

    Raises:
        EmulationError: Ray has found no room in the time for that.
    """
    require_nodes(reservation, nodes())
    group = placement_group(
        [dict(reservation.resources) for _ in reservation.machines],
        strategy="STRICT_SPREAD",
        name=f"innet-{network}",
        bundle_label_selector=[dict(labels) for labels in reservation.machines.values()],
    )
    try:
        await _until_placed(group, reservation)
        yield group
    finally:
        remove_placement_group(group)


async def _until_placed(group: Any, reservation: Reservation) -> None:
    ready = asyncio.ensure_future(asyncio.to_thread(group.wait, reservation.wait_s))
    done, _ = await asyncio.wait([ready], timeout=_RETRY_S)
    if not done:
        why = no_room(reservation, nodes())
        tell(Notice(line=f"waiting up to {reservation.wait_s:g} s for room on Ray: {why}"))
    if not await ready:
        raise EmulationError(
            f"Ray has found no room within {reservation.wait_s:g} s: "
            f"{no_room(reservation, nodes())}. End what uses the nodes, add some, reserve "
            "less (--reserve), or wait longer (--wait)"
        )


class Machines:
    """The actors of the machines of a network."""

    def __init__(self, order: Start, group: Any) -> None:
        self._order = order
        resources = dict(order.reservation.resources)
        options = {
            "num_cpus": resources.pop("CPU", 0),
            "num_gpus": resources.pop("GPU", 0),
            "resources": resources,
            "max_restarts": order.restarts,
            "max_concurrency": 4,
        }
        cls = ray.remote(MachineActor)
        self._actors = {
            machine: cls.options(
                **options,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=number
                ),
            ).remote()
            for number, machine in enumerate(order.reservation.machines)
        }

    async def follow(self) -> None:
        """Let all machines join, and pass on what they print, until all agents have ended."""
        order = self._order
        token = TokenFile.load(order.token_file)
        keys: dict[str, str] = json.loads(order.keys_file.read_text())
        joinings = [
            Joining(
                machine=machine,
                address=order.address,
                token=token.only_for(machine).model_dump_json(),
                key=keys[machine],
                version=own_version(),
            )
            for machine in self._actors
        ]
        await asyncio.gather(*map(self._follow, joinings))

    async def _follow(self, joining: Joining) -> None:
        """Follow a machine to the end of its agent; the others go on without it."""
        try:
            await self._until_ended(joining)
        except EmulationError as error:
            tell(Notice(machine=joining.machine, error=str(error)))

    async def _until_ended(self, joining: Joining) -> None:
        actor = self._actors[joining.machine]
        while True:
            try:
                report = await actor.follow.remote(joining)
            except ActorUnavailableError:
                await asyncio.sleep(_RETRY_S)  # Ray starts it again
                continue
            except RayError as error:
                raise EmulationError(death(joining.machine, error, self._order.restarts)) from error
            for line in report.lines:
                tell(Notice(machine=joining.machine, line=line))
            if report.problem:
                raise EmulationError(report.problem)
            if report.exit_code == EXIT_REFUSED:
                raise EmulationError(
                    f"the launcher refused machine {joining.machine}. The last line of its agent "
                    "says why, and what helps"
                )
            if report.exit_code is not None:
                return

    async def end(self) -> None:
        """End the agents, then the actors."""
        ends = [asyncio.ensure_future(_ended(actor)) for actor in self._actors.values()]
        await asyncio.wait(ends, timeout=_END_S)
        for actor in self._actors.values():
            ray.kill(actor)


async def _ended(actor: Any) -> None:
    with contextlib.suppress(RayError):
        await actor.end.remote()


def death(machine: str, error: RayError, restarts: int) -> str:
    """Why a machine has no actor any more."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    missing = next((line for line in lines if line.startswith("ModuleNotFoundError")), None)
    if missing is not None:
        return (
            f"the node of machine {machine} cannot run innet: {missing}. Install the version of "
            "the launcher on all nodes of the Ray cluster, where Ray's Python finds it"
        )
    kind = "has died" if isinstance(error, ActorDiedError) else "failed"
    return (
        f"the actor of machine {machine} {kind}, after at most {restarts} restarts "
        f"(recovery.machine_restarts): {lines[0] if lines else type(error).__name__}. Ray's logs "
        "on that node have the details: ray logs"
    )


async def serve(order: Start, address: str) -> None:
    """Keep the machines of a network on Ray until their agents have ended, or SIGTERM."""
    loop = asyncio.get_running_loop()
    current = asyncio.current_task()
    assert current is not None
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, current.cancel)
    head = HeadWatch(ask_head, address, lambda line: tell(Notice(line=line)))
    async with head, reserved(order.reservation, order.network) as group:
        machines = Machines(order, group)
        try:
            await machines.follow()
        finally:
            await machines.end()


def ask_head() -> None:
    """Ask the cluster's head (GCS) for something small, and wait for its answer."""
    _internal_kv_exists("innet")


def main(text: str) -> int:
    """Do what an order says."""
    order = Order.model_validate_json(text)
    try:
        address = address_of(order.cluster)
        connect(address)
        if order.start is None:
            tell(Notice(view=view(address)))
        else:
            asyncio.run(serve(order.start, address))
    except EmulationError as error:
        tell(Notice(error=str(error)))
        return 1
    except RayError as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        tell(Notice(error=f"Ray failed: {said[-1]}. Check the cluster with `ray status`"))
        return 1
    except asyncio.CancelledError:
        return 0
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
