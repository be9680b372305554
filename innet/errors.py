"""The family of errors that innet raises.

Every error carries a sentence a person understands: what happened, to what, and what to do next.
Catch :class:`InnetError` to catch them all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from innet.printable import printable


class InnetError(Exception):
    """Base of every error raised on purpose by innet.

    Its message may quote what a peer sent: as text, it has no control characters.

    Attributes:
        exit_code: of a program that ends with it.
    """

    exit_code: int = 1

    def __str__(self) -> str:
        return printable(super().__str__())


class FileError(InnetError):
    """Something that a user has written down cannot be used.

    Attributes:
        path: the file, or ``None`` for what was made in memory.
        line: 1-based line of the offending value, or ``None`` when it has no single place.
    """

    def __init__(self, message: str, *, path: Path | None = None, line: int | None = None) -> None:
        self.path = path
        self.line = line
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)


class TopologyError(FileError):
    """A topology file, generator or import cannot be used."""


class WorkloadError(FileError):
    """A workload of a simulation cannot be read, or does not fit the topology."""


class PoolFileError(FileError):
    """The file of a standing pool of blocks cannot be used."""


class PolicyError(FileError):
    """A trust policy cannot be read, or is no policy.

    Attributes:
        column: 1-based column of what is wrong, or ``None`` when it has no single place.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.column = column
        place = f"line {line}, " if path is None and line is not None else ""
        at = "" if column is None else f"{place}column {column}: "
        super().__init__(at + message, path=path, line=line)


class PlanError(InnetError):
    """No plan of the requested kind exists for this topology and these ranks."""


class EmulationError(InnetError):
    """A network could not be launched, reached or taken down."""


class HostTaken(EmulationError):
    """Another process has a host's node, and a host has one process of a job."""


EXIT_REFUSED: Final = 3
"""Exit code of an agent that the launcher does not admit, however often it tries."""


class JoinRefused(EmulationError):
    """The launcher of a network does not admit this machine.

    Attributes:
        reason: ``secret``, ``machine``, ``network``, ``version``, ``other-key``, ``connected``,
            ``full``, ``ending`` or ``lost``.
    """

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        # Of an agent that has died, the launcher may not know yet that it is gone.
        self.exit_code = 1 if reason == "connected" else EXIT_REFUSED
        super().__init__(message)


class SimulationError(InnetError):
    """A simulation cannot be set up, or has come to a point from which nothing can follow."""


class JobFailed(EmulationError):
    """Workers of a job ended with an error; the message names them and what they said last.

    Attributes:
        exit_code: of the first worker that failed, as a shell tells it: 128 and the number of the
            signal for one that a signal ended.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class ControlError(InnetError):
    """A node did not answer on its control socket, or refused a request."""


class TelemetryError(InnetError):
    """A broker, a metrics endpoint or a command to a node cannot be used as asked."""


class NoAnswer(ControlError):
    """No process answered on a control socket in time, or it ended before it did.

    Attributes:
        has_ended: the process has said that it ends.
    """

    def __init__(self, message: str, *, has_ended: bool = False) -> None:
        self.has_ended = has_ended
        super().__init__(message)


class KVError(InnetError):
    """A block of a key-value cache cannot be named, placed or kept as asked."""


class PrefixLost(KVError):
    """Layers of a prefix were lost while the first ones were already in use: compute it again."""


class SecurityError(InnetError):
    """A key is missing, malformed or of the wrong kind."""


class TransportError(InnetError):
    """A publish or fetch failed for a reason other than its deadline."""


class MalformedPacket(TransportError):
    """Bytes are no packet of the NDN Packet Format, or no part of one."""


class NoForwarder(TransportError):
    """No NDN forwarder listens where a client looks for one, or it went away."""


class InterestTimeout(TransportError):
    """Nobody answered an Interest before its deadline."""


class InterestRefused(TransportError):
    """A forwarder answered an Interest with a Nack.

    Attributes:
        reason: number of the Nack's reason; 0 when it gave none.
    """

    def __init__(self, message: str, reason: int) -> None:
        self.reason = reason
        super().__init__(message)


class ObjectIncomplete(TransportError):
    """Some segments of an object did not come.

    Attributes:
        missing: first and last number of each run of segments that are missing, as far as known.
        resume: ``await error.resume()`` goes on with what is missing.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: Sequence[tuple[int, int]],
        resume: Callable[[], Awaitable[Any]],
    ) -> None:
        self.missing = missing
        self.resume = resume
        super().__init__(message)


class CommandRefused(TransportError):
    """A forwarder did not obey a management command, such as a registration.

    Attributes:
        code: its status code, as HTTP's: 403 for a command that the signer may not give.
    """

    def __init__(self, message: str, code: int) -> None:
        self.code = code
        super().__init__(message)


class FunctionError(InnetError):
    """A function that was called by its name has failed, or its arguments cannot be sent."""


class StrategyError(InnetError):
    """A forwarding strategy cannot be found, or has the wrong type."""


TIMEOUT_HINT = "timeout_s=, in PyTorch timeout=, or the setting collectives.timeout_s changes it"
"""How to change a timeout, in messages of :class:`DeadlineExceeded`."""


class CollectiveError(InnetError, RuntimeError):
    """A collective operation failed.

    Attributes:
        operation: human-readable operation, such as ``allreduce(sum.f32, 4096 elements)``.
        seq: sequence number of the operation in its group, or ``None`` before one was given.
        reason: the message without the operation and its number.
    """

    def __init__(self, message: str, *, operation: str = "", seq: int | None = None) -> None:
        self.operation = operation
        self.seq = seq
        self.reason = message
        prefix = f"{operation} seq={seq}: " if operation and seq is not None else ""
        super().__init__(prefix + message)


class DeadlineExceeded(CollectiveError):
    """The operation did not end in time; the message names the ranks that were missing."""


class RankFailed(CollectiveError):
    """A rank of the group died or left; the message names the rank, its node and the operation.

    Attributes:
        rank: the rank that failed, as the group numbers it; ``None`` when that is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        seq: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.rank = rank
        super().__init__(message, operation=operation, seq=seq)


class MismatchError(CollectiveError):
    """Ranks called different operations, or gave arrays of different shapes or types."""


class PeerError(CollectiveError):
    """The same call failed on another rank before it contributed; the message names rank and cause.

    The next call of the group is as good as any. A call that fails with a :class:`MismatchError` or
    a :class:`ReductionOverflow` is one of those on every rank.

    Attributes:
        rank: the rank whose call failed, as the group numbers it.
    """

    def __init__(
        self, message: str, *, operation: str = "", seq: int | None = None, rank: int | None = None
    ) -> None:
        self.rank = rank
        super().__init__(message, operation=operation, seq=seq)


class ReductionOverflow(CollectiveError):
    """A sum of integers left the range of its type, and the communicator does not let it wrap."""


class Cancelled(CollectiveError):
    """The operation was cancelled by its caller or by the end of the communicator."""
