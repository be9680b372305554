"""The models and the data that all frameworks train, and how a step is timed."""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import torch
from gpt.corpus import Corpus
from gpt.model import GPT, Shape, loss_of
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

FEATURES = 256
CLASSES = 10
_EXAMPLES = 4096
_SHAPE: Final = Shape(layers=8, width=128, heads=8, context=128)
_CORPUS_BYTES = 1 << 20
_WARM_UP_STEPS = 3

_Batch = TypeVar("_Batch")


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """The parser of the options that every script takes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="innet", help="innet (default) or gloo")
    parser.add_argument("--steps", type=int, default=20, help="training steps (default: 20)")
    return parser


def parse_arguments(description: str | None) -> argparse.Namespace:
    """The options of a script that trains any of :data:`WORKLOADS`."""
    return add_models(argument_parser(description)).parse_args()


def add_models(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the choice between :data:`WORKLOADS` to a parser."""
    parser.add_argument(
        "--model",
        choices=WORKLOADS,
        default="perceptron",
        help="perceptron (default): 330,000 parameters, 16 vectors per rank and step; transformer: "
        "1.7 million parameters, 512 tokens",
    )
    return parser


class LabelledVectors(Dataset[dict[str, torch.Tensor]]):
    """Vectors of :data:`FEATURES` numbers, in classes that a fixed linear map decides."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(_EXAMPLES, FEATURES, generator=generator)
        teacher = torch.randn(FEATURES, CLASSES, generator=generator)
        self.labels = (self.inputs @ teacher).argmax(dim=1)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


class Text(Dataset[dict[str, torch.Tensor]]):
    """Pieces of the standard library's source, each byte a token; labels are the next bytes."""

    def __init__(self) -> None:
        self._text = Corpus.of_standard_library(_CORPUS_BYTES).text

    def __len__(self) -> int:
        return (len(self._text) - 1) // _SHAPE.context

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        begin = index * _SHAPE.context
        piece = self._text[begin : begin + _SHAPE.context + 1].to(torch.int64)
        return {"inputs": piece[:-1], "labels": piece[1:]}


def endless(loader: Iterable[_Batch]) -> Iterator[_Batch]:
    """The batches of ``loader``, again and again: a training of many steps has several epochs."""
    return itertools.chain.from_iterable(itertools.repeat(loader))


class Classifier(nn.Module):
    """A perceptron of 330,000 parameters, with the same initial ones on every rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, CLASSES),
        )

    def forward(
        self, inputs: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """The class scores of ``inputs`` (batch, features), and the loss if there are labels."""
        scores = self.layers(inputs)
        if labels is None:
            return {"logits": scores}
        return {"loss": cross_entropy(scores, labels), "logits": scores}


class LanguageModel(nn.Module):
    """The GPT that ``train_gpt.py`` trains by default, with the same parameters on every rank."""

    def __init__(self) -> None:
        super().__init__()
        self.gpt = GPT(_SHAPE, seed=1)

    def forward(
        self, inputs: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """The scores of each next byte of ``inputs`` (batch, context), and the loss with labels."""
        scores = self.gpt(inputs)
        if labels is None:
            return {"logits": scores}
        return {"loss": loss_of(scores, labels), "logits": scores}


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
        make_model: the model, the same on every rank.
        make_data: its examples.
        batch: examples that a rank sees in a step.
    """

    make_model: Callable[[], nn.Module]
    make_data: Callable[[], Dataset[dict[str, torch.Tensor]]]
    batch: int


WORKLOADS: Final = {
    "perceptron": Workload(Classifier, LabelledVectors, batch=16),
    "transformer": Workload(LanguageModel, Text, batch=4),
}


class StepTimer:
    """The time of a step, without the first ones."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []
        self._cpu_s: list[float] = []

    def end_step(self) -> None:
        """Note that a step has ended."""
        self._ends_s.append(time.perf_counter())
        self._cpu_s.append(time.process_time())

    def median_s(self) -> float:
        """The median time between the ends of two steps; 0 after too few steps."""
        ends_s = self._ends_s[_WARM_UP_STEPS:]
        times_s = [end - begin for begin, end in itertools.pairwise(ends_s)]
        return statistics.median(times_s) if times_s else 0.0

    def mean_cpu_s(self) -> float:
        """The processor time of a step in this process; 0 after too few steps."""
        cpu_s = self._cpu_s[_WARM_UP_STEPS:]
        return (cpu_s[-1] - cpu_s[0]) / (len(cpu_s) - 1) if len(cpu_s) > 1 else 0.0


def report(loss: float, timer: StepTimer) -> None:
    """Print the result, on rank 0."""
    if os.environ["RANK"] == "0":
        step_ms, cpu_ms = timer.median_s() * 1e3, timer.mean_cpu_s() * 1e3
        print(f"loss={loss:.6f} step_ms={step_ms:.2f} cpu_ms={cpu_ms:.2f}", flush=True)
