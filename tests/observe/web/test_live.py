"""The driver of the live view: how it ends, and what it says when it fails."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from innet.cluster.process_states import ProcessState
from innet.cluster.run_broker import RunBroker
from innet.errors import EmulationError, TelemetryError
from innet.observe.doctor.observation import Look, RunObserver
from innet.observe.web import live
from innet.observe.web.document import Frame, Line, Wait, picture_of
from innet.observe.web.live import History, View, look_period_s, remote_view
from innet.observe.web.view_state import LookResult
from innet.telemetry.feed import NodeFeed, RunFeed
from innet.telemetry.messages import LauncherStatus, RunEvent
from innet.telemetry.topics import launcher_topics, node_topics
from innet.topology import load_topology
from tests.observe.doctor.states import State
from tests.observe.web.reports import counters, status
from tests.telemetry.raw_mqtt import embedded


@pytest.fixture
def view() -> View:
    return View(picture_of(load_topology("star4"), "lab", "local"), History())


def _lines(view: View) -> list[str]:
    return view.history.since(0, 1000)[1]


async def test_a_failure_is_an_event_with_the_next_step_and_closes_the_view(view, caplog):
    async def fail() -> None:
        raise ValueError("a defect")

    async with live._running(view, [fail()]):
        notice = await view.closed()
    assert "no longer follows lab: ValueError: a defect" in notice
    assert "Run `innet watch lab --web`" in notice
    assert '"kind":"view_failed"' in _lines(view)[-1]
    assert "the live view of lab failed" in caplog.text


async def test_the_end_of_a_run_follows_its_last_frame(view):
    feed = RunFeed("lab")
    follower = live._Follower(view, feed)
    feed.nodes["s0"] = NodeFeed(status=status("s0"), counters=counters("s0", 1, {}))
    first = asyncio.ensure_future(view.changed())
    await asyncio.sleep(0)
    async with live._running(view, [follower.frames()]):
        await first
        follower.end()
        assert await view.closed() == "lab has ended."
    before, frame, event = _lines(view)
    assert "s0" not in json.loads(before)["frame"]["states"]
    states = json.loads(frame)["frame"]["states"]
    assert states == dict.fromkeys(("h0", "h1", "h2", "h3", "s0"), "off")
    assert '"kind":"run_ended"' in event


async def test_findings_are_shown_at_once(view, monkeypatch):
    monkeypatch.setattr(live, "_FRAME_S", 1e9)
    follower = live._Follower(view, RunFeed("lab"))
    first = asyncio.ensure_future(view.changed())
    await asyncio.sleep(0)
    async with live._running(view, [follower.frames()]):
        await first
        changed = asyncio.ensure_future(view.changed())
        await asyncio.sleep(0)
        follower.take_look(LookResult(states={"s0": "lost"}))
        await changed
    assert '"s0":"lost"' in _lines(view)[-1]


async def test_the_first_frame_is_that_of_the_first_look(view):
    """Before, no node is known to run, and a recording would begin with a network that is off."""
    view.picture = view.picture.model_copy(update={"examined": True})
    follower = live._Follower(view, RunFeed("lab"))
    async with live._running(view, [follower.frames()]):
        changed = asyncio.ensure_future(view.changed())
        await asyncio.sleep(0)  # the frames begin
        await asyncio.sleep(0)
        assert _lines(view) == []
        follower.take_look(LookResult(states=dict.fromkeys(("h0", "h1", "h2", "h3", "s0"), "up")))
        await changed
    assert "states" not in json.loads(_lines(view)[0])["frame"]  # all are up


async def test_a_failed_check_is_reported_once_and_checks_continue(view, monkeypatch, caplog):
    records = iter(["up", "up", "up", "up", "up", "over"])
    monkeypatch.setattr(live, "_record_of", lambda _: {"up": "record", "over": None}[next(records)])

    def look(_record: object, _timeout_s: float) -> Look:
        raise EmulationError("its directory cannot be read")

    observer = SimpleNamespace(look=look)
    follower = live._Follower(view, RunFeed("lab"))
    looks = live._Looks("lab", load_topology("star4"), observer, follower, interval_s=0.0)  # type: ignore[arg-type]
    monkeypatch.setattr(live, "stopped_by_signal", lambda _: {})
    await looks.run()
    told = [line for line in _lines(view) if "look_failed" in line]
    assert len(told) == 1
    assert "the run cannot be looked at: its directory cannot be read" in told[0]
    assert caplog.text.count("cannot look at it") == 1


def test_a_second_check_follows_sooner_when_an_operation_is_late():
    waits = (Wait(node="h0", number=7), Wait(node="h1", number=7, late=("rank 2",)))
    assert look_period_s(LookResult(), 2.0) == 2.0
    assert look_period_s(LookResult(waits=waits), 2.0) == 1.0
    assert look_period_s(LookResult(waits=waits, late=("h2",)), 2.0) == 2.0
    assert look_period_s(LookResult(waits=waits[:1]), 2.0) == 2.0


def _looks(follower: live._Follower, interval_s: float) -> live._Looks:
    topology = load_topology("star4")
    return live._Looks("lab", topology, RunObserver(topology), follower, interval_s)


@pytest.mark.parametrize(("interval_s", "period_s"), [(0.5, 0.5), (2.0, 2.0), (60.0, 2.0)])
def test_checks_follow_the_interval_of_telemetry(view, interval_s, period_s):
    assert _looks(live._Follower(view, RunFeed("lab")), interval_s)._period_s == period_s


def test_checks_follow_the_interval_set_by_a_command(view):
    follower = live._Follower(view, RunFeed("lab"))
    looks = _looks(follower, 2.0)
    for number, (node, interval_s, period_s) in enumerate(
        [("h0", 0.5, 0.5), ("s0", 0.2, 0.2), ("s0", 10.0, 0.5), ("h0", 10.0, 2.0)]
    ):
        event = RunEvent(
            run="lab",
            source=node,
            number=number,
            time_s=number,
            kind="interval_set",
            message="",
            details={"interval_s": interval_s},
        )
        follower.take_event(event)
        assert looks._period_s == period_s


def test_the_interval_of_a_command_ends_with_the_process_that_it_was_set_in(view):
    feed = RunFeed("lab")
    follower = live._Follower(view, feed)
    looks = _looks(follower, 2.0)
    feed.nodes["h0"] = NodeFeed(status=status("h0"))
    details = {"interval_s": 0.5}
    told = {"run": "lab", "source": "h0", "kind": "interval_set", "message": "", "details": details}
    follower.take_event(RunEvent.model_validate(told | {"number": 1, "time_s": 10}))
    assert looks._period_s == 0.5
    feed.nodes["h0"].status = status("h0", "gone")
    assert looks._period_s == 2.0
    feed.nodes["h0"].status = status("h0").model_copy(update={"since_s": 11})
    assert looks._period_s == 2.0
    follower.take_event(RunEvent.model_validate(told | {"number": 1, "time_s": 12}))
    assert looks._period_s == 0.5


@pytest.mark.parametrize(("is_stopped", "pauses"), [(False, [1.0, 1.0]), (True, [1.0])])
async def test_the_next_check_is_immediate_when_a_process_was_stopped(
    view, monkeypatch, is_stopped, pauses
):
    looks = _looks(live._Follower(view, RunFeed("lab")), 2.0)
    status = State().observation().after.status
    looks._looks.append(Look(status.model_copy(update={"processes": {"h0": ProcessState()}})))
    monkeypatch.setattr(live, "stopped_by_signal", lambda _: {"h0": is_stopped})
    slept: list[float] = []

    async def sleep(pause_s: float) -> None:
        slept.append(pause_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await looks._pause(status.run, 2.0)
    assert slept == pauses


async def test_a_broker_that_does_not_answer_is_named_as_the_cause(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "_GATHER_S", 0.3)
    with pytest.raises(TelemetryError, match=r"the broker does not answer: .*No such file"):
        async with remote_view(RunBroker(None, tmp_path / "none.sock"), "lab"):
            pass


async def test_a_run_that_the_broker_lacks_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "_GATHER_S", 0.3)
    async with embedded(tmp_path):
        with pytest.raises(TelemetryError, match="has no run lab"):
            async with remote_view(RunBroker(None, tmp_path / "broker.sock"), "lab"):
                pass


async def test_a_run_behind_a_broker_is_drawn_from_the_reports_of_its_nodes(tmp_path):
    broker = RunBroker(None, tmp_path / "broker.sock")
    async with embedded(tmp_path), broker.client() as nodes:
        await nodes.publish(launcher_topics("lab").status, _launcher("up"), 1, retain=True)
        for node, peers in (("s0", ("h0", "h1")), ("h0", ("s0",)), ("h1", ("s0",))):
            topics = node_topics("lab", node)
            await nodes.publish(topics.status, status(node).model_dump_json(), 1, retain=True)
            reported = counters(node, 1, dict.fromkeys(peers, 0), silent=("h1",))
            await nodes.publish(topics.counters, reported.model_dump_json(), 1, retain=True)
        async with remote_view(broker, "lab") as view:
            assert [node.name for node in view.picture.nodes] == ["h0", "h1", "s0"]
            assert view.give_command is None
            frame = await _next_frame(view)
            assert {view.picture.nodes[view.picture.links[n].b].name for n in frame.cut} == {"s0"}
            await nodes.publish(launcher_topics("lab").status, _launcher("stopped"), 1)
            assert await view.closed() == "lab has ended."


def _launcher(state: Any) -> str:
    told = LauncherStatus(
        run="lab", state=state, topology="star2", mode="local", pid=1, since_s=0.0,
        nodes=("s0", "h0", "h1"),
    )  # fmt: skip
    return told.model_dump_json()


async def _next_frame(view: View) -> Frame:
    while True:
        frames = [line.frame for text in _lines(view) if (line := Line.model_validate_json(text))]
        if frames and frames[-1] is not None:
            return frames[-1]
        await view.changed()
