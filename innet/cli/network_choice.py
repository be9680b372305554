"""Makes the topology, the ranks, the settings and the broker from command line options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from innet.cli.options import HostOptions, ObservationOptions, TimeOptions

if TYPE_CHECKING:
    from rich.console import Console

    from innet.node.node_config import Mode
    from innet.plans import Load, Plan, ProcessorCosts
    from innet.settings import Settings
    from innet.telemetry.logs.output import ConsoleOutput
    from innet.topology import Topology
    from innet.topology.from_ray import ListMachines

_RANGE = re.compile(
    r"(?P<stem>[A-Za-z_.](?:[A-Za-z0-9_.]*[A-Za-z_.])?)(?P<first>[0-9]+)-(?P=stem)(?P<last>[0-9]+)"
)
_AS_WRITTEN = HostOptions()

BROKER_VARIABLE = "INNET_BROKER"
"""Environment variable with a broker's URL, which may have a password."""
_FILE = "file:"
BROKER_SETTING = "telemetry.broker"


def chosen_topology(
    topology: str,
    links: TimeOptions,
    within_hosts: HostOptions = _AS_WRITTEN,
    list_machines: ListMachines | None = None,
) -> Topology:
    """Load a topology and apply the options to it.

    ``list_machines`` asks the cluster on which the network is launched.
    """
    from innet.topology import load_topology

    change = changes_of(links, within_hosts)
    return change(load_topology(topology, list_machines))


def changes_of(
    links: TimeOptions, hosts: HostOptions = _AS_WRITTEN
) -> Callable[[Topology], Topology]:
    """What applies the options to a topology.

    Raises:
        typer.BadParameter: the value of an option is invalid.
    """
    from pydantic import ValidationError

    from innet.topology import Overrides
    from innet.topology.model import HostOverrides
    from innet.topology.settings import HostSettings, LinkSettings
    from innet.validation_messages import message_of

    given = {name: value for name, value in asdict(links).items() if value is not None}
    slots = given.pop("slots", None)
    memory_rate = {} if hosts.memory_rate is None else {"memory-rate": hosts.memory_rate}
    try:
        overrides = cast(Overrides, LinkSettings.model_validate(given).for_model())
        memory = cast(HostOverrides, HostSettings.model_validate(memory_rate).for_model())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise typer.BadParameter(message_of(first), param_hint=f"'--{first['loc'][0]}'") from None
    if slots is not None:
        overrides["slots"] = slots

    def change(loaded: Topology) -> Topology:
        if hosts != _AS_WRITTEN:
            loaded = loaded.with_workers(hosts.workers_per_host, **memory)
        return loaded.with_overrides(**overrides)

    return change


def simulated_topology(topology: Topology) -> Topology:
    """The topology as it is simulated; says so when links get a rate and a delay."""
    from innet.lab.simulation.network import (
        UNTIMED_DELAY_S,
        UNTIMED_RATE_BPS,
        with_timed_links,
    )
    from innet.quantities import rounded_duration, rounded_rate

    timed = with_timed_links(topology)
    if timed.links != topology.links:
        rate, delay = rounded_rate(UNTIMED_RATE_BPS), rounded_duration(UNTIMED_DELAY_S)
        typer.echo(
            f"links with neither rate nor delay are simulated with {rate} and {delay}; "
            "--rate and --delay change that",
            err=True,
        )
    return timed


def chosen_settings(
    assignments: Sequence[str], observation: ObservationOptions | None = None
) -> Settings:
    """The settings, with ``--set`` and the options of telemetry and logs applied."""
    from innet.settings import Settings

    given = observation or ObservationOptions()
    named = {
        "telemetry.broker": given.broker,
        "telemetry.broker_port": given.broker_port,
        "telemetry.metrics_port": given.metrics_port,
        "log.format": given.log_format,
        "log.level": given.log_level,
    }
    options = [f"{name}={value}" for name, value in named.items() if value is not None]
    return Settings().with_assignments(with_broker([*assignments, *options]))


def typed_broker(text: str) -> str:
    """The broker that an option names: its URL, or that in a file (``file:PATH``)."""
    from innet.errors import TelemetryError
    from innet.private_files import read_private
    from innet.telemetry.broker_url import EMBEDDED, NONE, BrokerUrl

    if text.startswith(_FILE):
        path = Path(text.removeprefix(_FILE)).expanduser()
        remedy = f"Make one readable by you alone: (umask 077; $EDITOR {path})"
        return read_private(path, "a broker's URL", remedy).decode(errors="replace")
    if text not in (EMBEDDED, NONE) and BrokerUrl.parse(text).password is not None:
        raise TelemetryError(
            "a password in a command line can be read by every user of this machine. Write the "
            "broker's URL into a file that only you can read, and give --broker file:PATH; or set "
            f"{BROKER_VARIABLE}=URL in the environment."
        )
    return text


def with_broker(assignments: Sequence[str]) -> list[str]:
    """Assignments of settings, with the broker of the environment first, and files looked up."""
    chosen = [_looked_up(assignment) for assignment in assignments]
    from_environment = os.environ.get(BROKER_VARIABLE)
    return [f"{BROKER_SETTING}={from_environment}", *chosen] if from_environment else chosen


def _looked_up(assignment: str) -> str:
    key, equals, value = assignment.partition("=")
    if key.strip() != BROKER_SETTING or not equals:
        return assignment
    return f"{BROKER_SETTING}={typed_broker(value.strip())}"


def chosen_output(settings: Settings, console: Console | None = None) -> ConsoleOutput:
    """The sink of the lines that a run's processes print."""
    from innet.telemetry.logs.output import ConsoleOutput, JsonLinesOutput

    return JsonLinesOutput() if settings.log.format == "json" else ConsoleOutput(console)


def end_at_second_signal() -> None:
    """Let a second signal end this process at once, also when its network is gone."""
    from innet.cluster.emulation.termination import TerminationSignals

    TerminationSignals.is_program = True


def become_launcher(settings: Settings, run_id: str) -> None:
    """Prepare this process to launch a run: configure logs, and let Ctrl-C end the whole run."""
    from innet.telemetry.logs import LogContext, configure_logs

    end_at_second_signal()
    configure_logs(settings.log, LogContext(node="launcher", run=run_id))


def chosen_hosts(hosts: str | None) -> tuple[str, ...] | None:
    """The nodes in a list such as ``h0,h1`` or ``h0-h3,h6``; ``None`` for all hosts.

    >>> chosen_hosts("h0-h2,h7")
    ('h0', 'h1', 'h2', 'h7')
    >>> chosen_hosts("h1,h0.0-h0.1")
    ('h1', 'h0.0', 'h0.1')
    """
    if hosts is None:
        return None
    return tuple(host for part in hosts.split(",") for host in _in_range(part.strip()))


def _in_range(text: str) -> tuple[str, ...]:
    """``h0-h2`` as its hosts; everything else is one host's name."""
    ends = _RANGE.fullmatch(text)
    if ends is None or int(ends["first"]) > int(ends["last"]):
        return (text,)
    numbers = range(int(ends["first"]), int(ends["last"]) + 1)
    return tuple(f"{ends['stem']}{number}" for number in numbers)


def chosen_plan(
    algorithm: str,
    topology: Topology,
    hosts: Sequence[str] | None,
    size_bytes: int | None = None,
    mode: Mode | None = None,
    load: Load | None = None,
) -> Plan:
    """The plan of an ``--algorithm`` such as ``ps:server=h3``.

    ``auto`` chooses as a network in that ``mode`` on this machine does; without a mode, only links
    take time. ``load`` is what others use of the network.
    """
    from innet.cluster.control.group_plans import named_plan
    from innet.plans import NO_LOAD, rank_order

    processor = None if mode is None else processor_costs(topology, mode)
    ranks = rank_order(topology, None if hosts is None else topology.ranks_on(hosts))
    return named_plan(algorithm, topology, ranks, size_bytes, processor, load or NO_LOAD)


def processor_costs(topology: Topology, mode: Mode) -> ProcessorCosts:
    """The costs of the nodes of a network in ``mode`` on this machine."""
    from innet.cluster.launch.calibration import machine_speed
    from innet.cluster.launch.network_costs import network_costs
    from innet.settings import Settings

    return network_costs(topology, mode, Settings(), machine_speed())
