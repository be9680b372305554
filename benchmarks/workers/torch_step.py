"""One rank of ``torch_step.py``: the same training over innet and over Gloo, in turns.

Both process groups are in one process and over one link, and only one of them works at a time: the
other's threads sleep.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from gpt.backend import registered
from gpt.communication_clock import CommunicationClock
from gpt.corpus import Corpus
from gpt.model import GPT, Shape, loss_of
from torch.nn.parallel import DistributedDataParallel

SEED = 1
LEARNING_RATE = 1e-3
BUCKET_MIB = 4
"""Gradients that are averaged at once. PyTorch's default of 25 would leave one bucket."""


@dataclass(frozen=True)
class Configuration:
    """A training.

    Attributes:
        shape: of the model.
        batch: pieces of text per rank and step.
    """

    shape: Shape
    batch: int


CONFIGURATIONS = {
    "communication": Configuration(Shape(layers=5, width=256, heads=8, context=32), batch=1),
    "communication_wide": Configuration(Shape(layers=5, width=512, heads=8, context=32), batch=1),
    "compute": Configuration(Shape(layers=2, width=128, heads=8, context=128), batch=8),
}


@dataclass
class Samples:
    """What was measured, a value for each round; the rank that took longest counts.

    Attributes:
        step_s: seconds of a training step, by backend; ``none`` without communication.
        waited_s: seconds of it that the computing thread slept, by backend, mean over the ranks.
        cpu_s: processor seconds of a training step, all ranks together; what the switch and the
            kernel's interrupts take is not in it.
        allreduce_s: seconds in which the same gradients are summed while nothing is computed.
        gradient_bytes: of one rank.
        same_bits: whether all ranks had the same parameters in the end.
    """

    step_s: dict[str, list[float]] = field(default_factory=dict)
    waited_s: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    allreduce_s: dict[str, list[float]] = field(default_factory=dict)
    gradient_bytes: int = 0
    same_bits: bool = True


class Contender:
    """A training over one backend."""

    def __init__(self, configuration: Configuration, group: dist.ProcessGroup) -> None:
        self.group = group
        self._configuration = configuration
        self.model = GPT(configuration.shape, SEED)
        self._parallel = DistributedDataParallel(
            self.model,
            process_group=group,
            bucket_cap_mb=BUCKET_MIB,
            gradient_as_bucket_view=True,
        )
        self._optimizer = torch.optim.AdamW(self.model.parameters(), LEARNING_RATE, fused=True)
        self._corpus = Corpus.of_standard_library(limit_bytes=1 << 20)
        self._step = 0

    def step(self, *, communicates: bool = True) -> None:
        """One training step, or what a rank computes in it."""
        context = self._configuration.shape.context
        # Batches differ between ranks: each has its own seed.
        inputs, targets = self._corpus.batch(
            SEED + dist.get_rank(), self._step, self._configuration.batch, context
        )
        self._step += communicates
        self._optimizer.zero_grad()
        with nullcontext() if communicates else self._parallel.no_sync():
            loss_of(self._parallel(inputs), targets).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def buckets(self) -> list[torch.Tensor]:
        """Tensors as large as the parts in which DistributedDataParallel averages gradients."""
        elements = sum(parameter.numel() for parameter in self.model.parameters())
        return list(torch.split(torch.zeros(elements), (BUCKET_MIB << 20) // 4))

    def allreduce(self, buckets: list[torch.Tensor]) -> None:
        """What the backend does in a step, alone."""
        works = [dist.all_reduce(bucket, group=self.group, async_op=True) for bucket in buckets]
        for work in works:
            work.wait()


@dataclass(frozen=True)
class Turn:
    """One operation, on average over those of a turn; seconds as in :class:`Samples`."""

    slowest_s: float
    waited_s: float
    cpu_s: float


class Rounds:
    """Takes turns, and adds what they gave to the samples."""

    def __init__(self, contenders: dict[str, Contender], steps: int) -> None:
        self.samples = Samples()
        self._contenders = contenders
        self._steps = steps
        for contender in contenders.values():
            contender.step()
            contender.step()  # after the first, buckets are made anew
        self._buckets = next(iter(contenders.values())).buckets()
        # What computes without communication leaves the ranks with different parameters.
        some = next(iter(contenders.values()))
        self._alone = Contender(some._configuration, some.group)

    def take(self, *, counts: bool) -> None:
        """One turn of each kind."""
        samples = self.samples if counts else Samples()
        for name, contender in self._contenders.items():
            self._step_turn(name, contender.step, samples)
            allreduce = self._turn(partial(contender.allreduce, self._buckets))
            samples.allreduce_s.setdefault(name, []).append(allreduce.slowest_s)
        self._step_turn("none", partial(self._alone.step, communicates=False), samples)

    def _step_turn(self, name: str, step: Callable[[], None], samples: Samples) -> None:
        turn = self._turn(step)
        samples.step_s.setdefault(name, []).append(turn.slowest_s)
        samples.waited_s.setdefault(name, []).append(turn.waited_s)
        samples.cpu_s.setdefault(name, []).append(turn.cpu_s)

    def _turn(self, operation: Callable[[], None]) -> Turn:
        dist.barrier()
        clock = CommunicationClock()
        cpu_before_s = time.process_time()
        for _ in range(self._steps):
            operation()
        cpu_s = time.process_time() - cpu_before_s
        wall_s, waited_s = clock.read()
        slowest, sums = torch.tensor(wall_s), torch.tensor([waited_s, cpu_s])
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        dist.all_reduce(sums)
        waits_s, cpu_s = (sums / self._steps).tolist()
        return Turn(float(slowest) / self._steps, waits_s / dist.get_world_size(), cpu_s)


def have_same_bits(model: GPT) -> bool:
    """Whether all ranks have rank 0's parameters."""
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, src=0)
    different = torch.tensor(float(not torch.equal(mine, first)))
    dist.all_reduce(different)
    return not different


def measure(
    configuration: Configuration, groups: dict[str, dist.ProcessGroup], count: int, steps: int
) -> Samples:
    """``count`` rounds of one training over each group, in turns of ``steps`` steps."""
    contenders = {name: Contender(configuration, group) for name, group in groups.items()}
    rounds = Rounds(contenders, steps)
    rounds.take(counts=False)
    for _ in range(count):
        rounds.take(counts=True)
        if dist.get_rank() == 0:
            print("round", flush=True)
    samples = rounds.samples
    samples.gradient_bytes = sum(p.nbytes for p in contenders["innet"].model.parameters())
    # A list: every rank asks for both.
    same = [have_same_bits(contender.model) for contender in contenders.values()]
    samples.same_bits = all(same)
    return samples


def main() -> None:
    """Measure as the rank that the environment says; rank 0 writes what all found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--configuration", choices=CONFIGURATIONS, action="append", required=True)
    parser.add_argument(
        "--steps", type=int, action="append", required=True, help="of each turn; once for each"
    )
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    world = dist.group.WORLD
    assert world is not None
    groups = {"innet": world, "gloo": dist.new_group(backend=registered("gloo"))}
    samples = {
        name: asdict(measure(CONFIGURATIONS[name], groups, arguments.rounds, steps))
        for name, steps in zip(arguments.configuration, arguments.steps, strict=True)
    }
    if dist.get_rank() == 0:
        arguments.output.write_text(json.dumps(samples))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
