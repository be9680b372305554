"""Identifies a process: a pid alone is not enough, because the kernel reuses pids."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pydantic import BaseModel, ConfigDict

_STATE_FIELD = 0
_START_FIELD = 19  # proc(5): field 22, counted from the state, which is field 3


class ProcessIdentity(BaseModel):
    """A pid together with its process's start time, which no later owner of the pid shares."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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

    def is_alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        fields = _stat_fields(self.pid)
        return (
            fields is not None
            and int(fields[_START_FIELD]) == self.start_ticks
            and fields[_STATE_FIELD] not in ("Z", "X")
        )

    def send_signal(self, signum: signal.Signals) -> bool:
        """Signal this process, and never one that has taken over its pid.

        Returns:
            Whether the process was there to get the signal.

        Raises:
            PermissionError: the process belongs to another user.
        """
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


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` after the command's name, which may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
