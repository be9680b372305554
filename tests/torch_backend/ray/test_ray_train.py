"""An unmodified TorchTrainer trains over a network: its sums, its failures, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.topology import load_topology

pytest.importorskip(
    "ray.train",
    reason="Ray Train is not installed: pip install 'innet[ray]'",
    exc_type=ImportError,  # of what it needs, where Ray itself is installed
)
pytest.importorskip("torch")

import torch

from tests.torch_backend.ray.alone import weights_learned_alone

DRIVER = Path(__file__).with_name("trainer.py")
TWO_BY_TWO = load_topology("star:2").with_workers(2)
# Ray listens on all addresses: here, those of a namespace that has the loopback alone.
NAMESPACE = ("unshare", "--map-current-user", "--keep-caps", "--net")
MARK = "INNET_TEST_OF_RAY"
ENDED_TRAININGS = 5


@dataclass
class Outcome:
    """What the trainings printed and wrote, read after all their processes ended."""

    said: dict[str, dict[str, str]]
    files: dict[str, Any]


def processes_with(mark: str) -> list[str]:
    """The processes with a mark in their environment."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append((directory / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def environment_of_driver(mark: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        MARK: mark,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",  # a token would lie in the user's home
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }


class Driver:
    """The program of Ray Train, and what it writes."""

    def __init__(self, directory: Path, network: str) -> None:
        self._directory = directory
        self._mark = uuid.uuid4().hex
        self._errors = (directory / "errors").open("wb")
        self._process = subprocess.Popen(
            [*NAMESPACE, sys.executable, str(DRIVER), network, str(directory)],
            env=environment_of_driver(self._mark),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the driver if it still runs, with what it started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def failures(self) -> dict[str, dict[str, str]]:
        """Of each training but the last one, which goes on."""
        assert self._process.stdout is not None
        said = {}
        for line in self._process.stdout:
            if line.startswith("["):
                name, failures = json.loads(line)
                said[name] = failures
            if len(said) == ENDED_TRAININGS:
                return said
        raise AssertionError(self._complaint())

    def _complaint(self) -> str:
        return (self._directory / "errors").read_text()[-3000:]

    def interrupt(self) -> None:
        """Interrupt the last training once all ranks are in it, and wait until all has ended."""
        while len(list(self._directory.glob("waits-*"))) < len(TWO_BY_TWO.hosts):
            assert self._process.poll() is None, self._complaint()
            time.sleep(0.1)
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        while processes_with(self._mark):  # those of Ray end after the driver
            time.sleep(0.1)

    def files(self) -> dict[str, Any]:
        """The files that the ranks wrote, by name."""
        paths = self._directory.glob("*-*.json")
        return {path.stem: json.loads(path.read_text()) for path in paths}


async def trained(directory: Path) -> Outcome:
    async with Session(TWO_BY_TWO, output=lambda *_: None) as session:
        with Driver(directory, session.network.run_id) as driver:
            failures = await asyncio.to_thread(driver.failures)
            await asyncio.to_thread(driver.interrupt)
        while (await session.status())["s0"]["jobs"]:  # noqa: ASYNC110  # of other processes
            await asyncio.sleep(0.1)
        return Outcome(failures, driver.files())


@pytest.fixture(scope="module")
def outcome() -> Iterator[Outcome]:
    obstacle = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True)
    if obstacle.returncode:
        pytest.skip(f"no namespace for Ray: {obstacle.stderr.strip()}")
    with tempfile.TemporaryDirectory(prefix="ray-") as directory:  # short: sockets lie in it
        yield asyncio.run(trained(Path(directory)))


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["innet", "registered", "dies"])
def test_ranks_train_to_the_same_bits_and_the_result_of_one_process(outcome, name) -> None:
    """With InnetConfig, with Ray's own TorchConfig, and after a rank was killed and restarted."""
    assert outcome.said[name] == {}
    ranks = [outcome.files[f"{name}-{rank}"] for rank in range(4)]
    assert [(node, backend) for node, backend, _ in ranks] == [
        (node, "innet") for node in TWO_BY_TWO.hosts
    ]
    weights = [learned for _, _, learned in ranks]
    assert weights == [weights[0]] * 4
    for learned, expected in zip(weights[0], weights_learned_alone(4), strict=True):
        torch.testing.assert_close(torch.tensor(learned), torch.tensor(expected))


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.timeout(900)
def test_a_rank_that_raises_is_named(outcome) -> None:
    failures = outcome.said["raises"]
    assert "as asked" in failures["1"]
    others = [failure for rank, failure in failures.items() if rank != "1"]
    for failure in others:
        assert "rank 1 (h0.1) failed with ValueError: as asked" in failure


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.timeout(900)
def test_more_workers_than_the_network_has_are_refused(outcome) -> None:
    assert "needs 5 workers, and the network has 4" in outcome.said["too many"]["error"]


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.timeout(900)
def test_an_interrupted_trainer_leaves_no_process_and_no_job(outcome) -> None:
    """The fixture waits until that is so."""
    assert "waits" not in outcome.said


@pytest.mark.parametrize("given", [{"backend": "gloo"}, {"init_method": "tcp"}])
def test_options_that_innet_sets_are_refused(given: dict[str, str]) -> None:
    from innet.ray import InnetConfig

    with pytest.raises(EmulationError, match=f"InnetConfig takes no {next(iter(given))}"):
        InnetConfig(**given)


def test_a_network_that_is_not_up_is_refused_before_ray_starts() -> None:
    from innet.ray import InnetConfig

    with pytest.raises(EmulationError, match="there is no run nowhere"):
        InnetConfig(network="nowhere")
