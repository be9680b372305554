"""The demonstration's training is the same however many ranks share its batches."""

from __future__ import annotations

import numpy as np
import pytest

from innet.lab.demo.digits import BATCH, TEST_IMAGES, TRAINING_IMAGES, Digits, Perceptron


def test_a_seed_determines_the_images() -> None:
    digits, again = Digits.draw(7), Digits.draw(7)
    assert np.array_equal(digits.images, again.images)
    assert np.array_equal(digits.labels, again.labels)
    assert not np.array_equal(digits.labels, Digits.draw(8).labels)
    assert len(digits.images) == TRAINING_IMAGES + TEST_IMAGES


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_shares_of_all_ranks_add_up_to_the_batch(ranks: int) -> None:
    digits, whole, part = Digits.draw(1), Perceptron(1), Perceptron(1)
    (batch, *_) = digits.batches(5, 0, 1)
    loss = whole.differentiate(digits.images[batch], digits.labels[batch], BATCH)
    losses, gradient = 0.0, np.zeros_like(whole.gradient)
    for rank in range(ranks):
        (mine, *_) = digits.batches(5, rank, ranks)
        losses += part.differentiate(digits.images[mine], digits.labels[mine], BATCH)
        gradient += part.gradient
    assert losses == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(gradient, whole.gradient, rtol=1e-3, atol=1e-6)


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    digits, model = Digits.draw(1), Perceptron(1)
    images, labels = digits.images[:64], digits.labels[:64]

    def loss_after(change: np.ndarray) -> float:
        model.parameters += change
        loss = model.differentiate(images, labels, 64)
        model.parameters -= change
        return loss

    model.differentiate(images, labels, 64)
    direction = model.gradient / np.linalg.norm(model.gradient)
    expected = float(np.linalg.norm(model.gradient))
    slope = (loss_after(1e-2 * direction) - loss_after(-1e-2 * direction)) / 2e-2
    assert slope == pytest.approx(expected, rel=0.05)
