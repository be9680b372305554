"""Rounds are decided once, with those who were ready by then, when the policy says so."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from innet.collectives.partial.rounds import (
    KOfN,
    RoundDecision,
    RoundOutcome,
    RoundTable,
    Terms,
    decision_bytes,
)


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[int, Terms, list[tuple[float, int, int]]]:
    """Group size, terms, and at which time which rank is ready for which round, each in order."""
    size = draw(st.integers(1, 6))
    terms = Terms(KOfN(draw(st.integers(1, size)), draw(st.floats(0, 3))), draw(st.floats(1, 20)))
    events = []
    for rank in range(size):
        pauses = draw(st.lists(st.floats(0, 10), max_size=6))
        at_s = 0.0
        for number, pause_s in enumerate(pauses):
            at_s += pause_s
            events.append((at_s, rank, number))
    return size, terms, sorted(events)


@given(arrivals())
def test_each_round_is_decided_once_by_its_policy(case):
    size, terms, events = case
    table = RoundTable(size)
    decisions: dict[int, tuple[float, RoundDecision]] = {}

    def note(decided, now_s):
        for number, decision in decided:
            assert number not in decisions, "decided twice"
            decisions[number] = now_s, decision

    for at_s, rank, number in [*events, (math.inf, -1, -1)]:
        while (due_s := table.next_deadline_s()) <= at_s and due_s < math.inf:
            decided = table.decide(due_s)
            assert decided, "a deadline that decides nothing would be waited for again at once"
            note(decided, due_s)
        if rank >= 0:
            note(table.ready(rank, number, terms, at_s), at_s)

    for number in {number for _, _, number in events}:
        came = {rank: at_s for at_s, rank, of in events if of == number}
        decided_s, decision = decisions[number]
        in_time = {rank for rank, at_s in came.items() if at_s < decided_s}
        assert in_time <= set(decision.ranks) <= {r for r, s in came.items() if s <= decided_s}
        first_s = min(came.values())
        if decision.outcome is RoundOutcome.IN_VAIN:
            assert len(decision.ranks) < terms.policy.k or decided_s < (
                first_s + terms.policy.deadline_s
            )
            assert decided_s < first_s + terms.timeout_s
        else:
            assert len(decision.ranks) >= terms.policy.k
            assert len(decision.ranks) == size or decided_s >= first_s + terms.policy.deadline_s


def test_the_next_request_to_a_rank_is_for_its_first_undecided_round():
    table = RoundTable(2)
    terms = Terms(KOfN(1), 10)
    table.ready(0, 0, terms, 0.0)
    table.ready(0, 2, terms, 0.0)
    assert table.next_for(0) == 1
    table.ready(1, 1, terms, 0.0)
    assert table.next_for(0) == 3
    assert table.ready(1, 0, terms, 1.0) == [], "it came too late"


@given(st.integers(2, 6), st.data())
def test_a_round_waits_for_no_rank_that_has_left(size, data):
    """With enough ranks for its policy it closes once they are ready; else it names the left."""
    k = data.draw(st.integers(1, size))
    left = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1))
    ready = sorted(data.draw(st.sets(st.sampled_from(sorted(set(range(size)) - left)))))
    table, terms, decided = RoundTable(size), Terms(KOfN(k, 1e6), 1e7), []
    events = data.draw(
        st.permutations([(rank, True) for rank in ready] + [(r, False) for r in left])
    )
    for rank, is_ready in events:
        decided += table.ready(rank, 0, terms, 0.0) if is_ready else table.leave(rank, 0.0)
    enough = size - len(left) >= k
    if ready and not enough:
        ((_, decision),) = decided
        assert decision.outcome is RoundOutcome.LEFT
        assert set(decision.ranks) <= left
        assert size - len(decision.ranks) < k
    elif enough and len(ready) == size - len(left):
        assert decided == [(0, RoundDecision(RoundOutcome.CLOSED, tuple(ready)))]
    else:
        assert decided == []


def test_a_rank_is_in_the_rounds_that_it_announced_before_it_left():
    table, terms = RoundTable(2), Terms(KOfN(2), 10)
    table.ready(1, 0, terms, 0.0)
    assert table.leave(1, 0.0) == []
    assert table.ready(0, 0, terms, 0.0) == [(0, RoundDecision(RoundOutcome.CLOSED, (0, 1)))]
    assert table.ready(0, 1, terms, 0.0) == [(1, RoundDecision(RoundOutcome.LEFT, (1,)))]


def test_ranks_with_different_terms_are_refused_at_once():
    table = RoundTable(3)
    assert table.ready(0, 0, Terms(KOfN(2, 5.0), 60), 0.0) == []
    ((number, decision),) = table.ready(2, 0, Terms(KOfN(3, 5.0), 60), 0.1)
    assert (number, decision.outcome, decision.ranks) == (0, RoundOutcome.DISAGREEMENT, (0, 2))


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_decisions_and_terms_are_decoded_as_encoded(case):
    size, ranks = case
    decision = RoundDecision(RoundOutcome.CLOSED, tuple(sorted(ranks)))
    content = decision.encode(size)
    assert content.nbytes == decision_bytes(size)
    assert RoundDecision.decode(content, size) == decision
    terms = Terms(KOfN(size, 0.125), 3.5)
    assert Terms.decode(terms.encode()) == terms
