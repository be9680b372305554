"""Arguments and options that several commands take, one definition each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

import typer


def examples(*commands: str) -> str:
    """The text below a command's help."""
    return "\n".join(("[bold]Examples[/]", *(f"[dim]$[/] {command}" for command in commands)))


@contextmanager
def values_of(*options: str) -> Iterator[None]:
    """Raise a :class:`ValueError` as ``typer.BadParameter`` of these options."""
    try:
        yield
    except ValueError as error:
        hint = " / ".join(f"'{option}'" for option in options)
        raise typer.BadParameter(str(error), param_hint=hint) from None


def seconds(least_s: float, most_s: float = inf) -> Callable[[object], float]:
    """The parser of an option of seconds: a number, or a time with a unit."""

    def parse(given: object) -> float:
        from innet.assignments import given_value

        try:
            time_s = float(given_value(given, "time_s", optional=False))  # type: ignore[arg-type]
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if not least_s <= time_s <= most_s:
            limits = f"at least {least_s:g}" if most_s == inf else f"{least_s:g} to {most_s:g}"
            raise typer.BadParameter(f"expected {limits} seconds, found {given}")
        return time_s

    return parse


def time_option(
    *flags: str, least_s: float, most_s: float = inf, help: str, default: str | None = None
) -> Any:
    """An option of a time in seconds, whose help states the forms that it takes.

    ``default`` is how the help writes the default.
    """
    return typer.Option(
        *flags,
        parser=seconds(least_s, most_s),
        metavar="TIME",
        help=f"{help}: {FORMS_OF_TIME}" + (f". Default: {default}" if default else ""),
        show_default=False,
    )


FORMS_OF_TIME = "[cyan]500ms[/], [cyan]2s[/] or [cyan]2[/], [cyan]1min[/]"


def _shipped_names(incomplete: str) -> Iterator[str]:
    from innet.topology import shipped_topologies

    return (name for name in shipped_topologies() if name.startswith(incomplete))


def run_ids(incomplete: str) -> Iterator[str]:
    """The runs of this machine, for completion."""
    from innet.cluster.emulation.runs import list_runs

    return (record.run_id for record in list_runs() if record.run_id.startswith(incomplete))


def _ndn_name(uri: str) -> str:
    from innet.ndn import Name

    try:
        Name(uri)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return uri


Topology = Annotated[
    str,
    typer.Argument(
        metavar="TOPOLOGY",
        help="A file, a shipped name ([cyan]star8[/]) or a generator ([cyan]leaf-spine:4x2x4[/]); "
        "see [cyan]innet topology list[/]",
        autocompletion=_shipped_names,
    ),
]
OptionalTopology = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPOLOGY",
        help="A file, a shipped name ([cyan]star8[/]) or a generator; see [cyan]innet topology "
        "list[/]",
        autocompletion=_shipped_names,
    ),
]
NetworkOrFile = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="NETWORK|FILE",
        help="A network that is up, by its name: plan beside what its jobs use at the moment. Or a "
        "file, in place of TOPOLOGY",
        autocompletion=run_ids,
    ),
]
RunId = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="The run", autocompletion=run_ids)
]
NdnName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="An NDN name: [cyan]/alice/photo[/]", callback=_ndn_name),
]
NdnPrefix = Annotated[
    str, typer.Argument(metavar="PREFIX", help="The prefix of a ping server", callback=_ndn_name)
]
Forwarder = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Its address: [cyan]unix:///run/nfd/nfd.sock[/], [cyan]tcp://host:6363[/], "
        "[cyan]udp://host[/]; [cyan]$INNET_NDN[/] or [cyan]$NDN_CLIENT_TRANSPORT[/] by default",
    ),
]
SigningKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="NAME",
        help="Sign with this key of [cyan]innet keys[/], and serve its certificate",
    ),
]
Anchor = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="Accept only Data that this certificate authorizes: one of [cyan]innet keys[/], or a "
        "file",
    ),
]
TrustPolicy = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Who may sign what below the anchor: a file, or [cyan]job[/], [cyan]pool[/], "
        "[cyan]store[/]",
    ),
]
Mode = Annotated[
    Literal["local", "netns"],
    typer.Option(
        help="[cyan]local[/]: links in memory, shaped by the emulator, no root. "
        "[cyan]netns[/]: kernel namespaces and veth pairs"
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        metavar="h0,h1,…", help="Hosts of the ranks 0, 1, …, or h0-h3; all hosts by default"
    ),
]


def refuse_ranks_with_hosts(ranks: int | None, hosts: str | None) -> None:
    """Check that the hosts are not both named and to be chosen."""
    if ranks is not None and hosts is not None:
        raise typer.BadParameter(
            "--hosts names the hosts of the ranks, and --ranks has them chosen; give one of them",
            param_hint="'--ranks'",
        )


Ranks = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        min=1,
        help="Number of ranks: on the free hosts that the fewest switches join, and that others "
        "use least; in place of [cyan]--hosts[/]",
    ),
]
Algorithm = Annotated[
    str,
    typer.Option(
        metavar="NAME[:OPTIONS]",
        help="[cyan]inc[/], [cyan]ring[/], [cyan]ps[/], [cyan]halving-doubling[/] or "
        "[cyan]auto[/]; options such as [cyan]ps:server=h3[/]",
    ),
]
SetSettings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="SECTION.NAME=VALUE",
        help="Change a setting, such as [cyan]security.signature=ed25519[/]; repeatable",
    ),
]
RESULTS = Path("results")
Output = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Directory for the results: JSON, a report, logs")
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there; to stdout by default"),
]
NamePrefixes = Annotated[
    list[str] | None,
    typer.Option(
        "--prefix",
        metavar="NAME",
        help="Only NDN packets with names below it, such as [cyan]/train1/g0[/]; repeatable",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


@dataclass(frozen=True)
class OptionGroup:
    """Options that a command takes as one value; its help lists them under ``panel``, if any."""

    panel: ClassVar[str | None] = None


@dataclass(frozen=True)
class TimeOptions(OptionGroup):
    """Rate and delay of all links, in place of the topology's."""

    panel: ClassVar[str | None] = "Links and switches (replace what the topology says)"

    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate: [cyan]200mbit[/], [cyan]unlimited[/]")
    ] = None
    delay: Annotated[
        str | None, typer.Option(metavar="TIME", help="One-way delay: [cyan]1ms[/], [cyan]250us[/]")
    ] = None


@dataclass(frozen=True)
class ChangeableOptions(TimeOptions):
    """Properties of a link that may change while its network is up."""

    panel: ClassVar[str | None] = None

    loss: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Lost share of packets: [cyan]1%[/], [cyan]0.01[/]"),
    ] = None


@dataclass(frozen=True)
class LinkOptions(ChangeableOptions):
    """Properties of all links, in place of the topology's."""

    panel = TimeOptions.panel

    queue: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Queue of each link: [cyan]512KiB[/]")
    ] = None
    mtu: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Largest packet: [cyan]9000[/]")
    ] = None


@dataclass(frozen=True)
class TopologyOptions(LinkOptions):
    """Properties of all links and switches, in place of the topology's."""

    slots: Annotated[
        int | None,
        typer.Option(min=0, help="Concurrent reductions on each switch; 0: only forward"),
    ] = None


@dataclass(frozen=True)
class HostOptions(OptionGroup):
    """Options that replace the topology's settings within hosts."""

    workers_per_host: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            metavar="N",
            help="Ranks on each host, in place of the topology's [cyan]workers[/]; the host's node "
            "adds their contributions before they leave it",
        ),
    ] = None
    memory_rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Rate between each worker and its host's memory, as over PCIe: [cyan]128gbit[/]",
        ),
    ] = None


@dataclass(frozen=True)
class ExperimentOptions(OptionGroup):
    """The runs of an experiment, and where the results go."""

    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers")] = 1
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at once; by default one per core")
    ] = None
    output: Output = None
    as_json: AsJson = False


@dataclass(frozen=True)
class ObservationOptions(OptionGroup):
    """Telemetry and logs of a run."""

    panel = "Telemetry and logs"

    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Publish telemetry to this MQTT broker, such as "
            "[cyan]mqtts://host:8883[/]; with a password: [cyan]file:PATH[/] of a file with its "
            "URL, or the URL in INNET_BROKER; [cyan]embedded[/] (the default): one in the "
            "launcher; [cyan]none[/]: nowhere",
        ),
    ] = None
    broker_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve the embedded MQTT broker on this port of loopback as well; 0: a free one",
        ),
    ] = None
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve metrics for Prometheus on this port of loopback; 0: a free one",
        ),
    ] = None
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option(
            help="[cyan]json[/]: one document per line, of every process [dim](default: text)[/]"
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="Lowest level of messages to show [dim](default: warning)[/]"),
    ] = None


@dataclass(frozen=True)
class WebOptions(OptionGroup):
    """The page of ``--web``."""

    panel = "Web page"

    web: Annotated[
        bool, typer.Option("--web", help="Show the network in a browser; prints the link to open")
    ] = False
    web_listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve the page there; other addresses than loopback's need TLS; port 0: a free "
            "one",
        ),
    ] = "127.0.0.1:0"
    web_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate of the page's TLS, PEM")
    ] = None
    web_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the page's TLS, PEM")
    ] = None

    def is_wanted(self) -> bool:
        """Whether to serve the page; raises where it is not, and options say how."""
        given = {
            "--web-listen": self.web_listen != WebOptions.web_listen,
            "--web-cert": self.web_cert is not None,
            "--web-key": self.web_key is not None,
        }
        for option, is_given in given.items():
            if is_given and not self.web:
                raise typer.BadParameter("needs --web", param_hint=f"'{option}'")
        return self.web


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: each field is an option of the command line."""
    groups: dict[str, Any] = {}
    parameters = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            groups[name] = kind
            of_fields = get_type_hints(kind, include_extras=True)
            for field in fields(kind):
                annotation = of_fields[field.name]
                annotation.__metadata__[0].rich_help_panel = kind.panel
                parameters.append(
                    Parameter(
                        field.name,
                        Parameter.KEYWORD_ONLY,
                        default=field.default,
                        annotation=annotation,
                    )
                )
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))

    @wraps(command)
    def called(**arguments: Any) -> None:
        for name, kind in groups.items():
            arguments[name] = kind(**{f.name: arguments.pop(f.name) for f in fields(kind)})
        command(**arguments)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
