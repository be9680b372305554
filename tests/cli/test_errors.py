"""A mistake on the command line: one message that says what to do, the right exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.errors import TopologyError

pytestmark = pytest.mark.usefixtures("registry")

COMMAND = ["--", "true"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "sta8", *COMMAND], "did you mean 'star8'"),
        (["up", "sta8"], "did you mean 'star8'"),
        (["run", "star4", "--algorithm", "rng", *COMMAND], "did you mean 'ring'"),
        (["run", "star4", "--algorithm", "ps:server", *COMMAND], "name=value"),
        (["run", "star4", "--hosts", "h0,h9", *COMMAND], "h9"),
        (["run", "star4", "--hosts", "h0,h0", *COMMAND], "both placed on h0"),
        (["run", "star4", "--set", "transport.windw=3", *COMMAND], "transport.max_window"),
        (["run", "star4", "--set", "transport.max_window=no", *COMMAND], "transport.max_window"),
        (["plan", "nosuch"], "shipped topologies: "),
        (
            ["settings", "--set", "transport.pit_capacity=0"],
            "transport.pit_capacity: expected at least 1024, found '0'",
        ),
        (
            ["settings", "--set", "collectives.timeout_s=0"],
            "collectives.timeout_s: expected a number above 0, found",
        ),
        (
            ["settings", "--set", "collectives.timeout_s=abc"],
            "collectives.timeout_s: expected seconds, such as 1.5, or a time with a unit, such as",
        ),
        (["settings", "--set", "ndn.unix=maybe"], "ndn.unix: expected true or false, found"),
        (["up", "star4", "--name", "a/b"], "'a/b' cannot be a run id"),
        (["run", "--on", "nosuch", *COMMAND], "there is no run nosuch"),
        (["status", "nosuch"], "there is no run nosuch"),
        (["status", "--node", "s0"], "innet up TOPOLOGY"),
        (["down", "nosuch"], "there is no run nosuch"),
        (["plan", "star4", "--algorithm", "inc:nosuch=1"], "inc has no option 'nosuch'"),
        (["compare", "star4", "--algorithms", "rng"], "nothing called 'rng' can be compared"),
        (["compare", "star4", "--baseline", "glo"], "nothing called 'glo' can be compared"),
        (["topology", "show", "nosuch.yaml"], "shipped topologies: "),
        (["watch", "nosuch.innetrec", "--web"], "nosuch.innetrec cannot be read: No such file"),
        (["watch", "./", "--web"], "cannot be read: Is a directory"),
        (["watch", "lab", "--web", "--web-listen", "lab.example:80"], "served unencrypted on lab"),
        (["watch", "lab", "--web", "--web-cert", "a.pem"], "TLS needs both"),
        (["up", "star4", "--web", "--web-cert", "a", "--web-key", "b"], "cannot be used for TLS"),
    ],
)
def test_an_error_is_one_message_and_exit_code_1(
    cli: CliRunner, registry: Path, arguments: list[str], message: str
) -> None:
    result = cli.invoke(app, arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(registry.glob("*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "star4", "--rate", "200", *COMMAND], "a rate with a unit"),
        (["run", "star4", "--rate", "5gb", *COMMAND], "did you mean '5gbit'?"),
        (["run", "star4", "--metrics-port", "x", *COMMAND], "expected a whole number, found 'x'"),
        (["tell", "lab", "s0", "set-interval", "abc"], "expected seconds, such as 1.5, or a time"),
        (["tell", "lab", "s0", "set-interval", "0"], "expected 0.1 to 3600 seconds, found"),
        (["run", "star4", "--delay", "fast", *COMMAND], "a duration with a unit"),
        (["run", "star4", "--loss", "200%", *COMMAND], "a probability"),
        (["run", "star4", "--queue", "0.5", *COMMAND], "a size in whole bytes"),
        (["run", "star4", "--mtu", "1", *COMMAND], "a size from"),
        (["run", "star4", "--slots", "-1", *COMMAND], "--slots"),
        (["run", "star4", "--mode", "sim", *COMMAND], "netns"),
        (["run", "star4"], "there is no command to run on star4"),
        (["run", "--on", "lab", "--rate", "1gbit", *COMMAND], "belongs to the network"),
        (["plan", "star4", "--size", "big"], "a size in whole bytes"),
        (["compare", "star4", "--sizes", "big"], "a size in whole bytes"),
        (["compare", "star4", "--sizes", "1MiB..4KiB"], "is empty"),
        (["down", "lab", "--all"], "not both"),
        (["status", "--json", "--watch"], "choose"),
        (["watch", "lab", "--web", "--web-listen", "8080"], "expected HOST:PORT"),
        (["watch", "lab", "--web-listen", "127.0.0.1:8080"], "needs --web"),
        (["up", "star4", "--web-cert", "a.pem"], "needs --web"),
        (["watch", "lab.innetrec"], "innet watch lab.innetrec --web"),
        (["watch", "lab.innetrec", "--web", "--broker", "mqtt://b"], "needs no broker"),
        (["watch", "--web", "--broker", "mqtt://b"], "name the run"),
    ],
)
def test_wrong_usage_is_exit_code_2(cli: CliRunner, arguments: list[str], message: str) -> None:
    result = cli.invoke(app, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["uo"], "Did you mean 'up'?"),
        (["rn"], "Did you mean 'run'"),
        (["dwon"], "Did you mean 'down'?"),
        (["Status"], "Did you mean 'status'"),
        (["kb", "list"], "Did you mean 'kv'?"),
        (["kv", "lst"], "Did you mean 'list'"),
        (["keys", "nw"], "Did you mean 'new'?"),
        (["tell", "lab", "s0", "drop-cash"], "Did you mean 'drop-cache'?"),
        (["qqqq"], "No such command 'qqqq'. "),
    ],
)
def test_an_unknown_command_suggests_similar_ones(
    cli: CliRunner, arguments: list[str], suggestion: str
) -> None:
    done = cli.invoke(app, arguments)
    assert done.exit_code == 2
    assert suggestion in done.output
    assert (arguments == ["qqqq"]) == ("Did you mean" not in done.output)


@pytest.mark.parametrize("asked", [["--debug"], []], ids=["option", "environment"])
def test_debug_keeps_the_traceback(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    if not asked:
        monkeypatch.setenv("INNET_DEBUG", "1")
    result = cli.invoke(app, [*asked, "topology", "show", "nosuch"])
    assert isinstance(result.exception, TopologyError)


def test_an_unexpected_exception_is_reported_without_a_traceback(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> dict[str, Path]:
        raise RuntimeError("something unforeseen")

    monkeypatch.setattr("innet.topology.shipped_topologies", broken)
    result = cli.invoke(app, ["topology", "list"])
    assert result.exit_code == 1
    assert "RuntimeError: something unforeseen" in result.stderr
    assert "innet --debug" in result.stderr


def test_down_without_a_network_succeeds(cli: CliRunner) -> None:
    result = cli.invoke(app, ["down"])
    assert (result.exit_code, result.output) == (0, "no network is up\n")


def test_status_without_a_network_reports_it(cli: CliRunner) -> None:
    assert cli.invoke(app, ["status"]).output == "no network is up\n"
    document = json.loads(cli.invoke(app, ["status", "--json"]).output)
    assert document == {"runs": [], "of_other_versions": []}


@pytest.mark.parametrize(("time", "outcome"), [("2s", "no run lab"), ("2x", "units: ns, us, ms")])
def test_seconds_can_have_a_unit(cli: CliRunner, time: str, outcome: str) -> None:
    result = cli.invoke(app, ["doctor", "lab", "--seconds", time])
    assert result.exit_code
    assert outcome in " ".join(result.stderr.replace("│", " ").split())
