"""``innet watch``: what is seen of a run from its telemetry."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
from rich.console import Console

from innet.cli.watch_view import live_view
from innet.telemetry.feed import RunFeed
from innet.telemetry.messages import LauncherStatus, NodeStatus, RunEvent, State
from innet.telemetry.topics import launcher_topics, node_topics
from tests.telemetry.sources import LINK, counters

from .runs import invoked, read_until, started


@pytest.fixture
def network(registry: object) -> Iterator[str]:
    """The id of a network that is up."""
    with started("up", "star:2", "--name", "seen") as launcher:
        read_until(launcher, "innet down seen")
        yield "seen"
        invoked("down", "seen")


def test_events_are_printed_as_they_happen_until_the_run_ends(network: str) -> None:
    program = "import innet; innet.init()"
    with started("watch", network) as watcher:
        # It shows at once what it watches, also into a pipe.
        assert read_until(watcher, "seen: star-2, local, 3 nodes, up")
        assert read_until(watcher, "s0         state              up")
        invoked("run", "--on", network, "--", sys.executable, "-c", program)
        assert "group_joined" in read_until(watcher, "h0 is rank 0 of 2")[-1]
        invoked("down", network)
        assert read_until(watcher, "seen has ended")
        assert watcher.wait(60) == 0


def shown(feed: RunFeed) -> str:
    console = Console(width=140)
    with console.capture() as capture:
        console.print(live_view(feed))
    return capture.get()


def feed_of(state: State = "up") -> RunFeed:
    feed = RunFeed("lab")
    launcher = LauncherStatus(
        run="lab", state="up", topology="star-2", mode="local", pid=1, since_s=0, nodes=("s0", "h0")
    )
    feed.take(launcher_topics("lab").status, launcher.payload())
    status = NodeStatus(run="lab", node="s0", state=state, kind="switch", pid=2, since_s=0)
    feed.take(node_topics("lab", "s0").status, status.payload())
    return feed


def test_rates_are_shown_after_two_readings() -> None:
    feed = feed_of()
    topic = node_topics("lab", "s0").counters
    feed.take(topic, counters(uptime_s=1.0, time_s=10.0).payload())
    assert "Mbit/s" not in shown(feed)
    later = counters(
        uptime_s=3.0, time_s=12.0, cpu_s=1.0, links=[{**LINK, "bytes_in": 5_000_000}],
        reducer={"reductions_completed": 100, "slots_in_use": 3},
    )  # fmt: skip
    feed.take(topic, later.payload())
    text = shown(feed)
    for figure in ("20.0 Mbit/s", "3/8", "50 %"):  # 5 MB in 2 s; slots; 1 s of 2
        assert figure in text
    assert re.search(r"\b50\b", text)  # sums a second


def test_a_restarted_node_has_no_negative_rates() -> None:
    feed = feed_of()
    topic = node_topics("lab", "s0").counters
    feed.take(topic, counters(uptime_s=9.0, time_s=9.0, links=[{**LINK, "bytes_in": 99}]).payload())
    feed.take(topic, counters(uptime_s=0.1, time_s=10.0).payload())
    assert "-" not in shown(feed).split("state")[1]


def test_a_dead_node_and_its_last_event_are_shown() -> None:
    feed = feed_of("gone")
    event = RunEvent(
        run="lab", source="h0", number=1, time_s=0, kind="peer_lost", message="rank 1 (h1) died"
    )
    for _ in range(2):  # delivered at least once
        feed.take(node_topics("lab", "h0").event, event.payload())
    assert "lost" in shown(feed)
    assert shown(feed).count("rank 1 (h1) died") == 1


def test_messages_of_other_runs_are_not_shown() -> None:
    feed = feed_of()
    other = NodeStatus(run="other", node="x9", state="up", kind="switch", pid=2, since_s=0)
    feed.take(node_topics("other", "x9").status, other.payload())
    feed.take("innet/lab/nodes/x8/status", b"{}")
    assert "x9" not in shown(feed)
    assert feed.unreadable == 1
