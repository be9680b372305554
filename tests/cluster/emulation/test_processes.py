"""Child processes: output, ends and their causes, nothing left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from innet.cluster.emulation.processes import (
    ProcessGroup,
    ProcessSpec,
    SupervisedProcess,
    describe_exit,
)
from innet.cluster.emulation.runs import ProcessIdentity
from innet.errors import EmulationError
from innet.telemetry.logs.output import ConsoleOutput, FileOutput

FOREVER = "import signal, sys; print('ready', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN);" + FOREVER


class Lines:
    """An output sink that can be awaited."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    def __call__(self, label: str, line: str) -> None:
        self.seen.append((label, line))
        self._changed.set()

    async def until(self, label: str, line: str) -> None:
        while (label, line) not in self.seen:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 240)


def python(label: str, code: str) -> ProcessSpec:
    return ProcessSpec(label=label, argv=(sys.executable, "-c", code))


async def test_lines_arrive_whole_with_the_label_of_their_process() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    code = (
        "import sys; sys.stdout.write('a\\nb'); sys.stdout.flush();"
        "sys.stderr.write('c\\n'); sys.stdout.write('no end')"
    )
    assert await group.spawn(python("h3", code)).wait() == 0
    assert lines.seen == [("h3", "a"), ("h3", "bc"), ("h3", "no end")]


async def test_long_output_without_line_ends_is_read_completely() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    await group.spawn(python("h0", "print('x' * 3_000_000, end='')")).wait()
    assert sum(len(line) for _, line in lines.seen) == 3_000_000


async def test_output_in_the_pipe_at_the_end_of_a_process_is_not_lost() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    code = "import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); print('x\\n' * 200_000)"
    process = group.spawn(python("h0", code))
    # The event loop must stand still until the process has ended, so that nothing is read before.
    os.waitid(os.P_PID, process.identity.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    await process.wait()
    assert len(lines.seen) == 200_001


async def test_every_callback_learns_which_signal_ended_which_process() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    ended: list[SupervisedProcess] = []
    group.on_exit(ended.append)
    process = group.spawn(python("h3", FOREVER))
    await lines.until("h3", "ready")
    os.kill(process.identity.pid, signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    assert ended == [process]
    pid = process.identity.pid
    assert process.describe() == f"h3 (pid {pid}) was killed by signal 9 (SIGKILL)"
    assert "ready" in process.failure_report()


async def test_a_process_that_printed_nothing_is_reported_as_such() -> None:
    process = ProcessGroup("run", Lines()).spawn(python("h3", "raise SystemExit(3)"))
    await process.wait()
    place = f"h3 (pid {process.identity.pid})"
    assert process.failure_report() == f"{place} exited with code 3; it printed nothing"


async def test_failing_callbacks_and_outputs_delay_nothing() -> None:
    def fail(*_arguments: object) -> None:
        raise BrokenPipeError

    reported: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: reported.append(context["exception"])
    )
    group = ProcessGroup("run", fail)
    ended: list[SupervisedProcess] = []
    group.on_exit(fail)
    group.on_exit(ended.append)
    process = group.spawn(python("h0", "print('one'); print('two')"))
    assert await process.wait() == 0
    assert ended == [process]
    assert list(process.tail) == ["one", "two"]
    assert [type(error) for error in reported] == [BrokenPipeError] * 2


async def test_an_exit_code_is_reported() -> None:
    process = ProcessGroup("run", Lines()).spawn(python("h0", "raise SystemExit(7)"))
    assert await process.wait() == 7
    assert process.describe().endswith("exited with code 7")


def test_an_unknown_signal_is_described_by_its_number() -> None:
    assert describe_exit(-99) == "killed by signal 99"


async def test_terminate_lets_a_process_exit() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(5));" + FOREVER
    process = group.spawn(python("h0", code))
    await lines.until("h0", "ready")
    await group.terminate()
    assert process.returncode == 5


async def test_terminate_kills_a_process_that_ignores_sigterm() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    process = group.spawn(replace(python("h0", STUBBORN), grace_s=0.05))
    await lines.until("h0", "ready")
    await group.terminate()
    assert process.returncode == -signal.SIGKILL


async def test_children_in_the_group_of_a_process_end_with_it() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    code = (
        "import subprocess, sys;"
        f"p = subprocess.Popen([sys.executable, '-c', {FOREVER!r}], stdout=subprocess.DEVNULL);"
        "print(p.pid)"
    )
    await group.spawn(python("h0", code)).wait()
    grandchild = ProcessIdentity.of(int(lines.seen[0][1]))
    assert grandchild is None or await gone(grandchild)


async def gone(process: ProcessIdentity) -> bool:
    """Whether a process that is not our child ends; init reaps it in its own time."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), 240)
    finally:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
    return not process.is_alive()


async def test_a_missing_program_is_an_error_that_names_it() -> None:
    group = ProcessGroup("run", Lines())
    with pytest.raises(EmulationError, match=r"/no/such/program.*h0"):
        group.spawn(ProcessSpec(label="h0", argv=("/no/such/program",)))


async def test_a_label_is_unique_among_running_processes() -> None:
    lines = Lines()
    group = ProcessGroup("run", lines)
    first = group.spawn(python("h0", FOREVER))
    with pytest.raises(EmulationError, match="h0 is running already"):
        group.spawn(python("h0", FOREVER))
    await lines.until("h0", "ready")
    await group.terminate()
    assert first.returncode == -signal.SIGTERM
    assert await group.spawn(python("h0", "")).wait() == 0


async def test_a_child_has_its_own_session_and_no_inherited_descriptors() -> None:
    lines = Lines()
    leaked = os.open("/dev/null", os.O_RDONLY)
    code = "import os; print(os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd'))[:3])"
    await ProcessGroup("run", lines).spawn(python("h0", code)).wait()
    os.close(leaked)
    assert lines.seen[0][1] == "True ['0', '1', '2']"


def test_a_recycled_pid_is_not_signalled() -> None:
    me = ProcessIdentity.current()
    earlier = me.model_copy(update={"start_ticks": me.start_ticks - 1})
    assert not earlier.is_alive()
    assert not earlier.send_signal(signal.SIGKILL)


def test_console_output_labels_lines_and_keeps_their_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ConsoleOutput()("h3", "loss [bold]0.5[/bold] " + "x" * 300)
    assert capsys.readouterr().out == "[h3] loss [bold]0.5[/bold] " + "x" * 300 + "\n"


def test_file_output_keeps_a_file_for_each_process(tmp_path: Path) -> None:
    output: Callable[[str, str], None] = FileOutput(tmp_path / "logs")
    output("h0", "one")
    output("h1", "two")
    output("h0", "three")
    assert (tmp_path / "logs/h0.log").read_text() == "one\nthree\n"
    assert (tmp_path / "logs/h1.log").read_text() == "two\n"
