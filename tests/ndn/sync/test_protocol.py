"""The state machine, by hand: what the specification's sections 4 and 5 say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.ndn import Name
from innet.ndn.sync import Member, StateVector, SyncLimits, SyncProtocol, SyncTiming, Update
from tests.ndn.sync.strategies import vectors

WALL_S = 1_700_000_000.0
TIMING = SyncTiming(period_s=30.0, suppression_s=0.2)
A, B, C = (Member(Name(f"/{name}"), 1_636_266_330) for name in "ABC")


def member(
    who: Member = B, vector: StateVector | None = None, limits: SyncLimits | None = None
) -> SyncProtocol:
    """A member that has joined at 0 and asked what there is."""
    protocol = SyncProtocol(who, TIMING, lambda: 0.5, 0.0, vector, limits)
    assert protocol.deadline_s == 0.0
    assert protocol.on_timer(0.0)
    return protocol


def hear(protocol: SyncProtocol, vector: StateVector, now_s: float) -> list[Update]:
    return protocol.on_vector(vector, now_s, WALL_S).updates


def test_new_publications_are_reported_once_as_a_range() -> None:
    protocol = member()
    assert hear(protocol, StateVector({A: 3}), 1.0) == [Update(A, 1, 3)]
    assert hear(protocol, StateVector({A: 3}), 2.0) == []
    assert hear(protocol, StateVector({A: 5}), 3.0) == [Update(A, 4, 5)]
    assert protocol.vector == StateVector({A: 5})


def test_the_names_of_an_update() -> None:
    names = [str(name) for name in Update(A, 2, 3).names(Name("/chat/room"))]
    assert names == [
        "/A/chat/room/t=1636266330/seq=2",
        "/A/chat/room/t=1636266330/seq=3",
    ]


def test_a_publication_has_the_next_number_and_postpones_the_periodic_interest() -> None:
    protocol = member()
    assert [protocol.publish(10.0), protocol.publish(11.0)] == [1, 2]
    assert protocol.vector == StateVector({B: 2})
    assert protocol.deadline_s == pytest.approx(41.0)
    assert protocol.on_timer(41.0)


def test_a_known_vector_postpones_the_periodic_interest() -> None:
    protocol = member(vector=StateVector({A: 1}))
    hear(protocol, StateVector({A: 1}), 20.0)
    assert protocol.deadline_s == pytest.approx(50.0)
    assert not protocol.suppressed


def test_an_outdated_vector_is_answered_unless_another_member_answers_first() -> None:
    first, second = member(B, StateVector({A: 2, C: 1})), member(C, StateVector({A: 2, C: 1}))
    late = StateVector({A: 1, C: 1})
    for protocol in (first, second):
        hear(protocol, late, 10.0)
        assert protocol.suppressed
        assert 10.0 < protocol.deadline_s <= 10.2
    assert first.on_timer(first.deadline_s)
    hear(second, first.vector, 10.1)
    assert second.suppressed
    assert not second.on_timer(second.deadline_s)
    assert not second.suppressed
    assert second.deadline_s == pytest.approx(40.2, abs=0.01)


def test_a_recent_publication_is_not_repeated() -> None:
    protocol = member(vector=StateVector({A: 1}))
    protocol.publish(10.0)
    hear(protocol, StateVector({A: 1}), 10.1)
    assert not protocol.suppressed
    hear(protocol, StateVector({A: 1}), 10.3)
    assert protocol.suppressed


def test_a_publication_replaces_a_pending_answer() -> None:
    protocol = member(vector=StateVector({A: 2}))
    hear(protocol, StateVector({A: 1}), 10.0)
    protocol.publish(10.05)
    assert not protocol.suppressed
    assert protocol.deadline_s == pytest.approx(40.05)


def test_a_member_without_its_state_uses_a_new_bootstrap_time() -> None:
    # Example 5.3.
    before = StateVector({A: 10, B: 16, C: 25})
    reborn = Member(A.node, 1_736_266_473)
    others = [member(B, before), member(C, before)]
    again = member(reborn)
    again.publish(100.0)
    for other in others:
        other_updates = other.on_vector(again.vector, 100.1, float(reborn.bootstrap_s)).updates
        assert other_updates == [Update(reborn, 1, 1)]
        assert other.suppressed
    assert others[0].on_timer(100.2)
    again.on_vector(others[0].vector, 100.3, float(reborn.bootstrap_s))
    assert again.vector == StateVector({A: 10, B: 16, C: 25, reborn: 1})


def test_a_bootstrap_time_in_the_future_is_ignored() -> None:
    protocol = member()
    at_the_edge = Member(A.node, int(WALL_S) + 86_400)
    beyond = Member(A.node, int(WALL_S) + 86_401)
    heard = protocol.on_vector(StateVector({beyond: 1, C: 1}), 1.0, WALL_S)
    assert heard == ([Update(C, 1, 1)], ["/A begins in the future"])
    assert protocol.vector == StateVector({C: 1})
    assert hear(protocol, StateVector({at_the_edge: 1}), 1.0)


def test_other_members_cannot_raise_a_members_number() -> None:
    protocol = member(A)
    protocol.publish(1.0)
    assert hear(protocol, StateVector({A: 2**64 - 1, C: 1}), 10.0) == [Update(C, 1, 1)]
    assert protocol.vector == StateVector({A: 1, C: 1})
    assert not protocol.suppressed  # nobody is told what he would not believe
    assert protocol.publish(11.0) == 2


@pytest.mark.parametrize("number", [1_000_006, 2**64 - 1])
def test_an_impossible_number_suppresses_nobody(number: int) -> None:
    protocol = member(vector=StateVector({A: 5}))
    heard = protocol.on_vector(StateVector({A: number, C: 1}), 1.0, WALL_S)
    assert heard.updates == [Update(C, 1, 1)]
    assert "more than 1000000 above" in heard.doubts[0]
    assert protocol.vector == StateVector({A: 5, C: 1})
    assert not protocol.suppressed  # nobody is told what he would say otherwise again
    assert hear(protocol, StateVector({A: 6}), 2.0) == [Update(A, 6, 6)]
    assert hear(protocol, StateVector({A: 1_000_006}), 3.0) == [Update(A, 7, 1_000_006)]


def test_a_late_member_learns_of_all_earlier_members() -> None:
    protocol = member()
    heard = hear(protocol, StateVector({A: 5_000_000, C: 1}), 1.0)
    assert heard == [Update(A, 4_000_001, 5_000_000), Update(C, 1, 1)]
    assert protocol.vector == StateVector({A: 5_000_000, C: 1})


def test_invented_members_leave_room_in_the_packet() -> None:
    protocol = member(limits=SyncLimits(vector_bytes=500))
    made_up = [Member(Name(f"/made-up/{i}"), 1) for i in range(200)]
    for one in made_up:
        hear(protocol, StateVector({one: 1}), 1.0)
    assert len(protocol.vector) > 10
    assert len(protocol.vector.encode()) <= 500
    (known, *_) = protocol.vector
    assert hear(protocol, StateVector({known: 2, A: 1, C: 1}), 2.0) == [Update(known, 2, 2)]

    at_once = member(limits=SyncLimits(vector_bytes=500))
    hear(at_once, StateVector(dict.fromkeys([A, *made_up], 1)), 1.0)
    assert at_once.vector[A] == 1
    assert 450 < len(at_once.vector.encode()) <= 500


@given(st.floats(0, 1, exclude_max=True))
def test_suppression_takes_at_most_its_period(draw: float) -> None:
    protocol = SyncProtocol(B, TIMING, lambda: draw, 0.0, StateVector({A: 1}))
    protocol.on_timer(0.0)
    hear(protocol, StateVector(), 1.0)
    waited_s = protocol.deadline_s - 1.0
    assert 0 <= waited_s <= TIMING.suppression_s + 1e-9
    expected_s = 0.2 * (1 - math.exp((draw - 1) * 10))
    assert waited_s == pytest.approx(expected_s, abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from("pht"), vectors), max_size=12))
def test_known_publications_are_never_lost(events: list[tuple[str, StateVector]]) -> None:
    protocol = member(limits=SyncLimits(most_new=2**34))
    now_s = 0.0
    for kind, vector in events:
        now_s += 0.07
        before = protocol.vector
        if kind == "p":
            protocol.publish(now_s)
        elif kind == "h":
            protocol.on_vector(vector, now_s, 2.0**41)
            assert not protocol.vector.outdated_members(vector)
        if now_s >= protocol.deadline_s:
            protocol.on_timer(now_s)
        assert not protocol.vector.outdated_members(before)
        assert protocol.deadline_s >= now_s
