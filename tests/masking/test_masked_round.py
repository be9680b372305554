"""Rounds of masked aggregation: the sum of those who are left, and nothing else."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.errors import CollectiveError, SecurityError
from innet.masking.fixed_point import FixedPoint
from innet.masking.masked_round import MaskedRound
from innet.masking.shamir import SHARE_BYTES, combine, split

SIZE = 5


class Ranks:
    """All ranks of a round, and what they have said up to the masked residues."""

    def __init__(self, values: Sequence[np.ndarray], threshold: int, seed: int = 0) -> None:
        count = len(values)
        self.point = FixedPoint.of(values[0].dtype, count, 100.0)
        source = random.Random(seed)
        self.parts = [
            MaskedRound(rank, count, threshold, b"test", source.randbytes) for rank in range(count)
        ]
        self.advertised = [part.advertise() for part in self.parts]
        self.dealt = [part.deal(self.advertised) for part in self.parts]
        self.masked = [
            part.mask(self.point.encode(value), self.point, self.dealt_to(rank))
            for rank, (part, value) in enumerate(zip(self.parts, values, strict=True))
        ]

    def dealt_to(self, rank: int) -> list[bytes]:
        return [messages[rank] for messages in self.dealt]

    def sum_without(
        self, dropped: Collection[int], silent: Collection[int] = (), at: int | None = None
    ) -> np.ndarray:
        """What a rank unmasks when some have dropped out, and some more reveal nothing."""
        left = [rank for rank in range(len(self.parts)) if rank not in dropped]
        revealed = {r: self.parts[r].reveal(dropped) for r in left if r not in silent}
        total = np.add.reduce([self.masked[rank] for rank in left])
        unmasking = self.parts[left[0] if at is None else at]
        return self.point.decode(unmasking.unmask(total, self.point, dropped, revealed))


def whole_numbers(count: int, seed: int = 1) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(-100, 101, (count, SIZE)))


@st.composite
def rounds(draw: st.DrawFn) -> tuple[int, int, set[int], set[int]]:
    count = draw(st.integers(1, 7))
    threshold = draw(st.integers(count // 2 + 1, count))
    gone = draw(st.sets(st.integers(0, count - 1), max_size=count - threshold))
    dropped = {rank for rank in gone if draw(st.booleans())}
    return count, threshold, dropped, gone - dropped


@settings(max_examples=30, deadline=None)
@given(rounds(), st.integers(0, 2**32))
def test_whoever_drops_out_the_sum_is_that_of_the_others(drawn, seed):
    count, threshold, dropped, silent = drawn
    values = whole_numbers(count, seed)
    ranks = Ranks(values, threshold, seed)
    left = [value for rank, value in enumerate(values) if rank not in dropped]
    assert (ranks.sum_without(dropped, silent) == np.add.reduce(left)).all()


def test_masked_residues_look_nothing_like_values_and_differ_each_round():
    zeros = [np.zeros(4096, np.float32)] * 3
    first, second = Ranks(zeros, 2, seed=1), Ranks(zeros, 2, seed=2)
    for ranks in (first, second):
        for residues in ranks.masked:
            ones = np.unpackbits(residues.view(np.uint8)).reshape(-1, 32).mean(axis=0)
            filled = np.sort(ones)[-ranks.point.ring_bits :]
            assert (np.abs(filled - 0.5) < 0.05).all()
    assert (first.masked[0] != second.masked[0]).mean() > 0.99


def test_no_rank_unmasks_for_two_sets_of_ranks():
    ranks = Ranks(whole_numbers(4), 3)
    ranks.parts[0].reveal({3})
    ranks.parts[0].reveal({3})
    with pytest.raises(SecurityError, match="two sets of ranks"):
        ranks.parts[0].reveal(())


def test_below_the_threshold_nothing_is_revealed_and_nothing_unmasked():
    ranks = Ranks(whole_numbers(5), 4)
    with pytest.raises(SecurityError, match="3 of 5 ranks are left"):
        ranks.parts[0].reveal({3, 4})
    revealed = {rank: ranks.parts[rank].reveal(()) for rank in range(3)}
    with pytest.raises(SecurityError, match="3 ranks have revealed"):
        ranks.parts[0].unmask(ranks.masked[0], ranks.point, (), revealed)


def test_a_late_message_of_a_rank_that_dropped_out_stays_masked():
    """What all ranks reveal removes its masks with others, and not the one of its own seed."""
    values = whole_numbers(4)
    ranks = Ranks(values, 3)
    revealed = {rank: ranks.parts[rank].reveal({3}) for rank in range(3)}
    at = slice(3 * SHARE_BYTES, 4 * SHARE_BYTES)
    key = combine({rank: shares[at] for rank, shares in revealed.items()})
    assert key == ranks.parts[3]._mask_key.private_bytes_raw()
    assert key != ranks.parts[3]._seed


@pytest.mark.parametrize("dropped", [(), (2,)])
def test_a_wrong_share_is_found(dropped):
    ranks = Ranks(whole_numbers(3), 2)
    left = [rank for rank in range(3) if rank not in dropped]
    revealed = {rank: bytearray(ranks.parts[rank].reveal(dropped)) for rank in left}
    revealed[1][2 * SHARE_BYTES + 50] ^= 1
    total = np.add.reduce([ranks.masked[rank] for rank in left])
    told = {rank: bytes(shares) for rank, shares in revealed.items()}
    with pytest.raises(SecurityError, match="wrong"):
        ranks.parts[0].unmask(total, ranks.point, dropped, told)


def test_shares_that_were_changed_on_the_way_or_are_for_another_are_found():
    ranks = Ranks(whole_numbers(3), 2)
    swapped = ranks.dealt_to(0)
    swapped[1], swapped[2] = swapped[2], swapped[1]
    ranks.parts[0].mask(ranks.point.encode(np.zeros(SIZE, int)), ranks.point, swapped)
    with pytest.raises(SecurityError, match="rank 1 has dealt to rank 0"):
        ranks.parts[0].reveal(())


@pytest.mark.parametrize("keys", [[], [b"short"] * 3, [bytes(96)] * 3])
def test_keys_that_no_rank_makes_are_refused(keys):
    part = MaskedRound(0, 3, 2, b"test")
    with pytest.raises(SecurityError):
        part.deal(keys)


@pytest.mark.parametrize(("ranks", "threshold"), [(4, 2), (4, 5), (3, 1), (3, 0)])
def test_thresholds_that_would_unmask_two_ways_are_refused(ranks, threshold):
    with pytest.raises(CollectiveError, match="more than half"):
        MaskedRound(0, ranks, threshold, b"test")


@settings(max_examples=50)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 8), st.integers(0, 8), st.randoms())
def test_any_shares_that_reach_the_threshold_give_the_secret(secret, threshold, more, source):
    shares = dict(enumerate(split(secret, threshold, threshold + more, source.randbytes)))
    chosen = source.sample(sorted(shares), threshold)
    assert combine({rank: shares[rank] for rank in chosen}) == secret


def test_fewer_shares_than_the_threshold_do_not_give_the_secret():
    secret = bytes(range(32))
    shares = split(secret, 3, 5)
    for pair in ((0, 1), (2, 4)):
        with contextlib.suppress(SecurityError):  # the field is larger than a secret: almost always
            assert combine({rank: shares[rank] for rank in pair}) != secret
