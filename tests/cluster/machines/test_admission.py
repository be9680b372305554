"""Who may join: secrets, keys, names, versions, connections, silence."""

from __future__ import annotations

import pytest

from innet.cluster.machines.admission import Admission, Admitted, Lost, Peer
from innet.cluster.machines.launcher_identity import MachineCredential
from innet.cluster.machines.messages import Heartbeats, JoinRefusal, JoinRequest

SECRETS = {"h1": "1" * 22, "h2": "2" * 22, "h10": "3" * 22}
A, B = "a" * 32, "b" * 32


def admission() -> Admission:
    credentials = {name: MachineCredential(secret=secret) for name, secret in SECRETS.items()}
    return Admission(
        credentials, network="prod", version="1.0", heartbeats=Heartbeats(interval_s=1, timeout_s=5)
    )


def request(*machines: str, session: str = A, **changes: object) -> JoinRequest:
    named = {name: SECRETS.get(name, "x" * 22) for name in machines}
    values = {"network": "prod", "version": "1.0", "machines": named, "session": session}
    return JoinRequest.model_validate(values | changes)


def peer(connection: int, key: str = "key1", address: str = "10.0.0.1") -> Peer:
    return Peer(bytes([connection]), key.ljust(40, "."), address)


def refused(outcome: object) -> str:
    assert isinstance(outcome, JoinRefusal)
    return outcome.reason


def test_a_machine_joins_and_only_its_connection_speaks_for_it() -> None:
    network = admission()
    assert network.join(request("h1"), peer(1), 0.0) == Admitted("h1", is_resumed=False)
    assert network.missing == ("h2", "h10")
    assert network.heard(peer(1), 1.0) == "h1"
    assert network.heard(peer(2), 1.0) is None
    assert network.heard(peer(1, "key2"), 1.0) is None
    assert network.connection_of("h1") == bytes([1])


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request("h1", machines={"h1": "x" * 22}), "secret"),
        (request("h1", machines={"h1": SECRETS["h2"]}), "secret"),
        (request("h1", machines={"h1": ""}), "secret"),
        (request("h3"), "machine"),
        (request("h1", network="other"), "network"),
        (request("h1", version="0.9"), "version"),
    ],
)
def test_an_invalid_request_is_refused_and_binds_nothing(asked: JoinRequest, reason: str) -> None:
    network = admission()
    outcome = network.join(asked, peer(1), 0.0)
    assert refused(outcome) == reason
    assert network.missing == ("h1", "h2", "h10")
    assert network.join(request("h1"), peer(2, "key2"), 0.0) == Admitted("h1", is_resumed=False)


def test_a_request_without_a_secret_gets_no_information() -> None:
    network = admission()
    for wrong in (request("h3"), request("h1", machines={"h1": "x" * 22})):
        outcome = network.join(wrong, peer(1), 0.0)
        assert isinstance(outcome, JoinRefusal)
        for known in ("prod", "1.0", "h1", "h2", *SECRETS.values()):
            assert known not in outcome.message


def test_a_secret_is_bound_to_the_key_that_used_it_first() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    stolen = network.join(request("h1"), peer(2, "key2"), 1.0)
    assert refused(stolen) == "other-key"
    network.end("h1", "")
    assert refused(network.join(request("h1"), peer(2, "key2"), 1.0)) == "other-key"
    assert network.join(request("h1", session=B), peer(3), 2.0) == Admitted("h1", is_resumed=False)


def test_a_second_agent_with_the_key_waits_until_the_first_has_left() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    assert refused(network.join(request("h1", session=B), peer(2), 1.0)) == "connected"
    assert network.heard(peer(1), 1.0) == "h1"
    network.on_interrupted(bytes([1]))
    assert network.join(request("h1", session=B), peer(3), 1.0) == Admitted("h1", is_resumed=False)


def test_a_session_resumes_over_another_connection_even_if_the_old_one_looks_open() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    resumed = request("h1", is_resumption=True)
    assert network.join(resumed, peer(2), 4.0) == Admitted("h1", is_resumed=True)
    assert network.heard(peer(1), 4.0) is None
    assert network.heard(peer(2), 4.0) == "h1"
    assert network.silent(8.9) == []


def test_a_session_that_has_ended_is_not_resumed() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    network.end("h1", "")
    resumed = request("h1", is_resumption=True)
    assert refused(network.join(resumed, peer(2), 1.0)) == "lost"
    network.join(request("h1", session=B), peer(3), 1.0)
    assert refused(network.join(resumed, peer(4), 1.0)) == "lost"
    assert network.heard(peer(3), 2.0) == "h1"


def test_a_machine_at_another_address_is_lost() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    elsewhere = peer(2, address="10.9.9.9")
    for other in (request("h2"), request("h1", session=B), request("h3")):
        assert network.moved(other, elsewhere) is None
    assert network.moved(request("h1"), peer(2, "key2", "10.9.9.9")) is None
    lost = network.moved(request("h1"), elsewhere)
    assert lost == Lost(
        "h1", "machine h1 has another address: 10.9.9.9, before 10.0.0.1", bytes([1])
    )


def test_names_are_assigned_in_natural_order_and_a_known_key_keeps_its_name() -> None:
    network = admission()
    everything = tuple(SECRETS)
    assert network.join(request(*everything), peer(1, "key1"), 0.0) == Admitted("h1", False)
    assert network.join(request(*everything), peer(2, "key2"), 0.0) == Admitted("h2", False)
    network.end("h1", "")
    again = request(*everything, session=B)
    assert network.join(again, peer(3, "key1"), 0.0) == Admitted("h1", False)
    assert network.join(again, peer(4, "key4"), 0.0) == Admitted("h10", False)
    assert refused(network.join(again, peer(5, "key5"), 0.0)) == "full"


def test_a_preferred_name_is_assigned_if_it_is_free() -> None:
    network = admission()
    everything = tuple(SECRETS)
    asked = request(*everything, preferred="h10")
    assert network.join(asked, peer(1), 0.0) == Admitted("h10", False)
    assert network.join(asked, peer(2, "key2"), 0.0) == Admitted("h1", False)


def test_a_silent_session_ends() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    network.join(request("h2"), peer(2, "key2"), 0.0)
    network.heard(peer(2, "key2"), 4.0)
    assert network.silent(4.9) == []
    assert network.silent(5.0) == [
        Lost("h1", "machine h1 does not answer for 5 s", bytes([1])),
    ]
    assert network.heard(peer(1), 5.1) is None
    assert network.join(request("h1"), peer(3), 6.0) == Admitted("h1", is_resumed=False)


def test_a_disconnected_machine_is_lost_unless_it_returns_in_time() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    network.on_interrupted(bytes([1]))
    assert network.connection_of("h1") is None
    assert network.missing == ("h2", "h10")
    assert [lost.machine for lost in network.silent(5.0)] == ["h1"]


def test_no_machine_joins_a_network_that_is_shutting_down() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    assert [lost.machine for lost in network.close()] == ["h1"]
    assert refused(network.join(request("h2"), peer(2), 0.0)) == "ending"
    assert refused(network.join(request("h9"), peer(2), 0.0)) == "machine"


def test_a_launcher_that_was_suspended_does_not_count_its_own_pause_as_silence() -> None:
    network = admission()
    network.join(request("h1"), peer(1), 0.0)
    network.excuse(60.0)
    assert network.silent(64.9) == []
    assert [lost.machine for lost in network.silent(65.0)] == ["h1"]
