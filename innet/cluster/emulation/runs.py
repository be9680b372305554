"""The registry of the runs on this machine, for the user who started them.

A run is a directory with its sockets, node configurations and ``run.json``. The registry is
``$XDG_RUNTIME_DIR/innet``, where there is no such directory root's ``/run/innet``, and otherwise
``/tmp/innet-<uid>``. A run whose
launcher has died without cleaning up (``kill -9``) is stale; ``innet down`` removes it, and so does
the next launch.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet.cluster.emulation.recorded_parts import RecordedEnd, RecordedMachine
from innet.cluster.emulation.registry import registry_identity, runs_directory
from innet.errors import EmulationError
from innet.machine import read_kernel_file
from innet.node.node_config import REGISTRY_VARIABLE, RUN_ID_VARIABLE, Mode
from innet.quantities import counted
from innet.settings import SETTINGS_NAME, Settings
from innet.validation_messages import StrictModel

_STATE_FIELD = 0
_PARENT_FIELD = 1
_START_FIELD = 19  # proc(5): field 22, counted from the state, which is field 3


class ProcessIdentity(StrictModel):
    """A pid together with its process's start time, which no later owner of the pid shares."""

    pid: int
    start_ticks: int
    """Clock ticks from boot to the start of the process, field 22 of ``/proc/<pid>/stat``."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of the process that has ``pid`` now; ``None`` when there is none."""
        fields = _stat_fields(pid)
        return None if fields is None else cls(pid=pid, start_ticks=int(fields[_START_FIELD]))

    @classmethod
    def current(cls) -> ProcessIdentity:
        """The identity of the calling process."""
        identity = cls.of(os.getpid())
        assert identity is not None, "/proc must show the calling process"
        return identity

    def state(self) -> str | None:
        """The kernel's letter for this very process, see proc_pid_stat(5); ``None``: it has ended.

        A zombie has ended.
        """
        fields = _stat_fields(self.pid)
        if fields is None or int(fields[_START_FIELD]) != self.start_ticks:
            return None
        state = fields[_STATE_FIELD]
        return None if state in ("Z", "X") else state

    def is_alive(self) -> bool:
        """Whether this very process still runs."""
        return self.state() is not None

    def send_signal(self, signum: signal.Signals) -> bool:
        """Signal this process, never one that reused its pid; whether it was still there."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The descriptor pins whoever owns the pid now; only then is the comparison final.
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(pidfd, signum)
        except ProcessLookupError:
            return False
        finally:
            os.close(pidfd)
        return True


def parent_of(pid: int) -> int | None:
    """The pid of a process's parent; ``None`` when there is no such process."""
    fields = _stat_fields(pid)
    return None if fields is None else int(fields[_PARENT_FIELD])


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` after the command's name, which may hold anything."""
    try:
        text = read_kernel_file(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


_RECORD_NAME = "run.json"
_TOPOLOGY_NAME = "topology.yaml"
_GOING_DOWN_NAME = "going-down"
LASTING_NAMES = (_RECORD_NAME, _TOPOLOGY_NAME, SETTINGS_NAME, "session.sock", "links.sock")
"""Names in the directory of a run that are there as long as it is up."""
_UNFINISHED_PREFIX = ".new-"
_MAX_RUN_ID_CHARACTERS = 48
_RUN_ID_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_MAX_RUN_ID_CHARACTERS - 1}}}")
_POLL_S = 0.02
_KILL_TIMEOUT_S = 5.0
_LAUNCHER_GRACE_S = 20.0
"""More than a launcher needs beside the grace period of its workers."""
_STRAY_GRACE_S = 1.0


class RecordedProcess(StrictModel):
    """A process that runs on a node, or holds a part of the network.

    Attributes:
        attached: it attached itself to the node, and is another launcher's to end.
        machine: that it runs on and whose agent ends it; ``None``: the launcher's.
        recorded_s: Unix time at which it had started.
    """

    label: str
    node: str | None
    identity: ProcessIdentity
    attached: bool = False
    machine: str | None = None
    recorded_s: float = Field(default_factory=time.time)

    def is_alive(self) -> bool:
        """Whether it runs; one of another machine is recorded no longer than that."""
        return self.machine is not None or self.identity.is_alive()


def control_socket_name(node: str) -> str:
    """The control socket of ``node``, in the directory of its run."""
    return f"{node}.ctl"


def socket_name_of(name: str, machine: str) -> str:
    """The launcher's socket that another machine is connected to when it opens ``name``.

    Its server has the clients of that machine alone, and offers what they may do.
    """
    return f"{name}@{machine}"


def ndn_socket_name(node: str) -> str:
    """The file name of the socket through which NDN programs connect to ``node``."""
    return f"{node}.ndn"


class RunRecord(BaseModel):
    """The record of a run: ``run.json`` in its directory."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    mode: Mode
    topology: str
    """Name of the topology."""
    part_of: str | None = None
    """Run id of the network that this is a machine's part of, at its launcher."""
    machine: str | None = None
    """The machine that this is the part of; ``None``: this is the launcher's record."""
    launcher: ProcessIdentity
    """The process that controls the run; the run ends with it."""
    host: str
    """Name of the launcher's host: containers and hosts may share a registry, and no pids."""
    run_dir: Path
    started_at: float
    """Seconds since the epoch."""
    broker: str | None = None
    """URL of the MQTT broker that the run's telemetry goes to; ``None``: there is none."""
    broker_port: str | None = None
    """URL of the embedded broker's port, if ``telemetry.broker_port`` has asked for one."""
    metrics: str | None = None
    """URL where the launcher serves metrics for Prometheus; ``None``: it does not."""
    token_file: Path | None = None
    """With which machines join; it stays valid when the launcher is started again."""
    ready_s: float | None = None
    """Unix time at which all machines had joined and all switches answered."""
    switches: tuple[str, ...] = ()
    """The nodes that run as long as the network: switches, and hosts with several workers."""
    hosts: tuple[str, ...] = ()
    """The nodes that run while a job has them."""
    machines: dict[str, RecordedMachine] = {}
    """In ``cluster`` mode, the launcher's machine first."""
    ends: dict[str, RecordedEnd] = {}
    """By label, the last unexpected end of a process."""
    kept_up: bool = False
    """Whether the run stays until it is taken down, and does not belong to one job."""
    processes: tuple[RecordedProcess, ...] = ()
    stop_grace_s: float = 0.0
    """The longest time that a worker has between SIGTERM and SIGKILL."""
    namespaces: dict[str, str] = {}
    """A path for ``nsenter --net=`` for each node with a namespace, valid while it lives."""

    @property
    def topology_path(self) -> Path:
        """The file with the topology of the run."""
        return self.run_dir / _TOPOLOGY_NAME

    @property
    def settings_path(self) -> Path:
        """The file with the settings of the run."""
        return self.run_dir / SETTINGS_NAME

    def require_up(self) -> None:
        """Check that the files of the run are there.

        Raises:
            EmulationError: the run is starting, waits for its machines, or is ending.
        """
        if self.ready_s is not None if self.machine is not None else self.settings_path.exists():
            return
        if missing := [name for name, m in self.machines.items() if m.state != "up"]:
            raise EmulationError(
                f"{self.run_id} is not up: it waits for {', '.join(missing)} of its "
                f"{counted(len(self.machines), 'machine')}. `innet status {self.run_id}` shows "
                "them; look at what their agents print."
            )
        raise EmulationError(
            f"{self.run_id} is not up: it is starting or ending. Try again when `innet up` says "
            "that it is up."
        )

    def settings(self) -> Settings:
        """The settings of the run.

        Raises:
            EmulationError: the run is starting or ending.
            SettingsError: the file is not one of this version.
        """
        self.require_up()
        return Settings.load(self.settings_path)

    def control_socket(self, node: str) -> Path:
        """The control socket of ``node``, which exists while it runs."""
        return self.run_dir / control_socket_name(node)

    def mark_going_down(self) -> None:
        """Let the launcher know that it ends for good, before it is signalled."""
        with contextlib.suppress(OSError):  # it has ended
            (self.run_dir / _GOING_DOWN_NAME).touch(mode=0o600)

    @property
    def is_going_down(self) -> bool:
        """Whether ``innet down`` ends it."""
        return (self.run_dir / _GOING_DOWN_NAME).exists()

    @property
    def is_stale(self) -> bool:
        """Whether the launcher has ended and has left the run behind."""
        return not self.launcher.is_alive() and not self.is_elsewhere

    @property
    def is_elsewhere(self) -> bool:
        """Whether only another host or container can find out if the launcher runs, and end it."""
        return self.host != socket.gethostname() and not self.launcher.is_alive()

    def save(self) -> None:
        """Replace ``run.json``, at once for every reader."""
        path = self.run_dir / _RECORD_NAME
        unfinished = path.with_suffix(".tmp")
        try:
            unfinished.write_text(self.model_dump_json(indent=2))
            unfinished.replace(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def writing_into(directory: Path) -> Iterator[None]:
    """Within, files of a run are written into ``directory``."""
    try:
        yield
    except OSError as error:
        raise EmulationError(
            f"cannot write into {directory}: {error.strerror}. Free some space there, or set "
            "XDG_RUNTIME_DIR to a directory that has more."
        ) from error


class RunExists(EmulationError):
    """The registry has a run of that id."""


def new_run_id(topology_name: str) -> str:
    """A run id that is easy to type and not used on this machine."""
    return f"{topology_name[:24]}-{secrets.token_hex(3)}"


def create_run(
    run_id: str, topology_name: str, mode: Mode, *, part_of: str | None = None
) -> RunRecord:
    """Enter a run of the calling process into the registry.

    Raises:
        RunExists: another one has the id.
        EmulationError: the id cannot be used, or the registry cannot be written.
    """
    if not _RUN_ID_PATTERN.fullmatch(run_id):
        raise EmulationError(
            f"{run_id!r} cannot be a run id: use up to 48 letters, digits, dots, dashes and "
            "underscores, the first a letter or digit."
        )
    launcher = ProcessIdentity.current()
    record = RunRecord(
        run_id=run_id,
        mode=mode,
        topology=topology_name,
        part_of=part_of,
        launcher=launcher,
        host=socket.gethostname(),
        run_dir=runs_directory() / run_id,
        started_at=time.time(),
    )
    # Complete before it becomes visible: a directory without a record would look stale.
    unfinished = _make_unfinished_directory(launcher)
    try:
        with writing_into(unfinished.parent):
            (unfinished / _RECORD_NAME).write_text(record.model_dump_json(indent=2))
    except EmulationError:
        shutil.rmtree(unfinished)
        raise
    try:
        unfinished.rename(record.run_dir)
    except OSError as error:
        shutil.rmtree(unfinished)
        raise RunExists(
            f"a run {run_id} exists already. Choose another name (--name), or end it: "
            f"innet down {run_id}."
        ) from error
    return record


def list_runs() -> list[RunRecord]:
    """All runs in the registry, the oldest first; the stale ones too.

    Runs of another version of innet are left out: they do not hinder those of this one.
    """
    records: list[RunRecord] = []
    for path in runs_directory().glob(f"[!.]*/{_RECORD_NAME}"):
        with contextlib.suppress(EmulationError):
            records.append(_load(path))
    return sorted(records, key=lambda record: record.started_at)


def names_of_runs() -> str:
    """The ids of all runs on this machine, for messages about one that is not there."""
    return ", ".join(record.run_id for record in list_runs()) or "none"


def foreign_runs() -> list[Path]:
    """The directories of runs of other versions of innet, which :func:`list_runs` leaves out."""
    found = []
    for path in runs_directory().glob(f"[!.]*/{_RECORD_NAME}"):
        try:
            RunRecord.model_validate_json(path.read_bytes())
        except ValidationError:
            found.append(path.parent)
        except OSError:  # it has ended meanwhile
            continue
    return sorted(found)


def find_run(run_id: str | None = None) -> RunRecord:
    """The run with that id, or without an id the only one that is live.

    On a machine that has joined a network, the network's id stands for the machine's part of it.
    """
    if run_id is not None:
        path = runs_directory() / run_id / _RECORD_NAME
        if _RUN_ID_PATTERN.fullmatch(run_id) and path.exists():
            return _load(path)
        if len(parts := _parts_of(run_id)) == 1:
            return parts[0]
        raise EmulationError(
            f"there is no run {run_id}. Runs on this machine: {names_of_runs()}. `innet up "
            "TOPOLOGY --name NAME` starts one."
        )
    live = [record for record in list_runs() if not record.is_stale]
    if len(live) == 1:
        return live[0]
    if not live:
        raise EmulationError("no network is up. Start one with `innet up TOPOLOGY`.")
    raise EmulationError(
        f"{len(live)} networks are up: {', '.join(r.run_id for r in live)}. Say which one."
    )


def machine_run_id(network: str, machine: str) -> str:
    """The id of a machine's part of a network, in the registry of that machine."""
    return f"{network[: _MAX_RUN_ID_CHARACTERS - len(machine) - 1]}.{machine}"


def _parts_of(network: str) -> list[RunRecord]:
    """The parts of a network that this host has, as one machine of it or several."""
    return [record for record in list_runs() if record.part_of == network]


def network_of(record: RunRecord) -> str:
    """The network that a run is, or that it is a machine's part of: its name on every machine."""
    return record.part_of or record.run_id


def find_kept_up() -> RunRecord:
    """The only live run that is kept up, which ``innet down`` without an id takes down."""
    live = [record for record in list_runs() if not record.is_stale]
    kept = [record for record in live if record.kept_up]
    if len(kept) == 1:
        return kept[0]
    names = ", ".join(record.run_id for record in kept or live)
    if kept:
        raise EmulationError(f"{len(kept)} networks are up: {names}. Say which one.")
    raise EmulationError(
        f"no network was started with `innet up`; under way are jobs of their own: {names}. "
        "End one by its ID, as in `innet down ID`."
    )


def remove_run(record: RunRecord, *, removes_directory: bool = True) -> None:
    """End a run with its launcher and processes, and remove its directory.

    The launcher is asked first and cleans up by itself. Whatever is then alive gets SIGTERM and a
    second later SIGKILL: the recorded processes except attached ones, and all others that carry the
    run's id in their environment. The kernel network of a run is held by these processes and goes
    with them. Blocks for as long as this takes. ``removes_directory``: unless another one is at its
    path.

    Raises:
        EmulationError: it is another host's, or does not end.
    """
    if record.is_elsewhere:
        raise EmulationError(
            f"run {record.run_id} is of host {record.host}, which shares {record.run_dir.parent}. "
            f"End it there; if it has ended, remove the directory {record.run_dir}."
        )
    if record.launcher != ProcessIdentity.current():
        record.mark_going_down()
        _end([record.launcher], record.run_id, record.stop_grace_s + _LAUNCHER_GRACE_S)
    _end(_processes_of(record), record.run_id, _STRAY_GRACE_S)
    if not removes_directory:
        return
    shutil.rmtree(record.run_dir, ignore_errors=True)
    with contextlib.suppress(OSError):  # other runs are in it
        record.run_dir.parent.rmdir()


def remove_stale_runs() -> list[RunRecord]:
    """Remove the runs whose launcher died, and return them."""
    for unfinished in runs_directory().glob(f"{_UNFINISHED_PREFIX}*"):
        pid, start_ticks = unfinished.name.removeprefix(_UNFINISHED_PREFIX).split("-")[:2]
        if not ProcessIdentity(pid=int(pid), start_ticks=int(start_ticks)).is_alive():
            shutil.rmtree(unfinished, ignore_errors=True)
    stale = [record for record in list_runs() if record.is_stale]
    for record in stale:
        remove_run(record)
    return stale


def _make_unfinished_directory(launcher: ProcessIdentity) -> Path:
    name = f"{_UNFINISHED_PREFIX}{launcher.pid}-{launcher.start_ticks}-{secrets.token_hex(3)}"
    while True:
        path = runs_directory(make=True) / name
        # The end of the last run removes the registry, perhaps at this moment.
        with contextlib.suppress(FileNotFoundError):
            path.mkdir(mode=0o700)
            return path


def _load(path: Path) -> RunRecord:
    """Read a record."""
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise EmulationError(f"the run {path.parent.name} has ended meanwhile.") from error
    except ValidationError as error:
        raise EmulationError(
            f"{path} is not a run record of this version of innet. End that run's processes, then "
            f"remove the directory {path.parent}."
        ) from error


def _processes_of(record: RunRecord) -> list[ProcessIdentity]:
    """The live processes that end with a run, whether or not the launcher started them."""
    ours = (p for p in record.processes if not p.attached and p.machine is None)
    found = {process.identity for process in ours}
    for directory in Path("/proc").glob("[0-9]*"):
        # Gone meanwhile, or somebody else's.
        with contextlib.suppress(OSError):
            if _is_of(record, (directory / "environ").read_bytes().split(b"\0")):
                identity = ProcessIdentity.of(int(directory.name))
                if identity is not None:
                    found.add(identity)
    myself = ProcessIdentity.current()
    return [process for process in found if process != myself and process.is_alive()]


def _is_of(record: RunRecord, environment: list[bytes]) -> bool:
    """Whether a process belongs to the run: another registry may have one of the same name."""
    registry = registry_identity(record.run_dir.parent)
    variables = {RUN_ID_VARIABLE: record.run_id, REGISTRY_VARIABLE: registry}
    return {f"{name}={value}".encode() for name, value in variables.items()} <= set(environment)


def _end(processes: list[ProcessIdentity], run_id: str, grace_s: float) -> None:
    try:
        for signum, timeout_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_TIMEOUT_S)):
            processes = [process for process in processes if process.send_signal(signum)]
            processes = _alive_after(processes, timeout_s)
    except PermissionError as error:
        raise EmulationError(
            f"run {run_id} has processes of another user. End it as that user, or as root."
        ) from error
    if processes:
        pids = ", ".join(str(process.pid) for process in processes)
        raise EmulationError(
            f"run {run_id}: SIGKILL did not end the processes {pids} within {_KILL_TIMEOUT_S} s. "
            "They hang in the kernel; see dmesg, then repeat `innet down`."
        )


def _alive_after(processes: list[ProcessIdentity], timeout_s: float) -> list[ProcessIdentity]:
    deadline = time.monotonic() + timeout_s
    while processes := [process for process in processes if process.is_alive()]:
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    return processes
