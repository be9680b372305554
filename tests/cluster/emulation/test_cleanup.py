"""However a launcher ends, nothing of its run is left, at the latest after ``innet down``."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec
from innet.cluster.emulation.runs import (
    ProcessIdentity,
    create_run,
    find_run,
    list_runs,
    remove_run,
    remove_stale_runs,
)
from innet.errors import EmulationError
from innet.topology import Topology, load_topology

LAUNCHER = Path(__file__).with_name("launcher.py")
TIMEOUT_S = 240


class Witness(Protocol):
    """See the fixture ``witness``."""

    processes: set[ProcessIdentity]

    def assert_nothing_is_left(self) -> None: ...


WitnessFactory = Callable[[str], Witness]


@contextmanager
def launched(mode: str, action: str, *prefix: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A launcher whose network is up, and the id of its run."""
    with subprocess.Popen(
        [*prefix, sys.executable, str(LAUNCHER), mode, action],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        try:
            assert launcher.stdout is not None
            run_id = launcher.stdout.readline().strip()
            assert run_id, launcher.communicate()[1]
            yield launcher, run_id
        finally:
            launcher.kill()


def wait_for_end(processes: set[ProcessIdentity]) -> None:
    """Wait until the processes, which are not our children, have ended."""
    for process in processes:
        try:
            pidfd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            ended, _, _ = select.select([pidfd], [], [], TIMEOUT_S)
            assert ended, f"{process} does not end"
        finally:
            os.close(pidfd)


NETNS = pytest.mark.netns
"""Runs in namespaces have more to clean up: tested with a signal, an error, and neither."""


@pytest.mark.parametrize(
    ("mode", "signum", "returncode"),
    [
        pytest.param("netns", signal.SIGINT, -signal.SIGINT, marks=NETNS, id="ctrl-c"),
        pytest.param("local", signal.SIGTERM, 128 + signal.SIGTERM, id="terminated"),
        pytest.param("local", signal.SIGHUP, 128 + signal.SIGHUP, id="hung-up"),
    ],
)
def test_a_signalled_launcher_cleans_up(
    mode: str, signum: signal.Signals, returncode: int, witness: WitnessFactory
) -> None:
    with launched(mode, "wait") as (launcher, run_id):
        run = witness(run_id)
        launcher.send_signal(signum)
        launcher.communicate(timeout=TIMEOUT_S)
    assert launcher.returncode == returncode
    run.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("mode", "action", "returncode"),
    [("local", "leave", 0), pytest.param("netns", "raise", 1, marks=NETNS)],
)
def test_a_launcher_that_exits_cleans_up(
    mode: str, action: str, returncode: int, witness: WitnessFactory
) -> None:
    with launched(mode, action) as (launcher, run_id):
        run = witness(run_id)
        assert launcher.stdin is not None
        launcher.stdin.write("now\n")
        _, errors = launcher.communicate(timeout=TIMEOUT_S)
    assert launcher.returncode == returncode
    assert ("the job failed" in errors) == (action == "raise")
    run.assert_nothing_is_left()


def test_a_second_signal_does_not_break_the_clean_up(witness: WitnessFactory) -> None:
    with launched("local", "wait") as (launcher, run_id):
        run = witness(run_id)
        launcher.send_signal(signal.SIGTERM)
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=TIMEOUT_S)
    run.assert_nothing_is_left()


@NETNS
def test_children_die_with_a_killed_launcher_and_down_removes_the_rest(
    witness: WitnessFactory,
) -> None:
    with launched("netns", "wait") as (launcher, run_id):
        record = find_run(run_id)
        run = witness(run_id)
        launcher.kill()
        launcher.wait()
    children = {process.identity for process in record.processes}
    assert len(run.processes - children) == 1  # the stray grandchild
    wait_for_end(children)
    assert find_run(run_id).is_stale
    remove_run(find_run(run_id))
    run.assert_nothing_is_left()


async def test_a_cancellation_during_the_clean_up_does_not_break_it(
    line: Callable[[], Topology],
) -> None:
    async def job() -> None:
        async with Network(line(), run_id="cancelled") as network:
            network.spawn("h0", ["sleep", "1000"])
            network.processes.on_exit(lambda _process: task.cancel())

    task = asyncio.create_task(job())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list_runs() == []


async def test_a_network_stays_guarded_when_a_nested_one_ends(
    line: Callable[[], Topology],
) -> None:
    async def job() -> None:
        async with Network(line()):
            async with Network(line()):
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(SystemExit) as ended:
        await job()
    assert ended.value.code == 128 + signal.SIGTERM
    assert list_runs() == []


def test_the_next_launch_removes_what_a_killed_launcher_left(witness: WitnessFactory) -> None:
    with launched("local", "wait") as (launcher, killed_run_id):
        killed_run = witness(killed_run_id)
        launcher.kill()
        launcher.wait()
    with launched("local", "wait") as (launcher, run_id):
        assert [run.run_id for run in list_runs()] == [run_id]
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=TIMEOUT_S)
    killed_run.assert_nothing_is_left()


def test_a_live_run_is_not_stale_and_down_ends_it(witness: WitnessFactory) -> None:
    with launched("local", "wait") as (launcher, run_id):
        run = witness(run_id)
        assert remove_stale_runs() == []
        assert find_run().run_id == run_id
        remove_run(find_run())
        launcher.communicate(timeout=TIMEOUT_S)
    assert launcher.returncode == 128 + signal.SIGTERM
    run.assert_nothing_is_left()


def test_listing_runs_creates_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert list_runs() == []
    assert remove_stale_runs() == []
    assert list(tmp_path.iterdir()) == []


def test_the_remains_of_a_killed_launch_are_removed(registry: Path) -> None:
    registry.mkdir(mode=0o700)
    me = ProcessIdentity.current()
    mine = registry / f".new-{me.pid}-{me.start_ticks}-abc"
    dead = registry / f".new-{me.pid}-{me.start_ticks - 1}-abc"
    mine.mkdir()
    dead.mkdir()
    remove_stale_runs()
    assert (mine.exists(), dead.exists()) == (True, False)


def test_an_unreadable_record_is_an_error_that_names_its_directory(registry: Path) -> None:
    (registry / "odd").mkdir(parents=True)
    registry.chmod(0o700)
    (registry / "odd/run.json").write_text("{}")
    with pytest.raises(EmulationError, match=r"remove the directory .*odd"):
        find_run("odd")


@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="without root, every netns test tests this")
def test_an_unprivileged_launcher_uses_a_user_namespace(
    witness: WitnessFactory,
) -> None:
    # SETFCAP alone: the kernel asks for it to map root into a user namespace, and only root.
    unprivileged = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]
    with launched("netns", "wait", *unprivileged) as (launcher, run_id):
        record = find_run(run_id)
        run = witness(run_id)
        worker = next(p for p in record.processes if p.node == "h0").identity.pid
        assert os.readlink(f"/proc/{worker}/ns/user") != os.readlink("/proc/self/ns/user")
        assert os.readlink(f"/proc/{worker}/ns/net") == os.readlink(record.namespaces["h0"])
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=TIMEOUT_S)
    run.assert_nothing_is_left()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root's rights away, and there are none")
def test_a_launcher_that_cannot_create_namespaces_says_what_to_do_and_leaves_nothing(
    registry: Path,
) -> None:
    without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    launcher = subprocess.run(
        [*without_rights, sys.executable, str(LAUNCHER), "netns", "wait"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert launcher.returncode == 1
    assert "Use mode local, run as root" in launcher.stderr
    assert not registry.exists()


async def test_down_spares_a_run_of_the_same_name_in_another_registry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    topology = load_topology("star:2")
    async with Network(topology, run_id="twin") as network:
        process = network.spawn("h0", ["sleep", "60"])
        of_no_node = network.processes.spawn(ProcessSpec("bare", ("sleep", "60")))
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("XDG_RUNTIME_DIR", str(tmp_path))
            async with Network(topology, run_id="twin"):
                remove_run(find_run("twin"))
        registry = find_run("twin").run_dir.parent
        aside = registry.rename(registry.with_name("aside"))  # as for a container's own /tmp
        remove_run(create_run("twin", "star2", "local"))
        aside.rename(registry)
        assert process.identity.is_alive()
        assert of_no_node.identity.is_alive()
