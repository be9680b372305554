"""A node obeys an order of the run's operator once, in time, and if it is for this node."""

from __future__ import annotations

import json
import time

import pytest

from innet.security.keys import OperatorKey
from innet.telemetry.commands import (
    MAX_AGE_S,
    CommandGate,
    DropCache,
    OrderRefused,
    SetInterval,
    signed,
)

OPERATOR = OperatorKey.generate()


def gate(started_at_s: float = 0.0, operator: OperatorKey | None = OPERATOR) -> CommandGate:
    public = None if operator is None else operator.public
    return CommandGate(public, "lab", "s0", started_at_s)


def refusal(gate: CommandGate, payload: bytes, now_s: float | None = None) -> str:
    with pytest.raises(OrderRefused) as refused:
        gate.admit(payload, time.time() if now_s is None else now_s)
    return refused.value.reason


def test_successive_commands_of_the_operator_are_accepted() -> None:
    broker_socket = gate()
    for command in (SetInterval(interval_s=2.0), DropCache()):
        number, payload = signed(command, "lab", "s0", OPERATOR)
        order = broker_socket.admit(payload, time.time())
        assert (order.number, order.command) == (number, command)


def test_repeated_and_out_of_order_commands_are_refused() -> None:
    broker_socket = gate()
    _, first = signed(DropCache(), "lab", "s0", OPERATOR)
    _, second = signed(DropCache(), "lab", "s0", OPERATOR)
    broker_socket.admit(second, time.time())
    assert refusal(broker_socket, second) == "replayed"
    assert refusal(broker_socket, first) == "replayed"


def test_a_restarted_node_refuses_commands_to_its_predecessor() -> None:
    _, payload = signed(DropCache(), "lab", "s0", OPERATOR)
    assert refusal(gate(started_at_s=time.time()), payload) == "replayed"


@pytest.mark.parametrize("shift_s", [MAX_AGE_S + 1, -MAX_AGE_S - 1])
def test_a_command_with_a_wrong_time_is_stale(shift_s: float) -> None:
    _, payload = signed(DropCache(), "lab", "s0", OPERATOR)
    assert refusal(gate(), payload, time.time() + shift_s) == "stale"


@pytest.mark.parametrize(("run", "node"), [("lab", "s1"), ("other", "s0")])
def test_a_command_for_somebody_else_is_refused(run: str, node: str) -> None:
    _, payload = signed(DropCache(), run, node, OPERATOR)
    assert refusal(gate(), payload) == "misaddressed"


def test_commands_with_other_keys_are_refused() -> None:
    _, payload = signed(DropCache(), "lab", "s0", OperatorKey.generate())
    assert refusal(gate(), payload) == "bad_signature"
    _, payload = signed(DropCache(), "lab", "s0", OPERATOR)
    assert refusal(gate(operator=None), payload) == "bad_signature"


def test_a_changed_body_does_not_fit_its_signature() -> None:
    _, payload = signed(SetInterval(interval_s=2.0), "lab", "s0", OPERATOR)
    document = json.loads(payload)
    document["body"] = document["body"].replace("2.0", "0.1")
    assert refusal(gate(), json.dumps(document).encode()) == "bad_signature"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "malformed"),
        (b"\xff\x00", "malformed"),
        (b'{"kind": "drop_cache"}', "malformed"),
        (b'{"body": "{}", "signature": "xyz"}', "malformed"),
        (b'{"body": "{}"}', "unsigned"),
    ],
)
def test_malformed_commands_are_refused(payload: bytes, reason: str) -> None:
    assert refusal(gate(), payload) == reason


def test_a_signed_but_malformed_body_is_refused() -> None:
    body = '{"number": 1}'
    signature = OPERATOR.sign(b"innet command v1\0" + body.encode()).hex()
    payload = json.dumps({"body": body, "signature": signature}).encode()
    assert refusal(gate(), payload) == "malformed"
