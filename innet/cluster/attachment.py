"""Attaches this process, which any launcher may have started, to a host of a running network.

The session of the network (:mod:`innet.cluster.launch.attached_jobs`) waits for all ranks of the
job, admits it as one of ``innet run``, and describes to each process its worker by the same
environment variables. The connection to the session lasts as long as the attachment: each end
learns from its closing that the other has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from innet.cluster.emulation.runs import RunRecord, find_run
from innet.cluster.requests import Ahead, parsed_document
from innet.cluster.session_client import SESSION_SOCKET_NAME
from innet.errors import ControlError, EmulationError, HostTaken
from innet.node.requests import ControlRequest
from innet.validation_messages import StrictModel
from innet.worker import close_worker
from innet.worker.context import Worker
from innet.worker.current import end_control, fail_worker, replace_worker
from innet.worker.job_file import ATTACHED_VARIABLE, JOB_VARIABLE, NETWORK_VARIABLE

HOST_VARIABLE = "INNET_HOST"
"""Environment variable with the host, or the worker of a host, that a process attaches to."""

_DEFAULT_TIMEOUT_S = 300.0
_MAX_TIMEOUT_S = 1e9
_SESSION_MARGIN_S = 30.0
"""Beyond the time for other ranks: the session admits the job, and reports who is missing."""
_DETACH_TIMEOUT_S = 2.0
"""Timeout of the session's reply. The host is released even without one."""
_RECEIVE_BYTES = 1 << 16


OnLost = Callable[[], None]
"""Is called when the network of an attached process ends."""


class AttachRequest(StrictModel):
    """Parameters of ``attach``: a rank of a job. The reply comes when the rank has left.

    Attributes:
        job: the same text for all ranks of a job, and for no other job.
        host: or one of its workers; ``None``: any.
        timeout_s: how long to wait for the other ranks.
    """

    job: str = Field(min_length=1, max_length=256)
    rank: int = Field(ge=0)
    size: int = Field(ge=1)
    pid: int = Field(gt=0, le=1 << 22)
    host: str | None = Field(default=None, max_length=64)
    timeout_s: float = Field(
        default=_DEFAULT_TIMEOUT_S, gt=0, le=_MAX_TIMEOUT_S, allow_inf_nan=False
    )


class AttachReply(StrictModel):
    """The node of a rank, ahead of the reply to ``attach``.

    Attributes:
        environment: describes its worker, as that of a worker of ``innet run``.
    """

    node: str
    environment: dict[str, str]


class _Attachment:
    """The connection of an attached process to the session of its network."""

    def __init__(
        self, record: RunRecord, request: AttachRequest, on_lost: OnLost | None = None
    ) -> None:
        """Wait until all ranks of the job are attached.

        Args:
            record: of the network.
            request: for the session of the network.
            on_lost: is called in a thread of its own when the network ends before :meth:`leave`.

        Raises:
            EmulationError: the session refuses, does not answer, or has ended.
        """
        self.network = record.run_id
        self._on_lost = on_lost
        self._is_leaving = False
        self._previous: dict[str, str | None] = {}
        self._connection = _connected(record.run_dir / SESSION_SOCKET_NAME, record)
        try:
            reply = self._wait_for_node(request)
        except BaseException:
            self._connection.close()
            raise
        self.node = reply.node
        self._environment = {**reply.environment, ATTACHED_VARIABLE: str(request.pid)}
        self._connection.settimeout(None)
        self._watcher = threading.Thread(target=self._watch, name="innet-attachment", daemon=True)
        self._watcher.start()

    def describe_worker(self) -> None:
        """Set the variables that describe this process's worker, until :meth:`leave`."""
        self._previous = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)

    def leave(self) -> None:
        """Give the host back, and restore the environment; the worker is closed."""
        self._is_leaving = True
        request = ControlRequest(method="detach").model_dump_json()
        with contextlib.suppress(OSError):
            # The session reads it before the end of this connection, however late it reads.
            self._connection.sendall(request.encode() + b"\n")
            self._watcher.join(_DETACH_TIMEOUT_S)  # until the session has replied
            self._connection.shutdown(socket.SHUT_RDWR)  # ends the thread
        self._connection.close()
        self.restore_environment()

    def restore_environment(self) -> None:
        """Undo :meth:`describe_worker`."""
        previous, self._previous = self._previous, {}
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def disown(self) -> None:
        """Close this end of the connection alone: it is a fork's copy, or has no other end."""
        self._is_leaving = True
        self._connection.close()

    @property
    def _who(self) -> str:
        return f"network {self.network}"

    def _wait_for_node(self, asked: AttachRequest) -> AttachReply:
        request = ControlRequest(method="attach", params=asked.model_dump())
        self._connection.settimeout(asked.timeout_s + _SESSION_MARGIN_S)
        received = b""
        try:
            self._connection.sendall(request.model_dump_json().encode() + b"\n")
            while b"\n" not in received:
                some = self._connection.recv(_RECEIVE_BYTES)
                if not some:
                    raise ConnectionResetError("it has ended")
                received += some
        except OSError as error:
            raise _unreachable(self.network, error) from error
        line = received.partition(b"\n")[0]  # the end may follow at once
        try:
            document = parsed_document(line, self._who, "attach")
            reply = document.ahead if isinstance(document, Ahead) else document.value(self._who)
        except ControlError as error:
            raise EmulationError(str(error)) from None
        return AttachReply.model_validate(reply)

    def _watch(self) -> None:
        """Fail this process's groups when the network ends before it detaches."""
        with contextlib.suppress(OSError):
            self._connection.recv(1)
        if not self._is_leaving:
            end_control()
            if self._on_lost is not None:
                threading.Thread(target=self._on_lost, name="innet-rejoining", daemon=True).start()
            fail_worker(
                f"lost its network: {self.network} was taken down, or its launcher has ended. "
                f"Start it again with `innet up`, and then the job"
            )


_lock = threading.Lock()
_attachment: _Attachment | None = None
_is_attaching = False


def attach(
    network: str | None = None,
    host: str | None = None,
    *,
    job: str | None = None,
    rank: int | None = None,
    size: int | None = None,
    timeout_s: float = _DEFAULT_TIMEOUT_S,
    on_lost: OnLost | None = None,
) -> str:
    """Attach this process to a host of a network that is up, as one rank of a job.

    It waits for the other ranks of the job. Then ``innet.init()`` and
    ``torch.distributed.init_process_group("innet")`` work as in a worker of ``innet run``. A
    process is detached when it ends for any reason.

    Args:
        network: its name, by default INNET_NETWORK, and without it the only one that is up.
        host: a host or a worker of one, such as ``h3`` or ``h0.1``; by default INNET_HOST, and
            without it a free one near those of the other ranks.
        job: the same text for all ranks of a job; by default the launcher's rendezvous
            (MASTER_ADDR and MASTER_PORT).
        rank: by default RANK, and without it 0.
        size: number of ranks; by default WORLD_SIZE, and without it 1.
        timeout_s: how long to wait for the other ranks.
        on_lost: is called in a thread of its own when the network ends before :func:`detach`.

    Returns:
        The node: ``h3``, or ``h0.1`` of a host with several workers.

    Raises:
        EmulationError: an argument is invalid, there is no such network or host, the job has more
            ranks than the network has free workers, or ranks are missing after ``timeout_s``; with
            the next step.
        HostTaken: another process has the host, or this process is a worker already.
    """
    global _attachment, _is_attaching
    with _lock:
        _require_unattached()
        _is_attaching = True
    try:
        size = _number("WORLD_SIZE", 1) if size is None else size
        request = _checked_request(
            job=job or _job_of_launcher(size),
            rank=_number("RANK", 0) if rank is None else rank,
            size=size,
            pid=os.getpid(),
            host=host or os.environ.get(HOST_VARIABLE) or None,
            timeout_s=timeout_s,
        )
        record = _reachable(find_run(network or os.environ.get(NETWORK_VARIABLE) or None))
        _install_hooks_once()
        # Without the lock: it may wait for minutes.
        attachment = _Attachment(record, request, on_lost)
        with _lock:
            attachment.describe_worker()
            _attachment = attachment
        return attachment.node
    finally:
        _is_attaching = False


def detach() -> None:
    """Close this process's worker and give its host back; it may attach again.

    Groups are left first. Nothing happens in a process that is not attached.
    """
    global _attachment
    with _lock:
        attachment, _attachment = _attachment, None
    if attachment is None:
        return
    try:
        close_worker()
    finally:
        attachment.leave()


def reattach(network: str, on_lost: OnLost) -> Worker | None:
    """Attach this process, a job of its own, to the network that it has lost and that is up again.

    It gets the node of before if that is free, and another worker.

    Args:
        network: its name.
        on_lost: see :func:`attach`.

    Returns:
        The worker before, which the caller closes; ``None``: this process has detached meanwhile.

    Raises:
        EmulationError: the network is not up, or has no free worker; nothing has changed then.
        ControlError: the network has ended again.
    """
    global _attachment
    before = _attachment
    if before is None:
        return None
    record = _reachable(find_run(network))
    request = AttachRequest(job=uuid.uuid4().hex, rank=0, size=1, pid=os.getpid(), host=before.node)
    try:
        attachment = _Attachment(record, request, on_lost)
    except HostTaken:
        host = os.environ.get(HOST_VARIABLE) or None
        attachment = _Attachment(record, request.model_copy(update={"host": host}), on_lost)
    with _lock:
        if _attachment is not before:
            attachment.leave()
            return None
        before.restore_environment()
        attachment.describe_worker()
        try:
            worker = replace_worker()
        except BaseException:
            attachment.leave()
            before.describe_worker()
            raise
        _attachment = attachment
    before.disown()
    return worker


def should_attach() -> bool:
    """Whether INNET_NETWORK asks this process to attach, and it is no worker yet."""
    return bool(os.environ.get(NETWORK_VARIABLE)) and _attachment is None and not _is_launched()


def _is_launched() -> bool:
    """Whether this process is a worker of ``innet run``, and not a child of an attached one."""
    return JOB_VARIABLE in os.environ and not os.environ.get(ATTACHED_VARIABLE)


def _require_unattached() -> None:
    if _attachment is not None:
        raise HostTaken(
            f"this process is attached to {_attachment.node} of {_attachment.network}. "
            "Call innet.detach() before it attaches again"
        )
    if _is_attaching:
        raise HostTaken(
            "another thread of this process is attaching it. Attach once, in one thread, before "
            "the first group"
        )
    if _is_launched():
        raise HostTaken(
            "this process is a worker of `innet run`, which has given it a host. Leave attach() out"
        )


def _reachable(record: RunRecord) -> RunRecord:
    if record.mode == "netns":
        raise EmulationError(
            f"{record.run_id} runs in namespaces (--mode netns), which a process started outside "
            f"cannot join. Use `innet run --on {record.run_id}`, or `innet up` in local mode."
        )
    if record.is_stale:
        raise EmulationError(
            f"the launcher of {record.run_id} has ended. Remove what it left with `innet down "
            f"{record.run_id}`, then start the network again with `innet up`."
        )
    return record


def _connected(path: Path, record: RunRecord) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise _unreachable(record.run_id, error) from error
    return connection


def _unreachable(network: str, error: OSError) -> EmulationError:
    return EmulationError(
        f"the launcher of {network} does not answer: {error.strerror or error}. It may be starting "
        f"or ending; check with `innet status {network}`"
    )


_EXPECTED = {
    "job": "a text of 1 to 256 characters; pass job=, or a shorter rendezvous (MASTER_ADDR)",
    "rank": "a whole number from 0; pass rank=, or set RANK",
    "size": "a whole number from 1; pass size=, or set WORLD_SIZE",
    "host": "the name of a host; pass host=, or set INNET_HOST",
    "timeout_s": f"seconds above 0 and up to {_MAX_TIMEOUT_S:g}; pass timeout_s=",
}
"""By argument of :func:`attach`: the valid values, and where they come from."""


def _checked_request(**given: Any) -> AttachRequest:
    try:
        return AttachRequest(**given)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise EmulationError(
            f"invalid {name}={given[name]!r:.300}: expected {_EXPECTED[name]}."
        ) from None


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not text.isdecimal():
        raise EmulationError(
            f"{variable} is {text!r}, not a number. Launchers set it; without one, pass rank= and "
            "size= to innet.attach()."
        )
    return int(text)


def _job_of_launcher(size: int) -> str:
    """A text that the ranks of a launcher's job have in common."""
    if size == 1:
        return uuid.uuid4().hex
    environment: Mapping[str, str] = os.environ
    if "MASTER_PORT" not in environment:
        raise EmulationError(
            f"the {size} ranks of this job have no rendezvous: MASTER_PORT is not set. Start them "
            "with a launcher such as torchrun, or pass innet.attach() the same job= on all ranks."
        )
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    return "/".join(environment.get(name, "") for name in names)


_hooks_installed = False


def _install_hooks_once() -> None:
    """Detach at exit, after the worker has closed: what was registered last runs first."""
    global _hooks_installed
    if not _hooks_installed:
        _hooks_installed = True
        atexit.register(detach)
        os.register_at_fork(after_in_child=_disown_after_fork)


def _disown_after_fork() -> None:
    global _attachment, _is_attaching, _lock
    _lock = threading.Lock()  # whoever held it is not here
    _is_attaching = False
    attachment, _attachment = _attachment, None
    if attachment is not None:
        attachment.disown()
