"""Launches the network of the demonstration, trains over it, and compares the trainings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.lab.demo.digits import TEST_IMAGES
from innet.lab.demo.training import TrainingRecord
from innet.node.node_config import Mode
from innet.plans import bound_s, make_plan
from innet.telemetry.logs.output import LAUNCHER_LABEL, OutputSink
from innet.topology import Topology

ALGORITHMS: Final = ("inc", "ring", "ps")
TRAININGS: Final = 1 + len(ALGORITHMS)

_MODES: Final = {
    "netns": "mode netns: a network namespace per node, links shaped by the kernel",
    "local": "mode local: a process per node, links in memory, shaped by the emulator",
}
_SAME_ACCURACY: Final = 1.001 / TEST_IMAGES
"""Accuracies are called equal up to one test image: sums in another order round differently."""


@dataclass(frozen=True)
class TrainingComparison:
    """A training beside the bound of its algorithm and the training in a single process.

    Attributes:
        record: the training.
        bound_s: the least wait that the links' rate allows the algorithm, for all steps; ``None``
            where it does not limit.
        as_single: whether the accuracy equals that of a single process.
    """

    record: TrainingRecord
    bound_s: float | None
    as_single: bool


async def demonstrate(
    topology: Topology,
    *,
    epochs: int,
    mode: Mode | None,
    say: OutputSink,
    show: Callable[[TrainingRecord], None],
) -> list[TrainingComparison]:
    """Train over a network, once in a single process and once per algorithm.

    Args:
        topology: to launch, with a rank on each host.
        epochs: of each training.
        mode: of the network; by default ``netns`` where that is possible, else ``local``.
        say: takes what the launcher and the processes print, and what happens.
        show: takes the record of a training when it starts, after each epoch, and at its end.

    Raises:
        EmulationError: the network cannot be launched.
        JobFailed: a rank ended with an error.
    """
    records: dict[str, TrainingRecord] = {}

    def take(label: str, line: str) -> None:
        try:
            record = TrainingRecord.model_validate_json(line)
        except ValidationError:
            say(label, line)
        else:
            records[record.method] = record
            show(record)

    async with AsyncExitStack() as stack:
        session = await _open_session(stack, topology, mode, take)
        trainer = [sys.executable, "-m", "innet.lab.demo.training", str(epochs), *ALGORITHMS]
        # One thread of each rank always adds in the same order.
        await session.run_workers(trainer, algorithm=ALGORITHMS[0], threads=1)
    return _compare(list(records.values()), topology)


async def _open_session(
    stack: AsyncExitStack, topology: Topology, mode: Mode | None, output: OutputSink
) -> Session:
    session = Session(topology, mode=mode or "netns", output=output)
    try:
        await stack.enter_async_context(session)
    except EmulationError as error:
        if mode is not None:
            raise
        output(LAUNCHER_LABEL, f"no network namespaces here: {error}")
        session = await stack.enter_async_context(Session(topology, mode="local", output=output))
    output(LAUNCHER_LABEL, _MODES[session.network.mode])
    return session


def _compare(records: Sequence[TrainingRecord], topology: Topology) -> list[TrainingComparison]:
    alone = records[0].accuracies[-1]
    return [
        TrainingComparison(
            record,
            _bound_s(record, topology),
            abs(record.accuracies[-1] - alone) <= _SAME_ACCURACY,
        )
        for record in records
    ]


def _bound_s(record: TrainingRecord, topology: Topology) -> float | None:
    if record.method not in ALGORITHMS:
        return None
    of_a_step_s = bound_s(make_plan(record.method, topology), topology, record.gradient_bytes)
    return len(record.losses) * of_a_step_s or None
