"""Requests in an event loop: documents ahead of a reply, clients that hang up, servers that end."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from innet.cluster.emulation.runs import create_run
from innet.cluster.requests import ClientConnection, RequestClient, RequestServer
from innet.cluster.session_client import SESSION_SOCKET_NAME, JobRequest, WorkerOptions, run_job
from innet.errors import ControlError, EmulationError, NoAnswer
from innet.node.requests import ControlClient, ControlRequest

Respond = Callable[[ControlRequest, ClientConnection], Awaitable[Any]]


class Line(BaseModel):
    text: str


def server(path: Path, respond: Respond) -> RequestServer:
    return RequestServer(path, respond, who="the session")


def client(path: Path, *, is_patient: bool = False) -> RequestClient:
    return RequestClient(path, who="the session", is_patient=is_patient)


async def count(request: ControlRequest, connection: ClientConnection) -> int:
    for number in range(request.params["to"]):
        connection.send(Line(text=str(number)))
    return len(request.params)


async def test_documents_come_ahead_of_the_reply_in_order(tmp_path: Path) -> None:
    lines: list[Any] = []
    async with server(tmp_path / "s", count):
        asking = client(tmp_path / "s")
        for _ in range(2):
            assert await asking.request("count", {"to": 3}, on_document=lines.append) == 1
        asking.close()
    assert [line["text"] for line in lines] == ["0", "1", "2"] * 2


async def test_threads_ask_the_same_server(tmp_path: Path) -> None:
    async with server(tmp_path / "s", count):
        with ControlClient(tmp_path / "s", who="the session") as asking:
            assert await asyncio.to_thread(asking.request, "count", to=0) == 1


async def test_a_handler_is_cancelled_when_its_client_hangs_up(tmp_path: Path) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(_request: ControlRequest, _connection: ClientConnection) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with server(tmp_path / "s", wait):
        asking = client(tmp_path / "s")
        request = asyncio.ensure_future(asking.request("wait", {}, None))
        await begun.wait()
        request.cancel()
        await asyncio.wait([request])
        await asking.hang_up()
        assert cancelled.is_set(), "hanging up waits until the server has closed the connection"
        asking.close()


async def test_part_of_a_line_is_no_request(tmp_path: Path) -> None:
    served: list[str] = []

    async def serve(request: ControlRequest, _connection: ClientConnection) -> None:
        served.append(request.method)

    async with server(tmp_path / "s", serve):
        for sent in (b'{"method": "part"}', b'{"method": "whole"}\n{"method": "part"}'):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            writer.write(sent)
            writer.write_eof()
            await reader.read()
            writer.close()
    assert served == ["whole"]


async def test_part_of_a_line_behind_a_request_is_its_clients_end(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    async def wait(_request: ControlRequest, connection: ClientConnection) -> None:
        try:
            await connection.next_request()
        finally:
            cancelled.set()

    async with server(tmp_path / "s", wait):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(b'{"method": "wait"}\nx')
        writer.write_eof()
        reply = await reader.read()
        writer.close()
    assert cancelled.is_set()
    assert b"ended before 'wait' did" in reply


async def test_a_request_that_is_too_long_ends_its_connection(tmp_path: Path) -> None:
    async def serve(request: ControlRequest, _connection: ClientConnection) -> int:
        return len(request.params["text"])

    async with RequestServer(tmp_path / "s", serve, who="the session", max_bytes=1000):
        asking = client(tmp_path / "s")
        assert await asking.request("count", {"text": "x" * 500}) == 500
        asking.close()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(b"x" * 3000)
        assert await reader.read() == b""
        writer.close()


async def test_a_reply_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def serve(request: ControlRequest, _connection: ClientConnection) -> str:
        return "x" * int(request.params["size"])

    async with server(tmp_path / "s", serve):
        asking = RequestClient(tmp_path / "s", who="the session", max_bytes=1000)
        with pytest.raises(ControlError, match="replied to 'say' with more than 1000 bytes"):
            await asking.request("say", {"size": 5000})
        assert await asking.request("say", {"size": 5}) == "xxxxx"
        asking.close()


async def test_a_handler_is_cancelled_when_its_client_is_killed_with_output_unread(
    tmp_path: Path,
) -> None:
    cancelled = asyncio.Event()

    async def print_and_wait(_request: ControlRequest, connection: ClientConnection) -> None:
        connection.send(Line(text="unread"))
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with server(tmp_path / "s", print_and_wait):
        with socket.socket(socket.AF_UNIX) as killed:
            killed.connect(str(tmp_path / "s"))
            killed.sendall(b'{"method": "wait"}\n')
            await asyncio.to_thread(select.select, [killed], [], [])
        assert await asyncio.wait_for(cancelled.wait(), 240)


async def test_a_defect_in_a_handler_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    async def fail(request: ControlRequest, _connection: ClientConnection) -> None:
        raise {"defect": KeyError("x"), "refusal": ControlError("not today")}[request.method]

    async with server(tmp_path / "s", fail):
        asking = client(tmp_path / "s")
        with pytest.raises(ControlError, match="the session: KeyError: 'x'"):
            await asking.request("defect", {})
        with pytest.raises(ControlError, match="the session: not today"):
            await asking.request("refusal", {})
        asking.close()


async def test_who_is_patient_waits_for_a_server_and_who_is_not_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match=r"did not answer 'count' \(No such file"):
        await client(tmp_path / "s").request("count", {"to": 0}, None)
    patient = client(tmp_path / "s", is_patient=True)
    request = asyncio.ensure_future(patient.request("count", {"to": 0}))
    async with server(tmp_path / "s", count):
        assert await request == 1
        patient.close()


async def test_a_server_that_ends_answers_nothing_more(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def wait(_request: ControlRequest, _connection: ClientConnection) -> None:
        begun.set()
        await asyncio.Event().wait()

    asking = client(tmp_path / "s")
    async with server(tmp_path / "s", wait):
        request = asyncio.ensure_future(asking.request("wait", {}, None))
        await begun.wait()
    with pytest.raises(ControlError, match="the session"):
        await request
    asking.close()


async def test_a_request_that_waits_for_the_next_one_gets_it_before_the_client_hangs_up(
    tmp_path: Path,
) -> None:
    """However late the server reads: the client writes both, and closes at once."""
    ends: asyncio.Queue[str] = asyncio.Queue()

    async def respond(request: ControlRequest, client: ClientConnection) -> None:
        if request.method == "leave":
            return
        try:
            await client.next_request()
            ends.put_nowait("left")
        except asyncio.CancelledError:
            ends.put_nowait("hung up")
            raise

    async with RequestServer(tmp_path / "s", respond, who="s"):
        for methods, end in ((("stay", "leave"), "left"), (("stay",), "hung up")):
            _, writer = await asyncio.open_unix_connection(tmp_path / "s")
            for method in methods:
                writer.write(ControlRequest(method=method).model_dump_json().encode() + b"\n")
            writer.close()
            assert await ends.get() == end


async def test_a_job_whose_network_is_taken_down_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    record = create_run("net", "star2", "local")
    begun = asyncio.Event()

    async def forever(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    request = JobRequest(argv=("true",), options=WorkerOptions())
    async with RequestServer(record.run_dir / SESSION_SOCKET_NAME, forever, who="the session"):
        job = asyncio.ensure_future(run_job(record, request, lambda *_: None))
        await begun.wait()
    with pytest.raises(EmulationError, match=r"net was taken down meanwhile\. Start it again with"):
        await job


async def test_the_reply_to_a_cancelled_request_is_not_taken_for_the_next_one_s(
    tmp_path: Path,
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def respond(request: ControlRequest, _connection: ClientConnection) -> str:
        if request.method == "slow":
            begun.set()
            await goes_on.wait()
        return request.method

    async with server(tmp_path / "s", respond):
        asking = client(tmp_path / "s")
        slow = asyncio.ensure_future(asking.request("slow", {}))
        await begun.wait()
        slow.cancel()
        await asyncio.wait([slow])
        goes_on.set()
        assert await asking.request("quick", {}) == "quick"
        asking.close()
