"""``innet trust``: what a policy says, in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from innet.cli.main import app


def test_an_error_in_a_policy_has_its_line_and_column(cli: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "lab.lvs"
    path.write_text("// who may sign\n#data: lab/_ <= #nobody\n")
    result = cli.invoke(app, ["trust", "check", str(path)])
    assert result.exit_code == 1
    assert f"{path}:2: column 17: " in result.stderr
    result = cli.invoke(app, ["trust", "check", "missing.lvs"])
    assert (result.exit_code, "job, pool, store" in result.stderr) == (1, True)


def test_a_policy_is_described(cli: CliRunner) -> None:
    result = cli.invoke(app, ["trust", "check", "store"])
    assert (result.exit_code, "anchors: #anchor" in result.stdout) == (0, True)


def test_the_permission_of_a_signer_is_explained(cli: CliRunner, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(cli.invoke(app, ["plan", "star4", "--algorithm", "inc", "--json"]).stdout)
    words = ["trust", "explain", "--policy", "job", "--plan", f"/j1/g0.inc={plan}"]
    name = "/j1/g0.inc/0-3/sum.f32/seq=4/seg=9"
    allowed = cli.invoke(app, [*words, name, "/n/s0/KEY/j1"])
    assert (allowed.exit_code, allowed.stdout.startswith("allowed: rule #sum")) == (0, True)
    refused = cli.invoke(app, [*words, name, "/n/h1/KEY/j1", "--json"])
    document = json.loads(refused.stdout)
    assert (refused.exit_code, document["allowed"], document["rule"]) == (3, False, "#sum")
    assert "$places(j1, g0.inc, 0-3) does not hold for h1" in document["reason"]


def test_wrong_arguments_are_reported(cli: CliRunner, tmp_path: Path) -> None:
    result = cli.invoke(app, ["trust", "explain", "lab/data", "/lab/KEY/j1"])
    assert (result.exit_code, "begins with a slash" in result.stderr) == (1, True)
    bad = tmp_path / "plan.json"
    bad.write_text("{")
    for option in ("plan.json", f"/j1/g0={bad}"):
        words = ["trust", "explain", "--plan", option, "/lab/x", "/lab/KEY/j1"]
        assert cli.invoke(app, words).exit_code == 2
