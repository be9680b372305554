"""Everything that can be set beside the topology: one place, one schema, one default each.

The command line sets them with ``--set transport.max_window=128``; a program passes a
:class:`Settings`. The launcher writes them into the run directory, where every node reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from innet.assignments import SettingsError as SettingsError
from innet.assignments import given_value, split_assignment
from innet.validation_messages import first_message

SETTINGS_VARIABLE = "INNET_SETTINGS"
"""Environment variable with the path of the settings file of a run."""
SETTINGS_NAME = "settings.json"
"""Its name in the run directory. It has the login to the run's broker."""

Signature = Literal["gmac", "hmac", "digest", "ed25519", "none"]
LinkRepetition = Literal["lossy", "all", "none"]
ObjectCollectives = Literal["allow", "weights-only", "refuse"]


MIN_HOST_SLOTS = 64


class _Model(BaseModel):
    # Infinity has no word in JSON, and would come back as null, which is no number.
    # A value may be a broker's URL with a password.
    model_config = ConfigDict(
        extra="forbid", frozen=True, ser_json_inf_nan="strings", hide_input_in_errors=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_text(cls, value: object, info: ValidationInfo) -> object:
        """Units, and the word none, as users write them."""
        assert info.field_name is not None
        optional = type(None) in get_args(cls.model_fields[info.field_name].annotation)
        return given_value(value, info.field_name, optional)


class TransportSettings(_Model):
    """How Interests are sent, repeated and bounded."""

    interest_lifetime_s: float = Field(
        default=1.0,
        gt=0,
        le=60,
        description="how long an Interest waits; it is refreshed then. Like the retransmission "
        "timeouts, longer by default where the topology's round trips are long",
    )
    min_rto_s: float = Field(
        default=0.05,
        gt=0,
        description="shortest retransmission timeout; above what a full queue adds to a round trip",
    )
    max_rto_s: float = Field(default=0.5, gt=0, description="longest retransmission timeout")
    link_repetition: LinkRepetition = Field(
        default="lossy",
        description="the links between nodes on which packets that the neighbour does not "
        "acknowledge are sent again: lossy (those with a loss in the topology), all (where a real "
        "network loses packets) or none",
    )
    initial_window: int = Field(
        default=4, ge=1, description="segments requested at first, per flow; a node has many flows"
    )
    max_window: int = Field(default=512, ge=4, description="segments in flight per flow at most")
    target_queue_delay_s: float = Field(
        default=0.002, gt=0, description="queueing delay above which the window shrinks"
    )
    timeouts_before_self_evaluation: int = Field(
        default=5, ge=1, description="unanswered repetitions before a requester adds itself"
    )
    pit_capacity: int = Field(
        default=65536,
        ge=1024,
        description="pending Interests of a node with up to 8 links; with more, in proportion",
    )
    socket_buffer_bytes: int = Field(
        default=4 << 20, ge=65536, description="send and receive buffer of each link's socket"
    )
    shared_memory: bool = Field(
        default=True,
        description="in local mode, links carry packets through shared memory; false: through "
        "Unix sockets, which need fewer descriptors and cost more processor time",
    )

    @model_validator(mode="after")
    def _outlive_repetitions(self) -> Self:
        if self.interest_lifetime_s < 2 * self.max_rto_s:
            raise ValueError(
                f"interest_lifetime_s ({self.interest_lifetime_s:g}) must be at least twice "
                f"max_rto_s ({self.max_rto_s:g}): the Interest of an answer that waits in a "
                "queue would expire before it is repeated"
            )
        return self


USUAL_TIMEOUT_S = 300.0
"""Ranks may do other work for minutes, such as an evaluation on one of them. Processes that die or
hang are found by other means, within seconds."""


class CollectiveSettings(_Model):
    """How collectives behave."""

    timeout_s: float | None = Field(
        default=None,
        gt=0,
        description="deadline of an operation. By default 5 minutes, or more where the network is "
        "slow for the operation's bytes; PyTorch's own 30 minutes in the PyTorch backend",
    )
    linger_s: float = Field(
        default=1800.0,
        ge=0,
        description="how long a rank that ends serves what it has sent, until the other ranks have "
        "left its groups too; after that they get an error at once; inf: without limit",
    )
    operations_in_flight: int = Field(
        default=4, ge=1, le=64, description="operations of a group under way at once"
    )
    host_slots: int = Field(
        default=2048,
        ge=MIN_HOST_SLOTS,
        description="concurrent reductions of a host, one at least for each sum that waits for "
        "another; in a ring, these are as many as ranks",
    )

    @property
    def usual_timeout_s(self) -> float:
        """Deadline of an operation whose time nobody has planned."""
        return USUAL_TIMEOUT_S if self.timeout_s is None else self.timeout_s


class SecuritySettings(_Model):
    """How packets are signed, and what members of a job are trusted with."""

    signature: Signature = Field(
        default="gmac",
        description="signature of every segment; none, for measurements: nothing is verified",
    )
    trusted_memory: bool = Field(
        default=True,
        description="with signature=gmac, whether links in shared memory without a rate, delay or "
        "loss carry segments without MACs (docs/trust.md); false: MACs everywhere",
    )
    policy: str = Field(
        default="job",
        description="who may sign what, with signature=ed25519: job, or a file (docs/trust.md)",
    )
    key_lifetime_s: float | None = Field(
        default=None,
        gt=0,
        description="validity of what a node signs with its own key, from the start of its job; "
        "none: unlimited",
    )
    core_dumps: bool = Field(
        default=False,
        description="whether the launcher, the nodes and the workers leave core dumps when they "
        "crash: these contain keys",
    )
    object_collectives: ObjectCollectives = Field(
        default="allow",
        description="PyTorch's all_gather_object and its like: allow runs what members pickle, "
        "weights-only takes tensors and plain containers, refuse takes nothing",
    )


class RecoverySettings(_Model):
    """Recovery from switches, workers and controllers that die or hang; see docs/faults.md."""

    switch_restarts: int = Field(
        default=3, ge=0, description="how often each switch that died is started again"
    )
    restart_delay_s: float = Field(
        default=0.2,
        ge=0,
        description="pause before a switch's first restart; doubles each time, up to 5 s",
    )
    heartbeat_interval_s: float = Field(
        default=1.0, gt=0, description="interval of the controller's requests for a sign of life"
    )
    heartbeat_timeout_s: float = Field(
        default=3.0, gt=0, description="silence after which a switch counts as gone"
    )
    link_timeout_s: float = Field(
        default=3.0,
        ge=0.1,
        description="silence in one direction after which a link counts as cut",
    )
    partition_timeout_s: float = Field(
        default=15.0,
        gt=0,
        description="how long ranks without another path wait for the return of a link that is cut "
        "or a switch that hangs, before their groups end; inf: until their deadlines",
    )
    stop_grace_s: float = Field(
        default=30.0,
        ge=0,
        le=86400,
        description="time that a worker has between SIGTERM and SIGKILL, for a checkpoint, when "
        "its job ends: by Ctrl-C, `innet down`, or because another worker failed",
    )
    worker_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="silence after which a worker from which its neighbours receive nothing "
        "either counts as dead, and its process is ended; inf: never",
    )
    interpreter_timeout_s: float = Field(
        default=math.inf,
        gt=0,
        description="the same for a worker whose node answers, and whose Python does not because a "
        "call holds the interpreter; inf: never",
    )
    machine_timeout_s: float = Field(
        default=4.0,
        gt=0,
        le=86400,
        description="silence after which a machine of a cluster counts as lost, and its agent ends "
        "its processes",
    )
    machine_restarts: int = Field(
        default=10, ge=0, description="how often Ray may start a machine's agent again"
    )
    controller_restarts: int = Field(
        default=10, ge=0, description="how often a controller that died is started again"
    )
    controller_patience_s: float = Field(
        default=30.0,
        gt=0,
        description="how long a worker repeats requests to a controller that does not answer",
    )


class PlacementSettings(_Model):
    """When the sums of a running group move to switches that others use less."""

    moves: bool = Field(
        default=True,
        description="whether sums move away from links and switches that other traffic fills",
    )
    interval_s: float = Field(
        default=2.0, gt=0, description="how often the load of links and switches is compared"
    )
    confirmations: int = Field(
        default=3, ge=1, description="comparisons in a row that have to find faster switches"
    )
    least_gain: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="the part of an operation's estimated time that a move has to save",
    )
    pause_s: float = Field(
        default=30.0, ge=0, description="least time between two moves of a group's sums"
    )


class TelemetrySettings(_Model):
    """Telemetry that nodes publish over MQTT; see ``docs/telemetry.md``."""

    broker: str = Field(
        default="embedded",
        repr=False,
        description="embedded (in the launcher), none, or mqtt[s]://[user:password@]host[:port]",
    )
    broker_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="port of loopback where the embedded broker serves as well, with a password "
        "(broker.password in the run's directory); 0: a free one; none: its Unix socket alone",
    )
    interval_s: float = Field(
        default=2.0, ge=0.1, le=3600, description="time between two publications of counters"
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="port of loopback where Prometheus finds metrics; 0: a free one; none: nowhere",
    )
    metrics_hosts: tuple[str, ...] = Field(
        default=(),
        description="names, separated by commas, of this machine in Prometheus's requests, beside "
        "127.0.0.1 and localhost; other Host headers are refused",
    )

    @field_validator("metrics_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _have_a_broker_for_the_port(self) -> Self:
        if self.broker_port is not None and self.broker != "embedded":
            raise ValueError(
                "broker_port is a port of the embedded broker; leave it out with another broker"
            )
        return self


class NdnSettings(_Model):
    """The sockets and ports through which NDN programs connect to nodes; see ``docs/ndn.md``."""

    unix: bool = Field(
        default=True, description="a Unix socket for each node, <node>.ndn in the run's directory"
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="TCP and UDP port of each node in its namespace (netns mode; NDN's is 6363); "
        "none: no such port",
    )
    udp_idle_s: float = Field(
        default=600.0, gt=0, description="silence after which the face of a UDP peer is removed"
    )
    announce: bool = Field(
        default=True,
        description="prefixes that programs register at a node are announced to all nodes of the "
        "run, and names of no job use the links of jobs' hosts, too",
    )
    multicast: tuple[Annotated[str, Field(pattern="^(/[^/]+)+$")], ...] = Field(
        default=(),
        description="prefixes, separated by commas, whose Interests each node of the run sends "
        "to all that serve them, as sync groups need it",
    )
    commands_by: tuple[Path, ...] = Field(
        default=(),
        description="files of certificates, separated by commas: nodes accept management commands "
        "signed by their keys only; none: by any key of a local program",
    )
    localhop: bool = Field(
        default=False,
        description="programs one hop away may register routes, too; with commands_by",
    )

    @field_validator("commands_by", "multicast", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _name_who_commands_from_afar(self) -> Self:
        if self.localhop and not self.commands_by:
            raise ValueError(
                "localhop would let anybody on the network change the routes; say whose commands "
                "count (ndn.commands_by=CERTIFICATE)"
            )
        return self


class LogSettings(_Model):
    """How processes of a run log."""

    format: Literal["text", "json"] = Field(
        default="text", description="json: one document per record and line"
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning", description="records below it are left out"
    )


class Settings(_Model):
    """All settings of a run."""

    transport: TransportSettings = TransportSettings()
    collectives: CollectiveSettings = CollectiveSettings()
    security: SecuritySettings = SecuritySettings()
    recovery: RecoverySettings = RecoverySettings()
    placement: PlacementSettings = PlacementSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    ndn: NdnSettings = NdnSettings()
    log: LogSettings = LogSettings()

    def with_assignments(self, assignments: Iterable[str]) -> Settings:
        """A copy with assignments such as ``transport.max_window=128`` applied."""
        document = self.model_dump()
        for assignment in assignments:
            section, name, value = split_assignment(assignment, document)
            document[section][name] = value
        try:
            return Settings.model_validate(document)
        except ValidationError as error:
            raise SettingsError(first_message(error)) from error

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read the settings file of a run."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise SettingsError(f"cannot read the settings {path}: {error}") from error
