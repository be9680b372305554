"""Trains a small network on scikit-learn's handwritten digits, data-parallel over innet.

    innet run star8 -- python apps/train_digits.py --epochs 3
    python apps/train_digits.py --single

Rank 0 has the data and sends it to the others; DistributedDataParallel does the rest. ``--single``
is the same training, batch for batch, in one process without a network. With ``--algorithms inc
ring ps`` the network is trained from the start once for each of them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from innet.torch_backend import Options
from innet.torch_backend.process_group import InnetProcessGroup

IMAGES = 1797
PIXELS = 64
CLASSES = 10
TEST_IMAGES = 360


@dataclass(frozen=True)
class Hyperparameters:
    """The parameters of a training; equal ones give equal results."""

    epochs: int
    global_batch: int
    hidden: int
    learning_rate: float
    seed: int


@dataclass
class Record:
    """One training, as ``--output`` saves it.

    Attributes:
        method: the algorithm, or ``single``.
        ranks: processes that trained together.
        hyperparameters: of the training.
        losses: the loss of each step over the global batch.
        losses_hex: the same, exactly.
        accuracies: share of the test images recognised after each epoch.
        seconds: wall time of all epochs, evaluation included.
        waited_s: the part of it that rank 0 spent between its last gradient and their averages.
        gradient_bytes: bytes of all gradients of one rank.
        busiest_link_bytes: bytes on the link of a host that carried the most in one direction.
    """

    method: str
    ranks: int
    hyperparameters: Hyperparameters
    losses: list[float] = field(default_factory=list)
    losses_hex: list[str] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    waited_s: float = 0.0
    gradient_bytes: int = 0
    busiest_link_bytes: int = 0


@dataclass(frozen=True)
class Digits:
    """Images as rows of 64 values in 0..1, and their classes; the last ones are for testing."""

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def load(cls, seed: int) -> Digits:
        """The data set of scikit-learn, shuffled."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(seed))
        images = torch.from_numpy(pixels).to(torch.float32) / 16
        return cls(images[order], torch.from_numpy(labels).to(torch.int64)[order])

    @classmethod
    def receive(cls, seed: int) -> Digits:
        """The data set, which rank 0 loads and broadcasts; every rank calls it."""
        if dist.get_rank() == 0:
            digits = cls.load(seed)
        else:
            digits = cls(torch.empty(IMAGES, PIXELS), torch.empty(IMAGES, dtype=torch.int64))
        dist.broadcast(digits.images, src=0)
        dist.broadcast(digits.labels, src=0)
        return digits

    def batches(
        self, epoch: int, parameters: Hyperparameters, rank: int, ranks: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The part of rank ``rank`` of each global batch; all parts together are the same for any
        number of ranks."""
        generator = torch.Generator().manual_seed(parameters.seed + 1 + epoch)
        order = torch.randperm(IMAGES - TEST_IMAGES, generator=generator)
        part = parameters.global_batch // ranks
        # What does not fill a batch is left out, so that all steps weigh the same.
        for first in range(0, len(order) - parameters.global_batch + 1, parameters.global_batch):
            mine = order[first + rank * part : first + (rank + 1) * part]
            yield self.images[mine], self.labels[mine]

    def accuracy(self, model: nn.Module) -> float:
        """Share of the test images that ``model`` recognises."""
        with torch.no_grad():
            guesses = model(self.images[-TEST_IMAGES:]).argmax(dim=1)
        return float((guesses == self.labels[-TEST_IMAGES:]).double().mean())


class GradientClock:
    """How long a step waits for gradients to be averaged once its own are computed."""

    def __init__(self, model: nn.Module) -> None:
        self.waited_s = 0.0
        self._computed_s = 0.0
        for parameter in model.parameters():
            parameter.register_hook(self._note)  # type: ignore[no-untyped-call]

    def backward(self, loss: torch.Tensor) -> None:
        """``loss.backward()``, timed."""
        loss.backward()  # type: ignore[no-untyped-call]
        self.waited_s += time.perf_counter() - self._computed_s

    def _note(self, _gradient: torch.Tensor) -> None:
        self._computed_s = time.perf_counter()


class Training:
    """One training from the start, by one process or by all ranks of ``group``."""

    def __init__(
        self,
        method: str,
        digits: Digits,
        parameters: Hyperparameters,
        group: InnetProcessGroup | None,
    ) -> None:
        self._digits = digits
        self._group = group
        self._rank = 0 if group is None else group.rank()
        self._ranks = 1 if group is None else group.size()
        torch.manual_seed(parameters.seed)
        self._model = make_model(parameters.hidden)
        self._clock = GradientClock(self._model)
        self._parallel: nn.Module = (
            self._model
            if group is None
            else DistributedDataParallel(self._model, process_group=group)
        )
        self._optimizer = torch.optim.SGD(
            self._model.parameters(), lr=parameters.learning_rate, momentum=0.9
        )
        self.record = Record(method, self._ranks, parameters)
        self.record.gradient_bytes = sum(p.nbytes for p in self._model.parameters())

    def run(self) -> Record:
        """Train all epochs; rank 0 prints progress."""
        record = self.record
        if self._rank == 0:
            print(opening_line(record), flush=True)
        self._wait_for_all()
        bytes_before = self._link_bytes()
        started_s = time.perf_counter()
        for epoch in range(record.hyperparameters.epochs):
            self._run_epoch(epoch)
            record.seconds = time.perf_counter() - started_s
            record.waited_s = self._clock.waited_s if self._group is not None else 0.0
            if self._rank == 0:
                record.accuracies.append(self._digits.accuracy(self._model))
                print(progress_line(record), flush=True)
        self._wait_for_all()
        record.busiest_link_bytes = self._busiest(self._link_bytes() - bytes_before)
        return record

    def _run_epoch(self, epoch: int) -> None:
        parameters = self.record.hyperparameters
        losses = []
        for images, labels in self._digits.batches(epoch, parameters, self._rank, self._ranks):
            self._optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self._parallel(images), labels)
            self._clock.backward(loss)
            self._optimizer.step()
            losses.append(loss.detach())
        over_all = torch.stack(losses)
        if self._group is not None:
            dist.all_reduce(over_all, dist.ReduceOp.AVG, group=self._group)
        self.record.losses += over_all.tolist()
        self.record.losses_hex += [value.hex() for value in over_all.tolist()]

    def _wait_for_all(self) -> None:
        if self._group is not None:
            dist.barrier(self._group)

    def _link_bytes(self) -> torch.Tensor:
        """Bytes that this host has received and sent so far."""
        if self._group is None:
            return torch.zeros(2, dtype=torch.int64)
        links = self._group.communicator.stats()["links"]
        return torch.tensor([sum(link[way] for link in links) for way in ("bytes_in", "bytes_out")])

    def _busiest(self, link_bytes: torch.Tensor) -> int:
        if self._group is not None:
            dist.all_reduce(link_bytes, dist.ReduceOp.MAX, group=self._group)
        return int(link_bytes.max())


def make_model(hidden: int) -> nn.Sequential:
    """A perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Linear(PIXELS, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, CLASSES),
    )


def opening_line(record: Record) -> str:
    """A line that describes the training that starts."""
    processes = "1 process" if record.ranks == 1 else f"{record.ranks} ranks"
    return (
        f"{record.method}: training in {processes}, {record.gradient_bytes / 1e6:.2f} MB of "
        "gradients each step"
    )


def progress_line(record: Record) -> str:
    """The progress of a training after an epoch."""
    epochs = record.hyperparameters.epochs
    waited = f", {record.waited_s:.2f} s of it waiting" if record.waited_s else ""
    return (
        f"{record.method}: epoch {len(record.accuracies)}/{epochs}, loss {record.losses[-1]:.4f}, "
        f"accuracy {record.accuracies[-1]:.2%}, {record.seconds:.2f} s{waited}"
    )


def train_alone(parameters: Hyperparameters) -> list[Record]:
    """Train in this process alone."""
    return [Training("single", Digits.load(parameters.seed), parameters, None).run()]


def train_together(parameters: Hyperparameters, algorithms: Sequence[str]) -> list[Record]:
    """Train with all ranks of the job, once per algorithm; by default with the launcher's."""
    dist.init_process_group("innet")
    digits = Digits.receive(parameters.seed)
    records = []
    if not algorithms:
        chosen = os.environ.get("INNET_ALGORITHM", "auto")
        records.append(Training(chosen, digits, parameters, as_innet(dist.group.WORLD)).run())
    for algorithm in algorithms:
        group = dist.new_group(pg_options=Options(algorithm=algorithm))
        records.append(Training(algorithm, digits, parameters, as_innet(group)).run())
    dist.destroy_process_group()
    return records


def as_innet(group: dist.ProcessGroup | None) -> InnetProcessGroup:
    """The group itself, whose communicator counts the links' bytes."""
    assert isinstance(group, InnetProcessGroup)
    return group


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128, help="images per step, over all ranks")
    parser.add_argument("--hidden", type=int, default=512, help="width of the hidden layers")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--single", action="store_true", help="one process, no network")
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=[],
        metavar="ALGORITHM",
        help="train once with each of these, such as inc ring ps:server=h3",
    )
    parser.add_argument("--output", type=Path, help="where rank 0 writes its records, as JSON")
    return parser.parse_args()


def main() -> None:
    """Train as the command line says."""
    arguments = parse_arguments()
    # Several ranks share this machine's cores; and one thread always adds in the same order.
    torch.set_num_threads(1)
    parameters = Hyperparameters(
        epochs=arguments.epochs,
        global_batch=arguments.batch,
        hidden=arguments.hidden,
        learning_rate=arguments.learning_rate,
        seed=arguments.seed,
    )
    if arguments.single:
        records = train_alone(parameters)
    else:
        records = train_together(parameters, arguments.algorithms)
    if arguments.output is not None and (arguments.single or os.environ.get("RANK") == "0"):
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps([asdict(record) for record in records], indent=2))


if __name__ == "__main__":
    main()
