"""Messages of machines that have joined, as the launcher and the controller read them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from innet.cluster.attachment import AttachRequest
from innet.cluster.control.machine_processes import Watching
from innet.cluster.control.worker_requests import WORKER_REQUESTS, request_of_machine
from innet.cluster.machines.commands import (
    ConnectReply,
    Line,
    OpenReply,
    PortReply,
    Started,
    StartReply,
)
from innet.cluster.requests import Ahead, checked, parsed_document
from innet.errors import ControlError
from innet.node.messages import PingReply, ServedPrefixes, WorkerReport
from innet.node.requests import ControlReply, ControlRequest

MACHINE = "m1"
NODES = frozenset(("h1", "h3", "s1"))
_KEY = {"signature": "ed25519", "name": "/kv/ab/KEY", "secret": "ab" * 32}
_POOL = {"tenant": "ab", "key": _KEY, "capacity_bytes": 9, "weight": 1, "replicas": 2, "name": "t"}
_READING = {
    "time_s": 2.5,
    "cpu_s": 0.5,
    "sent_bytes": {"s0": 7},
    "received_bytes": {"s0": 8},
    "slots": 4,
    "slots_in_use": {"/j1": 1},
    "late": ["rank 1 (h1)"],
}
_GROUP = {"group": "g0", "number": 1, "node": "h1"}
REQUESTS: dict[str, dict[str, Any]] = {
    "attach": {"node": "h1", "pid": 7, "sealing_key": "09" + "00" * 31, "is_attached": True},
    "detach": {"node": "h1", "incarnation": 1},
    "announce": {"node": "s1", "incarnation": 0, "version": 2, "prefixes": ["/a/v=1", "/b"]},
    "join_group": {"group": "g0", "algorithm": "ps:server=h3", "ranks": ["h1"], "node": "h1"},
    "ready_group": _GROUP,
    "leave_groups": {"node": "h1", "groups": [["g0", 1], ["g1", 2]]},
    "shrink_group": {**_GROUP, "heard": ["rank 0 (h0) was killed", 0]},
    "expel": {"node": "h1", "other": "h3", "why": "hangs"},
    "fail": {"node": "h1", "incarnation": 1, "why": "x", "causes": [["g0", 1, "y", None]]},
    "open_pool": {"node": "h1", "incarnation": 1, **_POOL},
    "pool_members": {"tenant": "ab"},
    "overview": {},
}
_ATTACH = {"job": "j", "rank": 0, "size": 2, "pid": 7, "host": "h1", "timeout_s": 30.0}
_REPORT = {
    "node": "h1",
    "pid": 7,
    "incarnation": 65537,
    "failed": None,
    "groups": [
        {
            "name": "g0",
            "number": 1,
            "algorithm": "inc",
            "ranks": ["h1", "h3"],
            "plans": {"/j1/g0.inc": {"ranks": ["h1", "h3"], "roots": [], "rules": []}},
            "ready": True,
            "left": False,
            "failure": ["rank 1 (h3) left", 1],
        }
    ],
    "pools": [_POOL],
}
_IDENTITY = {"pid": 7, "start_ticks": 11}
REPLIES: tuple[tuple[type[BaseModel], Any], ...] = (
    (
        OpenReply,
        {
            "address": "10.0.0.2",
            "sockets": {"1": ["10.0.0.2", 4711], "2": ["fd00::1%eth0", 65535]},
            "run_dir": "/run/innet/net.m1",
            "processors": 4,
        },
    ),
    (ConnectReply, {"received_bytes": {"1": 1472, "2": 0}}),
    (PortReply, {"port": 4711}),
    (Started, _IDENTITY),
    (Line, {"line": "step 1"}),
    (StartReply, {"returncode": -9}),
    (Watching, {"identity": _IDENTITY, "is_supervised": True, "ended": [_IDENTITY]}),
    (PingReply, {"node": "h1", "unheard": ["s0"], "reading": _READING}),
    (WorkerReport, _REPORT),
    (ServedPrefixes, {"version": 3, "prefixes": ["/a", "/b/c"]}),
)


def request_seeds() -> list[bytes]:
    """Requests to the controller and to the session."""
    methods = [*REQUESTS.items(), ("session", _ATTACH)]
    return [json.dumps({"method": method, "params": of}).encode() for method, of in methods]


def read_request(document: bytes) -> None:
    """As the servers for a machine do."""
    request = ControlRequest.parsed(document)
    if request.method == "session":
        checked(AttachRequest, request.params, MACHINE)
        return
    found = request_of_machine(request, MACHINE, NODES)
    assert found.method in WORKER_REQUESTS
    assert found.params.get("node", "h1") in NODES
    ControlReply(ok=True, result=found.params).encoded(MACHINE)


def reply_seeds() -> list[bytes]:
    """Replies of agents and nodes."""
    kinds = ("ok", "ahead")
    documents = [
        {"ahead": of} if kind == "ahead" else {"ok": True, "result": of}
        for _, of in REPLIES
        for kind in kinds
    ]
    refusal = {"ok": False, "error": "no", "error_kind": "rank_failed", "rank": 3}
    return [json.dumps(document).encode() for document in (*documents, refusal)]


def read_reply(document: bytes) -> None:
    """As the launcher and the controller do: a reply may be one to any of their requests."""
    parsed = parsed_document(document, MACHINE, "open")
    result = parsed.ahead if isinstance(parsed, Ahead) else parsed.value(MACHINE)
    refused = []
    for model, _ in REPLIES:
        try:
            checked(model, result, MACHINE)
        except ControlError as error:
            refused.append(error)
    if len(refused) == len(REPLIES):
        raise refused[0]
