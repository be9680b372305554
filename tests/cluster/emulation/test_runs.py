"""The registry of runs."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import (
    ProcessIdentity,
    RecordedProcess,
    create_run,
    find_run,
    list_runs,
    network_of,
    remove_run,
    remove_stale_runs,
)
from innet.errors import EmulationError
from innet.settings import Settings


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of this test alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "innet"


def test_a_run_of_another_version_does_not_affect_others(registry: Path) -> None:
    other = create_run("other", "star4", "local")
    path = other.run_dir / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_tomorrow": 1}))
    own = create_run("own", "star4", "local")
    assert list_runs() == [own]
    assert find_run() == own
    remove_run(own)


def test_the_end_of_a_run_leaves_attached_processes_alone() -> None:
    run = create_run("own", "star4", "local")
    with subprocess.Popen(["sleep", "600"]) as ours, subprocess.Popen(["sleep", "600"]) as other:
        for process, attached in ((ours, False), (other, True)):
            identity = ProcessIdentity.of(process.pid)
            assert identity is not None
            label = f"h{int(attached)}"
            recorded = RecordedProcess(
                label=label, node=label, identity=identity, attached=attached
            )
            run.processes = (*run.processes, recorded)
        remove_run(run)
        assert ours.wait() == -signal.SIGTERM
        assert other.poll() is None
        other.kill()


def test_an_unknown_run_is_refused_with_the_existing_ones() -> None:
    create_run("own", "star4", "local")
    with pytest.raises(EmulationError, match=r"no run x/../own\. Runs on this machine: own"):
        find_run("x/../own")


def test_a_machines_part_belongs_to_its_network_for_any_topology_name() -> None:
    part = create_run("prod.h1", "rack", "cluster", part_of="prod")
    assert find_run("prod") == part
    assert network_of(part) == "prod"


def test_the_settings_of_a_starting_run_are_refused_with_the_reason() -> None:
    run = create_run("own", "star4", "local")
    with pytest.raises(EmulationError, match="own is not up: it is starting or ending"):
        run.settings()
    run.settings_path.write_text(Settings().model_dump_json())
    assert run.settings() == Settings()


def test_a_run_of_another_host_that_shares_the_registry_is_left_alone(monkeypatch) -> None:
    """As of a container with the same /tmp, whose launcher this one does not see."""
    run = create_run("own", "star4", "local")
    run.host, run.launcher = "box", ProcessIdentity(pid=1, start_ticks=1 << 60)
    run.save()
    assert remove_stale_runs() == []
    with pytest.raises(EmulationError, match=r"run own is of host box, which shares .*End it"):
        remove_run(run)
    with pytest.raises(EmulationError, match="a run own exists already"):
        create_run("own", "star4", "local")
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    assert remove_stale_runs() == [run]
