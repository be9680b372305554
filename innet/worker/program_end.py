"""How the program of this process ends: as it should, or by an error."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from innet.errors import DeadlineExceeded, RankFailed


class ProgramEnd:
    """Tells, while the interpreter shuts down, what ended the program.

    Python passes a ``SystemExit`` to no hook and does not keep it. So ``sys.exit`` is wrapped to
    know its status, and the program's outermost frame tells whether it was left by an exception:
    it then does not stand at a return. A status of ``raise SystemExit(...)`` stays unknown, and
    such a program counts as ended well.
    """

    def __init__(self) -> None:
        self._outermost = _outermost_frame()
        self._status: object = None
        exit_program = sys.exit

        def exit_noticed(status: object = None, /) -> None:
            self._status = status
            exit_program(status)  # type: ignore[arg-type]

        sys.exit = exit_noticed  # type: ignore[assignment]

    def failure(self) -> str | None:
        """What to tell the others of this end; ``None`` when the program ended well."""
        if _returned(self._outermost):
            return None
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            return describe(error)
        if self._status in (None, 0):
            return None
        if isinstance(self._status, int):
            return f"ended by sys.exit({int(self._status)})"
        return f"ended by sys.exit: {self._status}"


def describe(error: BaseException) -> str:
    """What to tell the others of an exception that ends the program."""
    # Who waited in vain for another rank has not failed itself.
    what = "gave up" if type(error) is DeadlineExceeded else f"failed with {type(error).__name__}"
    return f"{what}: {error}".rstrip(": ")


def is_of_another(error: BaseException) -> bool:
    """Whether an exception that ends the program follows from another rank's end or absence."""
    follows: BaseException | None = error
    while follows is not None and not isinstance(follows, (RankFailed, DeadlineExceeded)):
        follows = follows.__cause__ or follows.__context__
    return follows is not None


def _outermost_frame() -> FrameType:
    main = threading.main_thread().ident
    frame = sys._current_frames()[main or 0]
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    import dis  # at the program's end, and not at its start

    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")
