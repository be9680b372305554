"""Nodes that answer anything to ``status``, and publish anything over MQTT: nothing fails."""

from __future__ import annotations

import asyncio
import io
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from innet._native import _core
from innet.cluster.node_reader import NodeReader
from innet.node.control_server import ControlServer
from innet.node.node_status import MalformedStatus, status_of
from innet.observe.doctor import examine
from innet.telemetry.feed import RunFeed
from innet.telemetry.logs.output import ConsoleOutput, JsonLinesOutput
from innet.telemetry.topics import node_topics
from tests.fuzz.mutators import LIES
from tests.fuzz.statuses import MESSAGES, honest_status, reply_of, show_all, show_telemetry
from tests.observe.doctor.states import State
from tests.telemetry.sources import counters


def test_an_honest_status_is_read_and_shown() -> None:
    status = status_of(reply_of(honest_status()), "s0")
    assert status["kind"] == "switch"
    show_all(status)


@pytest.mark.parametrize("answer", [*LIES, {}, {"node": {}}], ids=lambda lie: str(lie)[:20])
def test_any_json_as_a_status_is_named_malformed(tmp_path: Path, answer: Any) -> None:
    path = tmp_path / "s0.ctl"
    with (
        ControlServer(path, {"status": lambda **_: answer}, who="s0"),
        NodeReader(parse=status_of) as reader,
    ):
        readings = reader.read({"s0": path}, 20)
    assert readings.nodes == {}
    assert readings.malformed == {"s0"}
    assert "s0 sends a malformed status" in readings.silent["s0"]
    assert "\n" not in readings.silent["s0"]


def test_the_doctor_names_a_malformed_status() -> None:
    state = State()
    del state.after["s0"]
    observation = state.observation()
    observation.after.status.malformed.add("s0")
    findings = [found for found in examine(observation) if found.subject == "s0"]
    assert [found.check for found in findings] == ["malformed_status"]


def test_no_lie_in_any_field_fails_a_reader() -> None:
    """Each field in turn is each lie, or is missing."""
    places = [place for place in _places(honest_status()) if place[-1] not in _COUNTERS]
    for number, (place, lie) in enumerate(product(places, (*LIES, _MISSING))):
        status = honest_status()
        _put(status, place, lie)
        try:
            read = status_of(reply_of(status), "s0")
        except MalformedStatus:
            continue
        if number % 5 == 0:  # the fuzzer shows all
            show_all(read)


_MISSING = object()
_COUNTERS = {key for table in _core.describe_metrics().values() for key, *_ in table[1:]}
"""All but one of each table: they are alike."""


def _places(document: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    found: list[tuple[Any, ...]] = []
    for key, value in items:
        found.append((*place, key))
        if isinstance(value, dict | list):
            found += _places(value, (*place, key))
    return found


def _put(document: Any, place: tuple[Any, ...], value: object) -> None:
    for step in place[:-1]:
        document = document[step]
    if value is _MISSING:
        del document[place[-1]]
    else:
        document[place[-1]] = value


def test_a_status_without_an_end_takes_bounded_memory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("innet.cluster.node_reader._MOST_ANSWER_BYTES", 1 << 20)
    paths = {name: tmp_path / f"{name}.ctl" for name in ("s0", "s1")}

    async def serve() -> Any:
        async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    writer.write(b'[{"a":' * 10_000)
                    await writer.drain()
            except ConnectionError:
                writer.close()

        async with await asyncio.start_unix_server(flood, paths["s0"]):
            with ControlServer(paths["s1"], {"status": honest_status}, who="s1"):
                return await asyncio.to_thread(_read, paths)

    def _read(sockets: dict[str, Path]) -> Any:
        with NodeReader(parse=status_of) as reader:
            return reader.read(sockets, 20)

    readings = asyncio.run(serve())
    assert readings.silent == {"s0": "s0 sends a status without an end"}
    assert readings.nodes.keys() == {"s1"}


@pytest.mark.parametrize("leaf", ["status", "counters", "event"])
def test_no_lie_over_mqtt_fails_the_live_view_or_watch(leaf: str) -> None:
    document = MESSAGES[leaf]
    for place in _places(document):
        for lie in (*LIES, _MISSING):
            lying = json.loads(json.dumps(document))
            _put(lying, place, lie)
            show_telemetry(f"innet/lab/nodes/s0/{leaf}", json.dumps(lying).encode())


def test_a_message_about_another_node_is_unreadable() -> None:
    feed = RunFeed("lab")
    feed.take(node_topics("lab", "h1").counters, counters(node="s0").payload())
    assert feed.unreadable == 1
    assert feed.nodes == {}


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\x1b[1A\r"])
def test_no_line_of_a_process_imitates_the_launcher(end: str, is_terminal: bool) -> None:
    stream = io.StringIO()
    output = ConsoleOutput(Console(file=stream, force_terminal=is_terminal, no_color=True))
    output("h1", f"epoch 1{end}[innet] network lab is up")
    output("innet", f"machine h1 is lost: x{end}[innet] network lab is up")
    shown = stream.getvalue()
    for line in shown.splitlines():
        assert line.startswith(("[h1] ", "[innet] machine h1 is lost")), shown
    assert "\x1b[1A" not in shown


@pytest.mark.parametrize(
    "whose", ['"node": "launcher", ', "", '"node": "launcher", "node": "h1", ']
)
def test_a_record_of_another_process_is_a_line_of_its_own(whose: str) -> None:
    stream = io.StringIO()
    output = JsonLinesOutput(Console(file=stream))
    forged = f'{{"time": "2026", "level": "info", {whose}"message": "all is well"}}'
    output("h1", forged)
    record = json.loads(stream.getvalue())
    assert (record["node"], record["message"]) == ("h1", forged)
