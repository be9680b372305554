"""What an attacker gets to know of one rank's values in masked sums: nothing within the bound.

The attacker is the network and the controller together, and some of the ranks: it decides which
messages arrive, and which ranks count as dead for whom. docs/masked-sums.md has the bounds,
under "What it hides, and from whom".
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from innet.collectives.masked import MaskedSum
from innet.errors import InnetError, SecurityError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.collectives.masked.adversary import Coalition, Seen, watching
from tests.collectives.masked.dying_ranks import Death, Died, World
from tests.collectives.masked.ranks import Ranks, whole_numbers

NODES = ("h0", "h1", "h2", "h3", "h4")
THRESHOLD = 3
CALLS_BEFORE_SIGNING = 4


def values_of(node: str) -> np.ndarray:
    return np.full(6, 10 ** NODES.index(node))


def one_sum(comm: Any) -> Any:
    with MaskedSum(comm, limit=1e5, threshold=THRESHOLD) as sums:
        return sums.allreduce(values_of(comm.nodes[comm.rank]))


def require_hidden(rounds: Collection[Seen], colluding: int) -> None:
    """No ``colluding`` ranks read another one, but what they can subtract from the sum itself."""
    for seen in rounds:
        for members in combinations(seen.parts, min(colluding, len(seen.parts) - 1)):
            coalition = Coalition(seen, members)
            sums = [included - set(members) for _, _, included, _ in seen.revealed]
            for victim in set(seen.parts) - set(members):
                if {victim} not in sums:
                    assert coalition.read(victim) is None, f"{members} read rank {victim}"


@pytest.mark.parametrize(
    ("call", "contributors"),
    [(CALLS_BEFORE_SIGNING, NODES[2:]), (CALLS_BEFORE_SIGNING + 1, NODES)],
    ids=["they sign", "they reveal"],
)
def test_revelations_of_fewer_ranks_than_the_threshold_unmask_nothing(call, contributors):
    """Two ranks are a message ahead of the others, say all that they would say, and die.

    Before anybody else knew of a sum with the two, the others unmask one without them, and the two
    have revealed nothing; once others have signed that the two are in it, they remain in it.
    """
    dying = [Death(node, call, speaks=True, ahead=True) for node in ("h0", "h1")]
    with watching() as rounds:
        results = World(NODES, dying).run(one_sum)
    for node in ("h2", "h3", "h4"):
        assert results[node].contributors == contributors
        assert (results[node].total == sum(values_of(node)[0] for node in contributors)).all()
    assert len(rounds) == 1
    require_hidden(rounds.values(), THRESHOLD - 1)


@st.composite
def deaths(draw: st.DrawFn) -> list[Death]:
    """Up to four ranks die, at any of their calls; any of the others hear the last words."""
    some = st.sets(st.sampled_from(NODES))
    dying = draw(st.integers(1, 4))
    return [
        Death(node, draw(st.integers(0, 16)), draw(st.booleans()), draw(some))
        for node in draw(st.permutations(NODES))[:dying]
    ]


@settings(max_examples=60, deadline=None)
@example([Death("h1", 3, True, ("h3",)), Death("h3", 5, True, ("h0",))])
@given(deaths())
def test_remaining_ranks_have_the_sum_or_an_error_whichever_ranks_die(dying):
    with watching() as rounds:
        results = World(NODES, dying).run(one_sum)
    left = [result for result in results.values() if not isinstance(result, Died)]
    if any(isinstance(result, Exception) for result in left):
        # A rank may have had its sum before too few were left to close together.
        assert all(isinstance(result, InnetError) for result in left), left
        assert len(left) < THRESHOLD
    else:
        assert len({result.contributors for result in left}) <= 1
        for result in left:
            expected = np.add.reduce([values_of(node) for node in result.contributors])
            assert (result.total == expected).all()
            assert len(result.contributors) >= THRESHOLD
    require_hidden(rounds.values(), THRESHOLD - 1)


class Attacker:
    """Network, controller and the last ``colluding`` ranks, against the honest ranks' programs."""

    def __init__(self, ranks: int, threshold: int, colluding: int) -> None:
        self.ranks = Ranks(whole_numbers(ranks), threshold)
        self.honest = range(ranks - colluding)
        self.members = range(ranks - colluding, ranks)
        self.seen = Seen(
            dict(enumerate(self.ranks.parts)),
            dict(enumerate(self.ranks.masked)),
            {rank: self.ranks.point.reduced(r) for rank, r in enumerate(self.ranks.residues)},
            self.ranks.point,
        )
        self._signatures: dict[int, bytes] = {}

    def show(self, rank: int, included: Collection[int]) -> None:
        """Tell an honest rank who is in the sum, and have it sign that."""
        with contextlib.suppress(SecurityError):
            self._signatures[rank] = self.ranks.parts[rank].sign(included)

    def ask(self, rank: int, left: Collection[int]) -> bool:
        """Have an honest rank reveal to those ranks; whether it did."""
        part = self.ranks.parts[rank]
        if part._signed is None:
            return False
        statement = part._statement(part._signed)
        signatures = {
            other: self.ranks.parts[other]._signing_key.sign(statement)
            if other in self.members
            else self._signatures.get(other, bytes(64))
            for other in left
        }
        try:
            revealed = part.reveal(signatures)
        except SecurityError:
            return False
        self.seen.revealed.append((rank, frozenset(left), part._signed, revealed))
        return True

    def reads(self) -> set[int]:
        """The honest ranks whose values it can compute."""
        coalition = Coalition(self.seen, self.members)
        read = {rank: coalition.read(rank) for rank in self.honest}
        for rank, residues in read.items():
            assert residues is None or (residues == self.seen.residues[rank]).all()
        return {rank for rank, residues in read.items() if residues is not None}


@st.composite
def attacks(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, set[int], set[int]]]]:
    """Ranks, how many collude, and which honest rank is shown and asked what, in which order."""
    ranks = draw(st.integers(4, 7))
    threshold = 2 * ranks // 3 + 1
    colluding = draw(st.integers(0, 2 * threshold - ranks - 1))
    some = st.sets(st.integers(0, ranks - 1), min_size=threshold)
    moves = st.tuples(st.integers(0, ranks - colluding - 1), some, some)
    return ranks, colluding, draw(st.lists(moves, max_size=24))


@settings(max_examples=60, deadline=None)
@given(attacks())
def test_different_sets_of_survivors_reveal_nothing_within_the_bound(attack):
    ranks, colluding, moves = attack
    attacker = Attacker(ranks, 2 * ranks // 3 + 1, colluding)
    for rank, included, _ in moves:
        attacker.show(rank, included)
    for rank, _, left in moves:
        attacker.ask(rank, left)
    assert attacker.reads() == set()
    assert len({included for _, _, included, _ in attacker.seen.revealed}) <= 1


def split_view(ranks: int, threshold: int, colluding: int) -> Attacker:
    """Rank 0 is in the sum for some honest ranks, and dead for the others."""
    attacker = Attacker(ranks, threshold, colluding)
    honest, members = list(attacker.honest), set(attacker.members)
    with_victim = {*honest[: threshold - colluding], *members}
    without_victim = {*honest[colluding - threshold :], *members}
    for view in (with_victim, without_victim):
        for rank in view - members:
            attacker.show(rank, view)
        for rank in view - members:
            attacker.ask(rank, view)
    return attacker


@pytest.mark.parametrize(("ranks", "threshold", "colluding"), [(5, 4, 2), (7, 5, 2), (8, 6, 3)])
def test_a_split_view_reveals_no_rank_within_the_bound(ranks, threshold, colluding):
    assert 2 * threshold > ranks + colluding
    assert split_view(ranks, threshold, colluding).reads() == set()


def test_a_split_view_beyond_the_bound_reveals_a_rank():
    """The bound is tight; and the attacker of these tests does find what can be found."""
    attacker = split_view(5, 3, 1)
    assert 0 in attacker.reads()


@pytest.mark.parametrize("dropped", [(), (4,)])
def test_fewer_views_than_the_threshold_reveal_no_rank_of_a_complete_round(dropped):
    ranks = Ranks(whole_numbers(5), 4)
    included = set(range(5)) - set(dropped)
    seen = Seen(dict(enumerate(ranks.parts)), dict(enumerate(ranks.masked)), {}, ranks.point)
    for sender, messages in ranks.revealed(included).items():
        seen.revealed.append((sender, frozenset(included), frozenset(included), messages))
    require_hidden([seen], 3)


def test_a_rank_that_has_signed_does_not_restart_its_sum(monkeypatch):
    """A liar says that nobody had masked yet, so that two sums of the same values would differ."""
    from innet.collectives.masked.round_sequence import RoundSequence

    def lie(sequence: RoundSequence) -> np.ndarray:
        progress = np.array([sequence._ended, 0], np.int64)
        return sequence.communicator.allgather(progress)

    monkeypatch.setattr(RoundSequence, "_progress", lie)
    with watching() as rounds:
        results = World(NODES, [Death("h4", CALLS_BEFORE_SIGNING + 1)]).run(one_sum)
    for node in NODES[:4]:
        assert isinstance(results[node], InnetError)
        assert "has signed who is in this sum" in str(results[node])
    assert len(rounds) == 1
    require_hidden(rounds.values(), THRESHOLD - 1)


def test_a_rank_that_has_masked_cannot_be_made_to_retry(monkeypatch):
    """A liar says that the sum was refused: who repeats the update would be in two sums."""
    from innet.collectives.masked.round_sequence import MaskedEnd, MaskedOutcome, RoundSequence

    end = RoundSequence._end

    def lying_end(sequence: RoundSequence, outcome: MaskedOutcome) -> MaskedOutcome:
        ended = end(sequence, outcome)
        if outcome.end is MaskedEnd.SUMMED:
            sequence._last = MaskedOutcome(MaskedEnd.REFUSED, "rank 0 (h0) takes no part")
        return ended

    monkeypatch.setattr(RoundSequence, "_end", lying_end)
    last_call = CALLS_BEFORE_SIGNING + 1
    results = World(NODES, [Death("h4", last_call, speaks=True, heard_by=("h0",))]).run(one_sum)
    assert results["h0"].contributors == NODES
    for node in NODES[1:4]:
        assert isinstance(results[node], SecurityError)
        assert "all ranks had begun it" in str(results[node])


def test_revelations_are_unreadable_on_a_link():
    """The secrets that unmask the sum are encrypted for the ranks: a listener has not even it."""
    seen = bytearray()

    def overhear(datagram: bytes) -> list[bytes]:
        seen.extend(datagram)
        return [datagram]

    links = {(f"h{rank}", "s0"): overhear for rank in range(3)}
    with watching() as rounds, Cluster(load_topology("star:3"), tamper=links) as cluster:
        results = cluster.run(
            lambda comm: MaskedSum(comm, limit=1e5).allreduce(np.full(64, comm.rank + 1))
        )
    assert all((result.total == 6).all() for result in results)
    (in_the_round,) = rounds.values()
    for part in in_the_round.parts.values():
        assert part.advertise() in seen  # what it listens to are the rounds' messages
        assert part._seed not in seen
        for shares in part._shares.values():
            assert shares[:66] not in seen
            assert shares[66:] not in seen
