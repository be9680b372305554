"""Rounds of masked aggregation: the sum of the ranks that are left, and nothing else."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.collectives.masked.masked_round import MaskedRound
from innet.collectives.masked.primitives import combine, split
from innet.errors import CollectiveError, SecurityError
from tests.collectives.masked.ranks import Ranks, whole_numbers


@st.composite
def rounds(draw: st.DrawFn) -> tuple[int, int, set[int], set[int]]:
    count = draw(st.integers(1, 7))
    threshold = draw(st.integers(count // 2 + 1, count))
    gone = draw(st.sets(st.integers(0, count - 1), max_size=count - threshold))
    dropped = {rank for rank in gone if draw(st.booleans())}
    return count, threshold, dropped, gone - dropped


@settings(max_examples=30, deadline=None)
@given(rounds(), st.integers(0, 2**32))
def test_the_sum_is_that_of_the_remaining_ranks_whichever_drop_out(drawn, seed):
    count, threshold, dropped, silent = drawn
    values = whole_numbers(count, seed)
    ranks = Ranks(values, threshold, seed)
    included = set(range(count)) - dropped
    for total in ranks.sums(included, left=included - silent).values():
        assert (total == np.add.reduce([values[rank] for rank in included])).all()


def test_masked_residues_look_nothing_like_values_and_differ_each_round():
    zeros = [np.zeros(4096, np.float32)] * 3
    first, second = Ranks(zeros, 2, seed=1), Ranks(zeros, 2, seed=2)
    for ranks in (first, second):
        for residues in ranks.masked:
            ones = np.unpackbits(residues.view(np.uint8)).reshape(-1, 32).mean(axis=0)
            filled = np.sort(ones)[-ranks.point.ring_bits :]
            assert (np.abs(filled - 0.5) < 0.05).all()
    assert (first.masked[0] != second.masked[0]).mean() > 0.99


def test_no_rank_signs_two_sets_of_ranks_in_one_round():
    ranks = Ranks(whole_numbers(4), 3)
    assert ranks.parts[0].sign({0, 1, 2}) == ranks.parts[0].sign({0, 1, 2})
    with pytest.raises(SecurityError, match="signed another set"):
        ranks.parts[0].sign({0, 1, 2, 3})


def test_below_the_threshold_nothing_is_signed_or_revealed():
    ranks = Ranks(whole_numbers(5), 4)
    with pytest.raises(SecurityError, match="3 of 5 ranks are in the sum"):
        ranks.parts[0].sign({0, 1, 2})
    signatures = {rank: ranks.parts[rank].sign(range(5)) for rank in range(3)}
    with pytest.raises(SecurityError, match="3 of 5 ranks are left"):
        ranks.parts[0].reveal(signatures)


def test_a_rank_does_not_sign_a_set_without_itself():
    with pytest.raises(SecurityError, match="rank 3 is said to be missing"):
        Ranks(whole_numbers(4), 3).parts[3].sign({0, 1, 2})


def test_nothing_is_revealed_before_all_remaining_ranks_sign_the_same_set():
    ranks = Ranks(whole_numbers(4), 3)
    everybody, without_one = set(range(4)), {0, 1, 2}
    others = {1: ranks.parts[1].sign(everybody), 2: ranks.parts[2].sign(everybody)}
    with pytest.raises(SecurityError, match="before it has signed"):
        ranks.parts[0].reveal({0: bytes(64), **others})
    own = ranks.parts[0].sign(without_one)
    with pytest.raises(SecurityError, match=r"\[1, 2\] have not"):
        ranks.parts[0].reveal({0: own, **others})


def test_signatures_of_another_round_do_not_count():
    first, second = Ranks(whole_numbers(3), 3, seed=1), Ranks(whole_numbers(3), 3, seed=2)
    old = {rank: part.sign(range(3)) for rank, part in enumerate(first.parts)}
    second.parts[0].sign(range(3))
    with pytest.raises(SecurityError, match=r"\[1, 2\] have not"):
        second.parts[0].reveal(old)


def test_no_rank_has_a_share_of_its_own_secrets():
    for rank, part in enumerate(Ranks(whole_numbers(4), 3).parts):
        assert rank not in part._shares


def test_a_successor_of_a_rank_can_neither_sign_nor_reveal_in_its_round():
    """Secrets of a round are in memory only: who has the rank's place and name has none of them."""
    ranks = Ranks(whole_numbers(4), 3)
    successor = MaskedRound(1, 4, 3, b"test")
    own = successor.advertise()
    successor.deal([own if rank == 1 else told for rank, told in enumerate(ranks.advertised)])
    with pytest.raises(SecurityError, match="rank 0 dealt to rank 1"):
        successor.receive(ranks.dealt_to(1))
    with pytest.raises(SecurityError, match="does not have the shares"):
        successor.sign(range(4))
    signatures = {rank: ranks.parts[rank].sign(range(4)) for rank in (0, 2, 3)}
    forged = successor._signing_key.sign(ranks.parts[0]._statement(frozenset(range(4))))
    with pytest.raises(SecurityError, match=r"\[1\] have not"):
        ranks.parts[0].reveal({1: forged, **signatures})


@pytest.mark.parametrize("part_of_message", ["seed", "share"])
def test_a_wrong_secret_is_detected(part_of_message):
    ranks = Ranks(whole_numbers(4), 3)
    if part_of_message == "seed":
        ranks.parts[1]._seed = bytes(32)
    else:
        shares = ranks.parts[1]._shares[3]
        ranks.parts[1]._shares[3] = bytes([shares[0], *(~byte & 255 for byte in shares[1:])])
    with pytest.raises(SecurityError, match="wrong"):
        ranks.sums({0, 1, 2, 3}, left={0, 1, 2})


def test_a_changed_or_misdirected_revelation_is_refused():
    ranks = Ranks(whole_numbers(3), 2)
    sealed = ranks.revealed(range(3))
    for message in (sealed[1][2], bytes(len(sealed[1][0]))):
        with pytest.raises(SecurityError, match="rank 1 has revealed nothing"):
            ranks.parts[0].unmask(ranks.masked[0], ranks.point, {1: message, 2: sealed[2][0]})


def test_changed_or_misdirected_shares_are_detected():
    ranks = Ranks(whole_numbers(3), 2)
    swapped = ranks.dealt_to(0)
    swapped[1], swapped[2] = swapped[2], swapped[1]
    with pytest.raises(SecurityError, match="rank 1 dealt to rank 0"):
        ranks.parts[0].receive(swapped)


@pytest.mark.parametrize("keys", [[], [b"short"] * 3, [bytes(128)] * 3])
def test_invalid_public_keys_are_refused(keys):
    part = MaskedRound(0, 3, 2, b"test")
    with pytest.raises(SecurityError):
        part.deal(keys)


@pytest.mark.parametrize(("ranks", "threshold"), [(4, 2), (4, 5), (3, 1), (3, 0)])
def test_thresholds_that_allow_two_unmaskings_are_refused(ranks, threshold):
    with pytest.raises(CollectiveError, match="more than half"):
        MaskedRound(0, ranks, threshold, b"test")


@settings(max_examples=50)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 8), st.integers(0, 8), st.randoms())
def test_any_shares_that_reach_the_threshold_give_the_secret(secret, threshold, more, source):
    shares = split(secret, threshold, range(threshold + more), source.randbytes)
    chosen = source.sample(sorted(shares), threshold)
    assert combine({rank: shares[rank] for rank in chosen}) == secret


def test_fewer_shares_than_the_threshold_do_not_give_the_secret():
    secret = bytes(range(32))
    shares = split(secret, 3, range(5))
    for pair in ((0, 1), (2, 4)):
        with contextlib.suppress(SecurityError):  # the field is larger than a secret: almost always
            assert combine({rank: shares[rank] for rank in pair}) != secret
