"""The state of the live view: what nodes report becomes frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.observe.web.document import Frame, Picture, Wait, picture_of
from innet.observe.web.view_state import LookResult, ViewState
from innet.telemetry.messages import LauncherStatus, MachineStatus
from innet.topology import load_topology
from tests.observe.web.reports import counters, status


@pytest.fixture
def picture() -> Picture:
    return picture_of(load_topology("star4"), "lab", "local")


@pytest.fixture
def state(picture) -> ViewState:
    return ViewState(picture)


def _direction(picture: Picture, source: str, to: str) -> int:
    names = [node.name for node in picture.nodes]
    for number, link in enumerate(picture.links):
        ends = (names[link.a], names[link.b])
        if ends in ((source, to), (to, source)):
            return 2 * number + (ends != (source, to))
    raise AssertionError((source, to))


def test_the_rate_of_a_direction_follows_its_sender(state, picture):
    state.take_counters(counters("h0", 10, {"s0": 1000}), 10)
    state.take_counters(counters("h0", 12, {"s0": 251_000}), 12)
    bps = state.frame(12).links.bps
    assert bps[_direction(picture, "h0", "s0")] == 1_000_000
    assert bps[_direction(picture, "s0", "h0")] is None


def test_a_restarted_node_has_no_negative_rate(state, picture):
    state.take_counters(counters("h0", 10, {"s0": 1000}, uptime_s=10), 10)
    state.take_counters(counters("h0", 12, {"s0": 0}, uptime_s=1), 12)
    assert state.frame(12).links.bps[_direction(picture, "h0", "s0")] is None


def test_states_of_nodes(state):
    for node in ("h0", "h1", "h2", "h3", "s0"):
        state.take_status(status(node))
        state.take_counters(counters(node, 10, {}), 10)
    state.take_status(status("h1", "gone"))
    state.take_status(status("h2", "stopped"))
    assert state.frame(11).states == {"h1": "lost", "h2": "off"}
    state.take_look(LookResult(states={"h0": "up", "h3": "stopped", "s0": "restarting"}))
    states = {"h1": "lost", "h2": "off", "h3": "stopped", "s0": "restarting"}
    assert state.frame(11).states == states


def test_the_nodes_of_a_lost_machine_are_lost_also_without_looks(state):
    machine = MachineStatus(
        name="m1", state="lost", address="10.0.0.2", since_s=5.0, why="it is gone",
        nodes=("h1", "h2"), ran=("h1",),
    )  # fmt: skip
    launcher = LauncherStatus(
        run="lab", state="up", topology="star-4", mode="cluster", pid=1, since_s=0.0,
        nodes=("s0", "h0", "h1", "h2", "h3"), machines=(machine,),
    )  # fmt: skip
    state.take_launcher(launcher)
    assert state.frame(6).states == {
        "h0": "off",
        "h1": "lost",
        "h2": "lost",
        "h3": "off",
        "s0": "off",
    }
    (shown,) = state.frame(6).machines
    assert (shown.name, shown.state, shown.ran) == ("m1", "lost", ("h1",))


def test_a_node_without_reports_is_silent_and_has_no_figures(state, picture):
    state.take_status(status("h0"))
    state.take_counters(counters("h0", 10, {"s0": 1000}), 10)
    state.take_counters(counters("h0", 12, {"s0": 9000}), 12)
    assert "h0" not in state.frame(17).states
    frame = state.frame(17.5)
    assert frame.states["h0"] == "silent"
    assert frame.links.bps[_direction(picture, "h0", "s0")] is None


def test_a_silent_link_is_cut_only_where_both_ends_run(state, picture):
    state.take_counters(counters("s0", 10, {"h0": 0, "h1": 0}, silent=("h0", "h1")), 10)
    state.take_counters(counters("h0", 10, {"s0": 0}), 10)
    assert state.frame(10).cut == (_direction(picture, "h0", "s0") // 2,)


def test_switches_show_slots_and_hit_rates(state):
    figures = {"reducer": {"slots_in_use": 3, "reductions_completed": 0}}
    state.take_counters(counters("s0", 10, {}, **figures), 10)
    figures = {
        "tables": {"cache_hits": 30, "cache_misses": 10},
        "reducer": {"slots_in_use": 5, "reductions_completed": 400},
    }
    state.take_counters(counters("s0", 12, {}, **figures), 12)
    at = [node.name for node in state.picture.nodes].index("s0")
    nodes = state.frame(12).nodes
    assert (nodes.slots_in_use[at], nodes.cache_hit_rate[at], nodes.sums_per_s[at]) == (
        5,
        0.75,
        200,
    )


def test_findings_of_the_doctor_are_in_the_frame(state):
    waits = (Wait(node="h0", number=7, missing="rank 3", late=("rank 3 (h3)",)),)
    state.take_look(LookResult(late=("h3", "unknown"), waits=waits))
    frame = state.frame(1)
    assert frame.late == ("h3",)
    assert frame.waits == waits


_nodes = st.sampled_from(["h0", "h1", "s0", "stranger"])
_reports = st.one_of(
    st.builds(
        counters,
        _nodes,
        st.floats(0, 1e9),
        st.dictionaries(_nodes, st.integers(0, 1 << 62), max_size=3),
        uptime_s=st.floats(0, 1e9),
        cpu_s=st.floats(0, 1e9),
        silent=st.lists(_nodes),
    ),
    st.builds(status, _nodes, st.sampled_from(["up", "gone", "stopped"])),
)


@given(reports=st.lists(_reports, max_size=12), now_s=st.floats(0, 2e9))
def test_any_reports_in_any_order_give_a_valid_frame(reports, now_s):
    picture = picture_of(load_topology("star4"), "lab", "local")
    state = ViewState(picture)
    for report in reports:
        if hasattr(report, "links"):
            state.take_counters(report, now_s)
        else:
            state.take_status(report)
    frame = state.frame(now_s)
    assert Frame.model_validate_json(frame.model_dump_json()) == frame
    assert len(frame.links.bps) == 2 * len(picture.links)
    assert all(bps is None or bps >= 0 for bps in frame.links.bps)
    assert all(len(column) == len(picture.nodes) for column in frame.nodes.model_dump().values())
