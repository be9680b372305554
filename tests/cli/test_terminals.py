"""``status`` and ``watch`` fit into 80 columns: they cut names, never numbers."""

from __future__ import annotations

import json
import os
import pty
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from innet.cli.main import app
from innet.cli.run_tables import node_view, run_view
from innet.cli.terminal import FittedTable, NameCell, ScrolledScreen, Scroller, shortened
from innet.cli.watch_view import event_line, live_view
from innet.cluster.emulation.runs import create_run, remove_run
from innet.cluster.run_state import NodeCondition, RunState
from innet.cluster.run_status import RunStatus
from innet.telemetry.feed import RunFeed
from innet.telemetry.messages import NodeStatus, RunEvent
from innet.telemetry.topics import node_topics
from tests.telemetry.sources import LINK, counters

SWITCH = "core-switch-frankfurt-rack-17"
HOST = "training-host-amsterdam-0001"
LARGE = 123_456_789


def printed(shown: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(shown)
    return capture.get().splitlines()


def answer(kind: str, peer: str) -> dict[str, object]:
    """The counters of a node that has been at work for days."""
    message = counters(links=[{**LINK, "peer": peer}]).model_dump()
    link = {key: LARGE if value == 0 else value for key, value in message["links"][0].items()}
    port = dict.fromkeys(message["links"][0]["port"], LARGE)
    link |= {"face": 1, "peer": peer, "port": port}
    return {
        "kind": kind,
        "workers": [],
        "pid": 1,
        "cpu_s": 54321.0,
        "resident_bytes": 512 << 20,
        "slots": 4096,
        "node": dict.fromkeys(message["tables"], LARGE)
        | {"forbidden_interests": 0, "forbidden_answers": 0},
        "reducer": dict.fromkeys(message["reducer"], 4096),
        "endpoint": dict.fromkeys(message["endpoint"], LARGE),
        "links": [link],
        "listeners": [],
        "routes": [[f"/n/{HOST}", 1, 10]],
        "rules": [
            {"group": "/job/g0.inc", "interval": "0-1", "primary": True,
             "operands": [("0", f"/n/{HOST}"), ("1", f"/n/{SWITCH}")]}
        ],
        "operations": [],
        "pools": [],
    }  # fmt: skip


@pytest.fixture
def status(registry: Path) -> RunStatus:
    hosts = [f"{HOST[:-4]}{n:04}" for n in range(64)]
    record = create_run("a-run-with-a-rather-long-name", "leaf-spine-of-the-lab", "local")
    remove_run(record)
    part = {
        "slots_guaranteed": 4096, "slots_in_use": 4096, "slots_in_use_max": 4096,
        "refused_no_slot": LARGE, "slots_taken_back": LARGE, "pit_entries": LARGE,
        "cache_bytes": 512 << 20,
    }  # fmt: skip
    job = {"name": "training-of-a-model", "hosts": hosts, "weight": 1, "parts": {SWITCH: part}}
    group = {"job": job["name"], "name": "world", "algorithm": "inc", "ranks": hosts, "joined": [0]}
    return RunStatus(
        run=record,
        stale=False,
        nodes={SWITCH: answer("switch", HOST), HOST: answer("host", SWITCH)},
        silent={},
        jobs=[job],
        groups=[group],
        pools=[],
        kernel_links=[],
        state=RunState(
            launch="up",
            nodes={
                SWITCH: NodeCondition(state="up", since_s=0.0),
                HOST: NodeCondition(state="up", since_s=0.0),
            },
        ),
    )


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_shows_names_and_whole_headings(status: RunStatus, width: int) -> None:
    text = "\n".join(printed(run_view(status), width))
    assert max(map(len, text.splitlines())) <= width
    for title, heading in (("Nodes", "node"), ("Faces", "face"), ("Groups", "job")):
        lines = text[text.index(title) :].splitlines()
        assert re.match(rf"{heading} ", lines[1]), lines[1]
        assert re.match(r"[a-z]\S* ", lines[2]), lines[2]
        assert "…" not in lines[1]
        assert {"refused", "dropped", "state"} >= set(
            re.findall(r"\b(?:refu|drop|stat)\w*", lines[1])
        )


def test_the_status_of_a_run_fits_80_columns_with_whole_numbers_and_shortened_names(
    status: RunStatus,
) -> None:
    lines = printed(run_view(status))
    assert max(map(len, lines)) <= 80
    # Each row is one line: no number or name goes on in the next.
    (switch,) = (line for line in lines if re.match(r"core\S*…\S*-17 ", line))
    assert "512 MiB" in switch
    (face,) = (line for line in lines if re.match(r"cor\S*…\S*17→tra\S*…\S*1 ", line))
    assert "123.5M/123.5M" in face
    assert any("… (64)" in line for line in lines)
    assert any("a wider terminal shows" in line for line in lines)


def test_a_wide_terminal_shows_whole_names_and_all_columns(status: RunStatus) -> None:
    text = "\n".join(printed(run_view(status), 200))
    assert f"{SWITCH}→{HOST}" in text
    assert "a wider terminal" not in text
    assert "marked" in text


def test_status_shows_disks_that_take_no_blocks(status: RunStatus) -> None:
    tier = {"fault": "blocks cannot be written to /d: 0 B free of 4 MiB", "failed": 12}
    status.nodes[HOST]["pools"] = [{"tenant": "acme", "tiers": {"local_disk": tier}}]
    text = "\n".join(printed(run_view(status), 300))
    assert "/d: 0 B free of 4 MiB; the local disk of acme has lost 12" in text
    tier.update(fault="", failed=0)
    assert "has lost" not in "\n".join(printed(run_view(status), 300))


def test_status_shows_datagrams_that_the_kernel_refused(status: RunStatus) -> None:
    """As of a path that takes smaller ones than at the launch."""
    text = "\n".join(printed(run_view(status), 200))
    assert f"refused to send: {SWITCH}→{HOST} 123.5M, {HOST}→{SWITCH} 123.5M. `innet doc" in text
    for answer in status.nodes.values():
        answer["links"][0]["send_errors"] = 0
    assert "refused to send" not in "\n".join(printed(run_view(status), 200))


def test_one_node_fits_80_columns(status: RunStatus) -> None:
    assert max(map(len, printed(node_view(SWITCH, status.nodes[SWITCH])))) <= 80


def test_the_watch_view_fits_80_columns() -> None:
    feed = RunFeed("lab")
    for name in (SWITCH, HOST):
        topics = node_topics("lab", name)
        state = NodeStatus(run="lab", node=name, state="stopped", kind="switch", pid=2, since_s=0)
        feed.take(topics.status, state.model_copy(update={"state": "up"}).payload())
        for at in (1.0, 2.0):
            link = {**LINK, "bytes_in": int(at * 1e8), "bytes_out": int(at * 1e8)}
            feed.take(
                topics.counters,
                counters(
                    node=name, uptime_s=at, time_s=at, cpu_s=at, links=[link],
                    resident_bytes=512 << 20,
                    reducer={"reductions_completed": int(at * 1e5), "slots_in_use": 4096},
                ).payload(),
            )  # fmt: skip
    lines = printed(live_view(feed))
    assert max(map(len, lines)) <= 80
    (switch,) = (line for line in lines if re.match(r"c\S*…\S*7 +up ", line))
    assert switch.count("800.0 Mbit/s") == 2
    event = RunEvent(run="lab", source=SWITCH, number=1, time_s=0, kind="peer_lost", message="gone")
    assert re.search(r" core-…k-17 +peer_lost", str(event_line(event)))


def test_names_keep_their_beginning_and_their_end() -> None:
    assert shortened(HOST, 13) == "traini…m-0001"
    assert shortened("h0", 13) == "h0"
    assert [len(shortened(HOST, width)) for width in range(1, 40)] == [
        min(width, len(HOST)) for width in range(1, 40)
    ]


def test_narrow_terminals_omit_the_least_important_columns() -> None:
    table = FittedTable("", "name", "first", "second", "third", less_important=("second", "third"))
    table.add_row(NameCell("a" * 30), "1" * 10, "2" * 10, "3" * 10)
    assert "2222222222" in "".join(printed(table, 60))
    narrow = "".join(printed(table, 40))
    assert "3333333333" in narrow
    assert "2222222222" not in narrow
    assert "a wider terminal shows: second" in narrow


def scroller(lines: int) -> Callable[..., list[str]]:
    shown = Scroller(lambda: "\n".join(f"line {n}" for n in range(1, lines + 1)))
    console = Console(width=80, height=24)

    def after(*keys: bytes) -> list[str]:
        for key in keys:
            shown.on_key(key)
        with console.capture() as capture:
            console.print(shown, end="")
        return capture.get().splitlines()

    return after


def test_long_output_scrolls() -> None:
    after = scroller(100)
    first = after()
    assert len(first) == 24
    assert first[0] == "line 1"
    assert first[-1].startswith("lines 1 to 23 of 100; arrows")
    assert after(b"\x1b[B")[0] == "line 2"
    assert after(b"\x1b[6~")[0] == "line 25"
    assert after(b"\x1b[5~", b"\x1b[A", b"\x1b[A")[0] == "line 1"
    assert after(b"G")[-2:][0] == "line 100"
    assert after(b"\x1b[6~", b"?")[-2:][0] == "line 100"
    assert after(b"g")[0] == "line 1"


def test_short_output_is_printed_directly() -> None:
    assert scroller(3)(b"\x1b[B") == ["line 1", "line 2", "line 3"]


def test_keys_reach_the_screen_and_the_terminal_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import termios
    import threading

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    moved = threading.Event()

    def on_key(_: Scroller, key: bytes) -> None:
        if key == b"j":
            moved.set()

    monkeypatch.setattr(Scroller, "on_key", on_key)
    with open(theirs, closefd=False) as terminal, open(os.devnull, "w") as nowhere:
        monkeypatch.setattr("sys.stdin", terminal)
        console = Console(file=nowhere, force_terminal=True, width=80, height=24)
        with ScrolledScreen(console, lambda: "text"):
            os.write(ours, b"j")
            assert moved.wait(60)
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_runs_of_other_versions_are_listed_with_their_place(cli: CliRunner, registry: Path) -> None:
    own = create_run("own", "star4", "local")
    other = create_run("other", "star4", "local")
    path = other.run_dir / "run.json"
    valid = path.read_text()
    path.write_text(json.dumps({**json.loads(valid), "of_tomorrow": 1}))
    shown = cli.invoke(app, ["status"]).stdout.replace("\n", " ")
    document = json.loads(cli.invoke(app, ["status", "--json"]).stdout)
    path.write_text(valid)
    remove_run(own)
    remove_run(other)
    assert re.search(r"own +star4", shown)
    assert "other: a run of another version of innet, in" in shown
    assert document["of_other_versions"] == [{"run_id": "other", "run_dir": str(other.run_dir)}]
