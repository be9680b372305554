"""Losses of links whose ends are read at different moments: found where there are, only there."""

from __future__ import annotations

import bisect
import copy
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.run_status import RunReader
from innet.observe.doctor.checks.links import LossyLink
from innet.observe.doctor.observation import RunObserver, reading_phases
from innet.topology import load_topology

from .states import TOPOLOGY, State, read_in_order

_PACKET_BYTES = 8000
_QUEUE_PACKETS = TOPOLOGY.links[0].queue_bytes // _PACKET_BYTES
_PACE_S = _PACKET_BYTES / (100_000_000 / 8)


@dataclass
class _Traffic:
    """Packets of h0 to s0: when each was sent, and when those that were not lost arrived."""

    sent: list[float]
    arrived: list[float]
    dropped: list[float]


def _traffic(bursts: list[tuple[float, int]], lost_every: int = 0) -> _Traffic:
    """What a link with a rate and a queue makes of bursts, each a time and its packets."""
    sent: list[float] = []
    arrived: list[float] = []
    dropped: list[float] = []
    free_s, number = -10.0, 0
    for begin_s, packets in sorted(bursts):
        for _ in range(packets):
            number += 1
            sent.append(begin_s)
            if free_s > begin_s + _PACE_S * (_QUEUE_PACKETS - 1):
                dropped.append(begin_s)
                continue
            free_s = max(free_s, begin_s) + _PACE_S
            if not lost_every or number % lost_every:
                arrived.append(free_s)
    return _Traffic(sent, arrived, dropped)


def _look(state: State, look: str, traffic: _Traffic, read_h0_s: float, read_s0_s: float) -> None:
    out, into = state.face("h0", "s0", look), state.face("s0", "h0", look)
    sent = bisect.bisect_right(traffic.sent, read_h0_s)
    out["data_out"], out["bytes_out"] = sent, sent * _PACKET_BYTES
    out["port"]["dropped_queue"] = bisect.bisect_right(traffic.dropped, read_h0_s)
    into["data_in"] = bisect.bisect_right(traffic.arrived, read_s0_s)


_bursts = st.lists(st.tuples(st.floats(-1.5, 1.5), st.integers(1, 400)), max_size=12)
_delays = st.floats(0, 0.2)


@st.composite
def _readings(draw: st.DrawFn, begin_s: float) -> dict[str, tuple[float, float, float]]:
    """By node: asked, read, answered; in any order, or at the same time."""
    times = {}
    for node in ("h0", "s0"):
        asked_s = begin_s + draw(_delays)
        read_s = asked_s + draw(_delays)
        times[node] = (asked_s, read_s, read_s + draw(_delays))
    return times


@given(
    bursts=_bursts,
    third=_readings(-1),
    before=_readings(0),
    after=_readings(1),
    middle=st.booleans(),
)
def test_no_loss_is_reported_without_one_at_any_time_of_reading(
    bursts, third, before, after, middle
):
    state, traffic = State(), _traffic(bursts)
    if middle:
        state.third = copy.deepcopy(state.before)
        for answer in state.third.values():
            answer["uptime_s"] -= 1.0
    for look, times in (("third", third), ("before", before), ("after", after)):
        if look == "third" and not middle:
            continue
        _look(state, look, traffic, times["h0"][1], times["s0"][1])
        read_at = {node: (asked, answered) for node, (asked, _, answered) in times.items()}
        setattr(state, f"read_{look}", read_at)
    assert list(LossyLink().findings(state.observation())) == []


@given(
    begins_s=st.floats(-1.5, -0.5),
    packets=st.integers(20, 60),
    lost_every=st.integers(2, 5),
    receiver_first=st.booleans(),
)
def test_a_loss_is_reported_after_three_readings(begins_s, packets, lost_every, receiver_first):
    """Whichever end the first look reads first, one of the two pairs of looks tells it."""
    state = State()
    bursts = [(begins_s + step / 50, packets) for step in range(150)]
    traffic = _traffic(bursts, lost_every)
    state.third = copy.deepcopy(state.before)
    for answer in state.third.values():
        answer["uptime_s"] -= 1.0
    order = ("s0", "h0") if receiver_first else ("h0", "s0")
    for look, begin_s in (("third", -1.0), ("before", 0.0), ("after", 1.0)):
        read_at = read_in_order(begin_s, *order, "h1")
        setattr(state, f"read_{look}", read_at)
        _look(state, look, traffic, read_at["h0"][1], read_at["s0"][1])
        order = order[::-1]
    (finding,) = LossyLink().findings(state.observation())
    assert finding.subject == "h0→s0"
    assert finding.cause == "link"


def test_a_loss_is_detected_in_few_segments_of_many_datagrams():
    state = State()
    state.send("h0", "s0", 150, arrived=60)
    assert list(LossyLink().findings(state.observation())) == []
    state.face("h0", "s0")["bytes_out"] = 150 * 64_000
    (finding,) = LossyLink().findings(state.observation())
    assert finding.subject == "h0→s0"


def test_neighbours_are_read_in_different_phases():
    for spec in ("star:8", "leaf-spine-16", "fat-tree:4", "dumbbell:4"):
        topology = load_topology(spec)
        phases = reading_phases(topology)
        phase_of = {name: number for number, phase in enumerate(phases) for name in phase}
        assert sorted(phase_of) == sorted(topology.nodes)
        for link in topology.links:
            near, far = link.nodes
            assert phase_of[near] != phase_of[far]


def test_readings_alternate_their_order(monkeypatch):
    run = State().observation().after.status
    asked = []

    def read(_reader, _record, _timeout_s, phases):
        asked.append(copy.deepcopy(phases))
        return run

    monkeypatch.setattr(RunReader, "read", read)
    observer = RunObserver(TOPOLOGY)
    for _ in range(3):
        observer.look(run.run)
    assert sorted(map(sorted, asked[0])) == [["h0", "h1"], ["s0"]]
    assert asked == [asked[0], asked[0][::-1], asked[0]]
