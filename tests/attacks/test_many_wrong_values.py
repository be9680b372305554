"""Messages with a hundred thousand wrong values: refused at the first ones.

Pydantic makes findings of 3 KB of each wrong value, so a message of 14 MiB would take its reader
10 GiB and half a minute.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from innet.cluster.control.worker_requests import WORKER_REQUESTS
from innet.cluster.machines.messages import JoinRequest
from innet.cluster.requests import checked
from innet.errors import ControlError
from innet.kv.pool.inventory import BulkAnswer
from innet.node.node_status import MalformedStatus, StatusReply, status_of
from innet.node.requests import ControlRequest
from innet.observe.web.document import Line, Picture, picture_of
from innet.telemetry.messages import NodeCounters, RunEvent
from innet.topology import load_topology
from tests.fuzz.members import REPLIES, REQUESTS
from tests.fuzz.statuses import MESSAGES, honest_status, reply_of

_LONG_LIST = 20_000
_LARGE_MAPPING = (1 << 17) + 1
_MAPPINGS = (
    *("sent_bytes", "received_bytes", "slots_in_use", "plans", "placed", "sockets", "unannounced"),
    *("hits", "misses", "lost_copies", "tiers", "commands_refused", "states", "machines"),
)
"""Fields with keys of the sender's choice."""
_MOST_FINDINGS = 100
_LINE = {
    "frame": {
        "time_s": 1,
        "states": {"h0": "off"},
        "nodes": {"cpu": [0.5, None]},
        "links": {"bps": [1, 2]},
        "cut": [0],
        "late": ["h0"],
        "waits": [{"node": "h0", "number": 1, "late": ["h1"]}],
        "jobs": [{"name": "j", "hosts": ["h0"], "groups": []}],
        "findings": [{"check": "c", "subject": "s", "problem": "p", "remedy": "r"}],
    }
}
_BULK = {
    "done": True,
    "families": [
        {"model_digest": "ab", "layout": "x", "tiers": {"disk": 1}, "labels": ["ab" * 32]},
    ],
}
_MODELS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (StatusReply, {"ok": True, "result": honest_status(1)}),
    *REPLIES,
    *((WORKER_REQUESTS[method], of) for method, of in REQUESTS.items() if method != "overview"),
    (NodeCounters, MESSAGES["counters"]),
    (RunEvent, MESSAGES["event"]),
    (Line, _LINE),
    (Picture, picture_of(load_topology("star:2"), "lab", "local").model_dump(mode="json")),
    (BulkAnswer, _BULK),
    (JoinRequest, {"network": "n", "version": "1", "machines": {"h1": "x"}, "session": "0" * 32}),
]


@pytest.mark.parametrize(("model", "honest"), _MODELS, ids=[of.__name__ for of, _ in _MODELS])
def test_findings_do_not_grow_with_the_wrong_values(
    model: type[BaseModel], honest: dict[str, Any]
) -> None:
    """Each list and each mapping in turn has many wrong entries."""
    model.model_validate_json(json.dumps(honest))
    for place in _containers(honest):
        lying = copy.deepcopy(honest)
        _make_wrong(lying, place)
        with pytest.raises(ValidationError) as raised:
            model.model_validate_json(json.dumps(lying))
        assert raised.value.error_count() <= _MOST_FINDINGS, place


def test_wrong_lists_in_a_list_count_once() -> None:
    rules: list[dict[str, Any]] = [{"operands": [[]] * 4096}] * 100
    with pytest.raises(ValidationError) as raised:
        StatusReply.model_validate_json(reply_of({**honest_status(), "rules": rules}))
    assert raised.value.error_count() <= _MOST_FINDINGS


def test_a_refusal_does_not_list_all_wrong_values() -> None:
    unannounced = {str(number): 0 for number in range(1 << 17)}
    with pytest.raises(MalformedStatus, match="131072 values are wrong"):
        status_of(reply_of({**honest_status(), "unannounced": unannounced}), "s0")


@pytest.mark.parametrize("unknown", [1, 100_000])
def test_unknown_keys_make_a_short_refusal(unknown: int) -> None:
    keys = {f"x{number}": 0 for number in range(unknown)}
    with pytest.raises(ControlError) as raised:
        ControlRequest.parsed(json.dumps(keys).encode())
    assert len(str(raised.value)) < 200
    assert "\n" not in str(raised.value)
    for model, honest in REPLIES:
        if model.model_config.get("extra") == "forbid":
            with pytest.raises(ControlError) as raised:
                checked(model, honest | keys, "m1")
            assert len(str(raised.value)) < 200


def _containers(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of the lists and mappings in a document."""
    if isinstance(document, dict | list):
        if isinstance(document, list) or (place and place[-1] in _MAPPINGS):
            yield place
        if place and place[-1] == "plans":  # anything, until a group needs one
            return
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in list(items):
            yield from _containers(value, (*place, key))


def _make_wrong(document: Any, place: tuple[Any, ...]) -> None:
    at = document
    for key in place:
        at = at[key]
    if isinstance(at, list):
        at[:] = [{}] * _LONG_LIST
    else:
        at.update({f"x{number}": 0 for number in range(_LARGE_MAPPING)})
