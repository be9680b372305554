"""``innet plan``: what it says is what the plan and the bound are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.plans import ALGORITHMS, bound_s, make_plan
from innet.topology import load_topology


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"auto"}))
def test_json_has_the_plan_and_its_bound(cli: CliRunner, algorithm: str) -> None:
    arguments = ["plan", "star8", "--algorithm", algorithm, "--size", "16MiB", "--rate", "200mbit"]
    document = json.loads(cli.invoke(app, [*arguments, "--json"]).output)
    topology = load_topology("star8").with_overrides(rate_bps=200e6)
    plan = make_plan(algorithm, topology)
    assert document["plan"] == plan.to_dict()
    assert document["bound_s"] == bound_s(plan, topology, 16 << 20)
    assert document["size_bytes"] == 16 << 20


def test_text_shows_rules_and_bound(cli: CliRunner) -> None:
    output = cli.invoke(
        app, ["plan", "star4", "--algorithm", "inc", "--size", "16MiB", "--rate", "200mbit"]
    ).output
    assert "0-3 = (0 at h0) + (1 at h1) + (2 at h2) + (3 at h3)" in output
    assert "0.6711 s" in output


def test_auto_explains_its_choice(cli: CliRunner) -> None:
    output = cli.invoke(app, ["plan", "star8", "--size", "16MiB"]).output
    assert "In comparison: " in output
    assert "16777216 bytes" in output


def test_hosts_and_options_are_respected(cli: CliRunner) -> None:
    output = cli.invoke(
        app, ["plan", "star8", "--algorithm", "ps:server=h3", "--hosts", "h3,h5", "--json"]
    ).output
    plan = json.loads(output)["plan"]
    assert plan["ranks"] == ["h3", "h5"]
    assert {rule["node"] for rule in plan["rules"]} == {"h3"}


def test_a_plan_for_some_ranks_uses_one_rack_and_explains_it(cli: CliRunner) -> None:
    arguments = ["plan", "--for", "leaf-spine-16", "--ranks", "4", "--explain"]
    document = json.loads(cli.invoke(app, [*arguments, "--json"]).output)
    assert document["plan"]["ranks"] == ["h0", "h1", "h2", "h3"]
    why = document["explanation"]
    assert why["adders"] == {"leaf0": 1}
    assert why["trees"][0]["roots"] == ["leaf0"]
    assert set(why["algorithms"]) == {"inc", "halving-doubling", "ring", "ps"}
    text = cli.invoke(app, arguments).output
    assert "They are below leaf0: the fewest switches that join 4 free hosts" in text
    assert "Bottleneck: leaf0 to h0 and 7 other links are busy for" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name what to plan for"),
        (["star8", "--for", "star4"], "both name what to plan for"),
        (["--for", "nowhere"], "'nowhere' is neither a network on this machine"),
        (["star8", "--ranks", "9"], "9 ranks need as many hosts, and star8 has 8"),
        (["star8", "--ranks", "2", "--hosts", "h0,h1"], "--ranks has them chosen"),
    ],
)
def test_impossible_plans_are_refused_with_the_next_step(
    cli: CliRunner, arguments: list[str], message: str
) -> None:
    result = cli.invoke(app, ["plan", *arguments])
    assert result.exit_code != 0
    assert message in " ".join(f"{result.output} {result.exception}".replace("│", " ").split())


def test_the_busiest_links_are_those_whose_payload_takes_longest(
    cli: CliRunner, tmp_path: Path
) -> None:
    """A thin link with part of the payload is busier than a wide one with all of it."""
    file = tmp_path / "thin.yaml"
    file.write_text(
        "name: thin\ntopology:\n  defaults: {link: {rate: 1gbit}}\n"
        "  generate: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 2,\n"
        "             core: {rate: 100mbit}}\n"
    )
    arguments = ["plan", str(file), "--algorithm", "inc", "--size", "16MiB"]
    done = cli.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    table = done.output.partition("Busiest of")[2].partition("Bound")[0]
    rows = [line.split() for line in table.splitlines() if "MiB" in line]
    assert {row[0][:4] + row[1][:4] for row in rows[:8]} == {"leafspin", "spinleaf"}
    busiest = float(rows[0][-2]) * {"s": 1, "ms": 1e-3}[rows[0][-1]]
    assert busiest == pytest.approx(16 * 2**20 * 8 / 2 / 100e6, rel=0.01)
