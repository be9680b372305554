"""The server of the live view: whom it answers, and what."""

from __future__ import annotations

import http.client
import json
import socket
import ssl

import pytest

from innet.errors import TelemetryError
from innet.observe.web.access import Access, Refused
from innet.observe.web.document import Frame, Line, picture_of
from innet.observe.web.live import History, View
from innet.observe.web.server import WebOptions, serving
from innet.telemetry.messages import CommandReply
from innet.topology import load_topology
from tests.observe.web.pages import Client, served
from tests.telemetry.brokers import self_signed

pytest.importorskip("starlette", reason="the extra web is not installed")


class _Told:
    def __init__(self) -> None:
        self.orders: list[tuple[str, str]] = []

    async def __call__(self, node, command) -> CommandReply:
        self.orders.append((node, command.kind))
        return CommandReply(run="lab", node=node, number=1, accepted=True, message="done")


@pytest.fixture
def told() -> _Told:
    return _Told()


@pytest.fixture
def view(told) -> View:
    view = View(picture_of(load_topology("star4"), "lab", "local"), History(), told)
    view.append(Line(frame=Frame(time_s=1)))
    return view


@pytest.fixture
def site(view):
    with served(view) as site:
        yield site


@pytest.fixture
def client(site) -> Client:
    return Client(site.link)


def test_the_token_is_valid_once(client):
    assert client.enter() == 200
    assert client.ask("GET", "/picture")[0] == 200
    session, client.session = client.session, ""
    status, _, body = client.ask("POST", "/session", {"token": client.token})
    assert status == 403
    assert "serves once" in json.loads(body)["error"]
    client.session = session
    assert client.ask("GET", "/picture")[0] == 200


def test_no_response_sets_a_cookie(client):
    for method, path, body in (
        ("POST", "/session", {"token": client.token}),
        ("GET", "/", None),
        ("GET", "/picture", None),
    ):
        assert "set-cookie" not in client.ask(method, path, body)[1]


@pytest.mark.parametrize("token", ["", "x", "é", "x" * 300])
def test_wrong_tokens_are_refused_and_spend_nothing(client, token):
    assert client.ask("POST", "/session", {"token": token})[0] in (400, 403)
    assert client.enter() == 200


@pytest.mark.parametrize("path", ["/picture", "/lines"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer é"},
        {"Authorization": "Basic {session}"},
        {"Authorization": "{session}"},
        {"Cookie": "innet-{port}={session}"},
        {"Cookie": "session={session}"},
    ],
)
def test_data_need_the_session_in_its_header(client, path, headers):
    client.enter()
    session, client.session = client.session, ""
    port = client.netloc.partition(":")[2]
    given = {name: value.format(session=session, port=port) for name, value in headers.items()}
    assert client.ask("GET", path, **given)[0] == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1"]
)
def test_other_hosts_are_refused(client, host):
    client.enter()
    port = client.netloc.partition(":")[2]
    assert client.ask("GET", "/picture", Host=host.format(port=port))[0] == 421
    assert client.ask("GET", "/", Host=host.format(port=port))[0] == 421


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "https://{netloc}", "http://127.0.0.1"]
)
def test_other_origins_are_refused(client, told, origin):
    client.enter()
    origin = origin.format(netloc=client.netloc)
    order = {"node": "s0", "command": {"kind": "drop_cache"}}
    assert client.ask("POST", "/tell", order, Origin=origin)[0] == 403
    assert client.ask("GET", "/lines", Origin=origin)[0] == 403
    assert client.ask("POST", "/tell", order, Origin="")[0] == 403
    assert told.orders == []


def test_requests_of_other_pages_are_refused(client):
    client.enter()
    assert client.ask("GET", "/lines", Sec_Fetch_Site="cross-site")[0] == 403
    assert client.ask("GET", "/lines", Sec_Fetch_Site="same-origin")[0] == 200
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert client.ask("GET", "/", **link)[0] == 200


def test_every_response_forbids_foreign_content(client):
    for path in ("/", "/app.js", "/vendor/libraries.js", "/picture", "/nothing"):
        headers = client.ask("GET", path)[1]
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert headers["x-content-type-options"] == "nosniff"


def test_lines_are_sent_as_events_and_resumed(client, site):
    client.enter()
    _, headers, body = client.ask("GET", "/lines")
    assert headers["content-type"].startswith("text/event-stream")
    first, second = (f"data: {Line(frame=Frame(time_s=at)).as_json()}".encode() for at in (1, 2))
    assert body.splitlines()[-1] == first
    number = next(line for line in body.splitlines() if line.startswith(b"id: "))[4:].decode()
    site.append(Line(frame=Frame(time_s=2)))
    assert client.ask("GET", "/lines", Last_Event_ID=number)[2].splitlines()[-1] == second
    assert client.ask("GET", "/lines", Last_Event_ID="of-another")[2].splitlines()[-1] == first


def test_only_known_commands_reach_the_node(client, told):
    client.enter()
    order = {"node": "s0", "command": {"kind": "drop_cache"}}
    assert client.ask("POST", "/tell", order)[0] == 200
    assert client.ask("POST", "/tell", {**order, "node": "x"})[0] == 404
    assert client.ask("POST", "/tell", {**order, "command": {"kind": "halt"}})[0] == 400
    assert client.ask("POST", "/tell", {"node": "s0", "command": {"kind": "x" * 70_000}})[0] == 413
    assert client.ask("GET", "/tell")[0] == 405
    assert told.orders == [("s0", "drop_cache")]


def test_a_page_without_a_run_is_read_only(view):
    view.give_command = None
    with served(view) as site:
        client = Client(site.link)
        client.enter()
        order = {"node": "s0", "command": {"kind": "drop_cache"}}
        assert client.ask("POST", "/tell", order)[0] == 403


def test_only_loopback_is_served_without_tls():
    with pytest.raises(TelemetryError, match="unencrypted"):
        WebOptions(host="0.0.0.0").check()
    with pytest.raises(TelemetryError, match="TLS needs both"):
        WebOptions(certificate="a.pem").check()  # type: ignore[arg-type]
    WebOptions(host="::1").check()


def test_wildcard_addresses_are_refused_because_the_page_has_one_name(tmp_path):
    certificate, key = self_signed("localhost", tmp_path)
    for host in ("0.0.0.0", "::"):
        with pytest.raises(TelemetryError, match="every address"):
            WebOptions(host, 0, certificate, key).check()


def test_the_link_leads_to_the_address_that_is_served(view):
    with served(view, WebOptions("::1")) as site:
        assert site.link.startswith("http://[::1]:")
        assert Client(site.link).enter() == 200


def test_tls_serves_the_page(view, tmp_path):
    certificate, key = self_signed("localhost", tmp_path)
    with served(view, WebOptions("localhost", certificate=certificate, key=key)) as site:
        assert site.link.startswith("https://localhost:")
        client = Client(site.link, ssl.create_default_context(cafile=str(certificate)))
        assert client.enter() == 200
        assert client.ask("GET", "/picture")[0] == 200
        assert client.ask("GET", "/picture", Origin=f"http://{client.netloc}")[0] == 403
        plain = Client(site.link.replace("https", "http"))
        with pytest.raises((OSError, http.client.HTTPException)):
            plain.ask("GET", "/")


def test_invalid_certificate_files_are_refused_before_the_port_is_opened(tmp_path):
    certificate, key = self_signed("localhost", tmp_path)
    for one, other in ((key, certificate), (tmp_path / "none.pem", key)):
        with pytest.raises(TelemetryError, match="cannot be used for TLS"):
            WebOptions(certificate=one, key=other).check()


async def test_an_address_that_cannot_be_served_is_named_with_the_reason(view):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TelemetryError, match=f"127.0.0.1:{port}: Address already in use. "):
            async with serving(view, WebOptions(port=port)):
                pass


def test_a_name_besides_loopback_is_served_at_its_address():
    access = Access("https", 8443, host="lab.example")
    access.check({"host": "lab.example:8443", "origin": "https://lab.example:8443"})
    with pytest.raises(Refused):
        access.check({"host": "other.example:8443"})
    assert access.link.startswith("https://lab.example:8443/#token=")
