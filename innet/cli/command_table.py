"""The commands of ``innet`` as help and shell completion list them.

Only data: a command's module is imported when the command is called or its own help is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NETWORKS: Final = "Networks and jobs"
OBSERVATION: Final = "Health and telemetry"
PACKETS: Final = "Packets"
DESCRIPTIONS: Final = "Topologies and plans"
NAMED_DATA: Final = "Named data, over any NDN forwarder"
TRUST: Final = "Keys and trust"

SUMMARY: Final = "Launch named-data networks whose switches reduce on the way, and train over them."
EXAMPLES: Final = (
    "innet demo",
    "innet topology show star8",
    "innet run star8 --rate 200mbit -- python train.py",
    "innet compare star8 --quick",
)


@dataclass(frozen=True, slots=True)
class RootOption:
    """An option of ``innet`` itself, as its help shows it."""

    long: str
    help: str
    short: str = ""
    variable: str = ""


DEBUG_VARIABLE: Final = "INNET_DEBUG"
"""Environment variable that asks for tracebacks, like ``--debug``."""
VERSION_HELP: Final = "Print the version, the commit and the build (--version --json: as JSON)"
DEBUG_HELP: Final = "Show the traceback of an error"
ROOT_OPTIONS: Final = (
    RootOption("--version", VERSION_HELP),
    RootOption("--debug", DEBUG_HELP, variable=DEBUG_VARIABLE),
    RootOption("--install-completion", "Install completion for the current shell."),
    RootOption(
        "--show-completion",
        "Show completion for the current shell, to copy it or customize the installation.",
    ),
    RootOption("--help", "Show this message and exit.", short="-h"),
)


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command or group of commands; its module in ``innet.cli.commands`` has its name.

    Attributes:
        panel: the heading that it is listed under.
        help: the first sentence of its help, which the list of commands shows.
        is_group: the module has an ``app`` with commands of its own, in place of a function.
    """

    name: str
    panel: str
    help: str
    is_group: bool = False


COMMANDS: Final = (
    CommandEntry(
        "demo",
        NETWORKS,
        "Train a model over an emulated network, once per algorithm, and compare.",
    ),
    CommandEntry("run", NETWORKS, "Run a command on every host, as the ranks of one job."),
    CommandEntry(
        "compare",
        NETWORKS,
        "Compare allreduce algorithms over sizes: a table, JSON, an HTML report and a recording.",
    ),
    CommandEntry("sim", NETWORKS, "Simulate a workload on a network of any size, in virtual time."),
    CommandEntry("up", NETWORKS, "Launch a network and keep it up until Ctrl-C."),
    CommandEntry(
        "status",
        NETWORKS,
        "List the runs on this machine, or show what the nodes of one are doing.",
    ),
    CommandEntry("down", NETWORKS, "End a run and leave nothing of it."),
    CommandEntry(
        "node",
        NETWORKS,
        "Let this machine take part in a network that is launched on another one.",
        is_group=True,
    ),
    CommandEntry(
        "settings",
        NETWORKS,
        "List every setting: its type, default, value, and the source of the value.",
    ),
    CommandEntry(
        "doctor",
        OBSERVATION,
        "Observe a running network for a moment, and say what is wrong with it and what to do.",
    ),
    CommandEntry(
        "capture",
        PACKETS,
        "Write the packets that cross links of a running network to a pcapng file, until Ctrl-C.",
    ),
    CommandEntry(
        "dissect",
        PACKETS,
        "Print the NDN packets of a capture: one in a line, or as trees (--tree).",
    ),
    CommandEntry(
        "metrics",
        OBSERVATION,
        "Serve the metrics of all nodes of a network to Prometheus, until Ctrl-C.",
    ),
    CommandEntry(
        "watch",
        OBSERVATION,
        "Watch a run live: its nodes, rates, queues, slots and events.",
    ),
    CommandEntry(
        "plan", DESCRIPTIONS, "Show who adds what, the busiest links, and the bound in time."
    ),
    CommandEntry(
        "forwarder",
        NAMED_DATA,
        "Forward for NDN programs of this machine, in the foreground, until Ctrl-C.",
    ),
    CommandEntry(
        "publish",
        NAMED_DATA,
        "Publish a file in segments under a versioned name, until interrupted.",
    ),
    CommandEntry(
        "fetch",
        NAMED_DATA,
        "Fetch the latest version of an object: of [cyan]innet publish[/], ndnserve "
        "(ndnputchunks), NDNts, python-ndn.",
    ),
    CommandEntry(
        "peek", NAMED_DATA, "Fetch one Data packet and write its content, as ndnpeek -p does."
    ),
    CommandEntry(
        "ping",
        NAMED_DATA,
        "Measure round trips to a prefix, or answer them; interoperable with ndnping.",
    ),
    CommandEntry("kv", NETWORKS, "Caches of key-value blocks for language models.", is_group=True),
    CommandEntry(
        "tell", OBSERVATION, "Send a command to a node, over the run's MQTT broker.", is_group=True
    ),
    CommandEntry(
        "link",
        NETWORKS,
        "Cut a link of a running network, or change its rate, delay or loss.",
        is_group=True,
    ),
    CommandEntry("topology", DESCRIPTIONS, "Show, check and convert topologies.", is_group=True),
    CommandEntry(
        "keys",
        TRUST,
        "Keys and NDN certificates: make, issue, revoke, export, import.",
        is_group=True,
    ),
    CommandEntry(
        "trust",
        TRUST,
        "Trust policies: check a file, explain who may sign what, get a job's anchor.",
        is_group=True,
    ),
)
