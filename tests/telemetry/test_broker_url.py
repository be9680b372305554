"""Which broker a text means, and that a password is never shown."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import TelemetryError
from innet.telemetry.broker_url import BrokerUrl


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mqtt://h", BrokerUrl("h", 1883)),
        ("mqtts://h", BrokerUrl("h", 8883, tls=True)),
        ("mqtt://h:99/", BrokerUrl("h", 99)),
        ("mqtt://[::1]:7", BrokerUrl("::1", 7)),
        ("mqtt://ann@h", BrokerUrl("h", 1883, username="ann")),
        ("mqtt://ann:a%2Fb%40c@h", BrokerUrl("h", 1883, username="ann", password="a/b@c")),
    ],
)
def test_a_url_has_address_and_login(text: str, expected: BrokerUrl) -> None:
    assert BrokerUrl.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://h", "'http'"),
        ("localhost:1883", "'localhost'"),
        ("broker", "no scheme"),
        ("mqtt://", "no host"),
        ("mqtt://h:port", "malformed"),
        ("mqtt://h:99999", "malformed"),
        ("mqtt://h/topic", "ends with its port"),
    ],
)
def test_invalid_broker_urls_are_refused(text: str, problem: str) -> None:
    with pytest.raises(TelemetryError, match=problem) as refusal:
        BrokerUrl.parse(text)
    assert "embedded, none, or mqtt" in str(refusal.value)


@given(username=st.text(min_size=1), password=st.text(min_size=1))
def test_any_login_round_trips_through_a_url(username: str, password: str) -> None:
    username, password = (text.encode(errors="ignore").decode() for text in (username, password))
    login = f"{quote(username, safe='')}:{quote(password, safe='')}"
    url = BrokerUrl("broker.example", 1883, username=username, password=password)
    assert BrokerUrl.parse(f"mqtt://{login}@broker.example") == url


def test_a_password_is_not_shown() -> None:
    url = BrokerUrl.parse("mqtt://ann:hunter2@broker.example")
    assert "hunter2" not in f"{url} {url!r}"
    with pytest.raises(TelemetryError) as refusal:
        BrokerUrl.parse("mqtt://ann:hunter2@broker.example/topic")
    assert "hunter2" not in str(refusal.value)
