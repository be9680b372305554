"""Noisy digits of seven segments, drawn from a seed, and a perceptron that learns them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

TRAINING_IMAGES: Final = 1440
TEST_IMAGES: Final = 360
CLASSES: Final = 10
BATCH: Final = 128
"""Images of a step, over all ranks."""

HEIGHT, WIDTH = 8, 6
_NOISE: Final = 0.25
_SEGMENTS: Final = (
    # Rows and columns of a 7x4 digit: top, upper right, lower right, bottom, lower left, upper
    # left, middle.
    (slice(0, 1), slice(0, 4)),
    (slice(0, 4), slice(3, 4)),
    (slice(3, 7), slice(3, 4)),
    (slice(6, 7), slice(0, 4)),
    (slice(3, 7), slice(0, 1)),
    (slice(0, 4), slice(0, 1)),
    (slice(3, 4), slice(0, 4)),
)
_LIT: Final = (0x3F, 0x06, 0x5B, 0x4F, 0x66, 0x6D, 0x7D, 0x07, 0x7F, 0x6F)
"""The segments of each digit as bits, the first segment lowest."""


@dataclass(frozen=True)
class Digits:
    """Images as rows of pixels, and the digits that they show; the last ones are for testing."""

    images: Floats
    labels: Labels

    @classmethod
    def draw(cls, seed: int) -> Self:
        """The same images for the same seed: each digit moved, in segments of varying brightness,
        under noise."""
        random = np.random.default_rng(seed)
        count = TRAINING_IMAGES + TEST_IMAGES
        labels = random.integers(CLASSES, size=count)
        images = random.normal(0, _NOISE, (count, HEIGHT, WIDTH)).astype(np.float32)
        brightness = random.uniform(0.6, 1.2, (count, len(_SEGMENTS)))
        moved = random.integers((HEIGHT - 6, WIDTH - 3), size=(count, 2))
        for image, label, bright, (down, right) in zip(
            images, labels, brightness, moved, strict=True
        ):
            for number, place in enumerate(_SEGMENTS):
                if _LIT[label] >> number & 1:
                    image[down:, right:][place] += bright[number]
        return cls(images.reshape(count, -1), labels)

    def batches(self, seed: int, rank: int, ranks: int) -> Iterator[Indices]:
        """The part of ``rank`` of each batch of an epoch, in an order that the seed determines.

        The parts of all ranks together are the same for any number of ranks. What does not fill a
        batch is left out, so that all steps weigh the same.
        """
        order = np.random.default_rng(seed).permutation(TRAINING_IMAGES)
        for first in range(0, TRAINING_IMAGES - BATCH + 1, BATCH):
            yield np.array_split(order[first : first + BATCH], ranks)[rank]

    def accuracy(self, model: Perceptron) -> float:
        """Share of the test images that ``model`` recognises."""
        guesses = model.scores(self.images[-TEST_IMAGES:]).argmax(axis=1)
        return float((guesses == self.labels[-TEST_IMAGES:]).mean())


class Perceptron:
    """Two hidden layers with ReLU, trained by stochastic gradient descent with momentum.

    Attributes:
        parameters: weights and biases of all layers, in one array.
        gradient: of the loss by these parameters, in the same order.
    """

    WIDTHS: Final = (HEIGHT * WIDTH, 512, 512, CLASSES)
    LEARNING_RATE: Final = 0.1
    MOMENTUM: Final = 0.9

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        size = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(self.WIDTHS))
        self.parameters = np.zeros(size, np.float32)
        self.gradient = np.zeros(size, np.float32)
        self._velocity = np.zeros(size, np.float32)
        self._layers = list(self._views(self.parameters))
        self._gradients = list(self._views(self.gradient))
        for weights, _ in self._layers:  # He et al. 2015, for ReLU
            weights[:] = random.normal(0, np.sqrt(2 / len(weights)), weights.shape)

    def _views(self, flat: Floats) -> Iterator[tuple[Floats, Floats]]:
        first = 0
        for fan_in, fan_out in pairwise(self.WIDTHS):
            biases = first + fan_in * fan_out
            weights = flat[first:biases].reshape(fan_in, fan_out)
            first = biases + fan_out
            yield weights, flat[biases:first]

    def scores(self, images: Floats) -> Floats:
        """One score of each class for each image, the largest of the most likely class."""
        return self._activations(images)[-1]

    def _activations(self, images: Floats) -> list[Floats]:
        """The input of each layer, and the output of the last."""
        activations = [images]
        for weights, biases in self._layers[:-1]:
            activations.append(np.maximum(activations[-1] @ weights + biases, 0))
        weights, biases = self._layers[-1]
        return [*activations, activations[-1] @ weights + biases]

    def differentiate(self, images: Floats, labels: Labels, batch: int) -> float:
        """Compute the gradient of the cross-entropy of these images, divided by ``batch``.

        The gradients and losses of all parts of a batch add up to those of the batch.

        Returns:
            The loss.
        """
        *inputs, scores = self._activations(images)
        shifted = scores - scores.max(axis=1, keepdims=True)
        logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        rows = np.arange(len(labels))
        errors = np.exp(logarithms)
        errors[rows, labels] -= 1
        errors /= batch
        for (weights, _), (by_weights, by_biases), inputs_here in zip(
            reversed(self._layers), reversed(self._gradients), reversed(inputs), strict=True
        ):
            np.matmul(inputs_here.T, errors, out=by_weights)
            np.sum(errors, axis=0, out=by_biases)
            errors = (errors @ weights.T) * (inputs_here > 0)
        return -float(logarithms[rows, labels].sum()) / batch

    def step(self) -> None:
        """Move the parameters against the gradient."""
        self._velocity *= self.MOMENTUM
        self._velocity += self.gradient
        self.parameters -= self.LEARNING_RATE * self._velocity
