"""Ctrl-C, once and again, in every state of a run: its exit status is 130, and nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from .runs import TIMEOUT_S, read_until, started

pytestmark = pytest.mark.usefixtures("nothing_is_left")

STUBBORN = "trap 'echo asked to end' TERM; echo working; while true; do sleep 1; done"
OBEDIENT = "echo working; exec sleep 600"
PAUSE_S = 0.02
"""Between two signals: each finds the run in another state, whatever the speed of the machine."""


def assert_over(launcher: subprocess.Popen[str]) -> str:
    """The run has ended as Ctrl-C asks; what it printed."""
    said = "".join(launcher.communicate(timeout=TIMEOUT_S))
    assert launcher.returncode == 130, said
    assert "Traceback" not in said
    assert "starting it again" not in said
    return said


@pytest.mark.parametrize(
    ("mode", "worker"),
    [
        pytest.param("local", OBEDIENT, id="local-obedient"),
        pytest.param("netns", STUBBORN, marks=pytest.mark.netns, id="netns-stubborn"),
    ],
)
def test_one_interrupt_is_enough(mode: str, worker: str) -> None:
    options = ("--mode", mode, "--grace", "500ms")
    with started("run", "star:2", *options, "--", "sh", "-c", worker) as launcher:
        read_until(launcher, "working")
        launcher.send_signal(signal.SIGINT)
        said = assert_over(launcher)
        is_killed = "did not end within 0.5 s of SIGTERM, and is killed" in said
        assert is_killed == (worker == STUBBORN)


def test_a_second_interrupt_kills_stubborn_processes_and_starts_nothing() -> None:
    with started("run", "star:2", "--", "sh", "-c", STUBBORN) as launcher:
        read_until(launcher, "working")
        launcher.send_signal(signal.SIGINT)
        read_until(launcher, "asked to end")
        launcher.send_signal(signal.SIGINT)
        assert_over(launcher)


def test_restarts_of_workers_end_with_the_first_interrupt() -> None:
    options = ("--max-restarts", "1000", "--elastic")
    with started("run", "star:2", *options, "--", "sh", "-c", OBEDIENT) as launcher:
        read_until(launcher, "working")
        launcher.send_signal(signal.SIGINT)
        said = assert_over(launcher)
        assert said.count("working") <= 1  # of the other rank


@pytest.mark.parametrize("worker", [OBEDIENT, STUBBORN], ids=["obedient", "stubborn"])
def test_many_interrupts_have_the_effect_of_two(worker: str) -> None:
    with started("run", "star:2", "--", "sh", "-c", worker) as launcher:
        read_until(launcher, "working")
        while launcher.poll() is None:
            launcher.send_signal(signal.SIGINT)
            try:
                launcher.wait(PAUSE_S)
            except subprocess.TimeoutExpired:
                continue
        assert_over(launcher)


INTERRUPTED_IMPORT = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)


class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:  # as the import system may lose one
                pass


sys.meta_path.insert(0, Interrupting())
sys.argv = ["innet", "topology", "list"]
from innet.cli.entry import main
main()
"""


def ran(program: str) -> subprocess.CompletedProcess[str]:
    """A program of Python at its end."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("module", ["typer", "innet.cli.commands.topology"])
def test_one_interrupt_during_imports_is_enough(module: str) -> None:
    program = INTERRUPTED_IMPORT.format(module=module)
    ended = ran(program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


INTERRUPTED_END = """
import atexit, io, os, signal, sys


def interrupt(kill=os.kill, process=os.getpid(), signum=signal.SIGINT):
    kill(process, signum)


class Interrupting(io.StringIO):
    def write(self, text):  # while the command prints
        interrupt()
        return len(text)


class Late:
    def __del__(self, interrupt=interrupt):  # after Python has given its signal handlers back
        interrupt()


signal.signal(signal.SIGINT, signal.default_int_handler)
late = Late()
atexit.register(interrupt)
sys.stdout = Interrupting()
sys.argv = ["innet", "topology", "list"]
from innet.cli.entry import main
main()
"""


def test_interrupts_during_shutdown_do_not_change_the_status() -> None:
    ended = ran(INTERRUPTED_END)
    assert (ended.returncode, ended.stderr) == (130, "")


TWO_INTERRUPTS = """
import os, signal
from innet.cli.interrupts import exit_at_interrupt, one_interrupt

signal.signal(signal.SIGINT, signal.default_int_handler)
exit_at_interrupt("not yet begun")
with one_interrupt("twice"):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        print("once", flush=True)
    {second}
print("done", flush=True)
os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("second", "printed"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", ("once\n", "twice\n")),
        ("", ("once\ndone\n", "twice\n")),
    ],
)
def test_the_second_interrupt_ends_a_simulation_at_once(
    second: str, printed: tuple[str, str]
) -> None:
    program = TWO_INTERRUPTS.format(second=second)
    ended = ran(program)
    assert (ended.returncode, (ended.stdout, ended.stderr)) == (130, printed)
