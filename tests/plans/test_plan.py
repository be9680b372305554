"""Validation: each way in which a plan can be wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from innet.errors import PlanError
from innet.plans import Interval, Plan, make_plan
from innet.topology.blueprint import Blueprint, PartDefaults


def document(**changes: Any) -> dict[str, Any]:
    """A right plan of four ranks on two leaves, with some fields changed."""
    plan: dict[str, Any] = {
        "algorithm": "inc",
        "ranks": ["h0", "h1", "h2", "h3"],
        "roots": [["0-3", "s"]],
        "rules": [
            {"node": "l0", "interval": "0-1", "operands": [["0", "h0"], ["1", "h1"]]},
            {"node": "l1", "interval": "2-3", "operands": [["2", "h2"], ["3", "h3"]]},
            {"node": "s", "interval": "0-3", "operands": [["0-1", "l0"], ["2-3", "l1"]]},
        ],
    }
    return plan | changes


def with_rule(node: str, interval: str, *operands: list[str]) -> dict[str, Any]:
    rules = document()["rules"]
    return document(rules=[*rules, {"node": node, "interval": interval, "operands": operands}])


def test_a_switch_evaluates_sums_from_values_of_its_own_rail():
    blueprint = Blueprint()
    for host in range(8):
        blueprint.add_host(f"h{host}")
    for rail in ("a", "b"):
        blueprint.add_switch(rail)
        for pod in range(2):
            blueprint.add_switch(f"{rail}{pod}")
            blueprint.connect(f"{rail}{pod}", rail)
            for leaf in (2 * pod, 2 * pod + 1):
                blueprint.add_switch(f"{rail}-{leaf}")
                blueprint.connect(f"{rail}-{leaf}", f"{rail}{pod}")
                for host in (2 * leaf, 2 * leaf + 1):
                    blueprint.connect(f"h{host}", f"{rail}-{leaf}")
    plan = make_plan("inc", blueprint.topology("rails", PartDefaults()))
    for rail in ("a", "b"):
        (rule,) = (rule for rule in plan.rules_for(rail) if rule.interval == Interval(0, 3))
        assert [operand.node for operand in rule.operands] == [f"{rail}-0", f"{rail}-1"]


def test_a_valid_plan_is_accepted_and_described() -> None:
    text = Plan.from_dict(document()).describe()
    assert "roots: 0-3 at s" in text
    assert "0-3 = (0-1 at l0) + (2-3 at l1)" in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (document(ranks=[]), "at least one rank"),
        (document(ranks=["h0", "h1", "h2", "h0"]), "h0 holds two ranks"),
        (document(roots=[]), "no root"),
        (document(roots=[["0-1", "l0"]]), "does not cover all 4"),
        (document(roots=[["0-3", "l0"]]), "requests 0-3 of l0"),
        (document(roots=[["1-0", "s"]]), "requests 1-0 of s"),
        (document(roots=[["0-4", "s"]]), "outside 0..3"),
        (with_rule("l0", "1-2", ["2", "h2"], ["1", "h1"]), "not 1-2 cut into"),
        (with_rule("l0", "1-3", ["1", "h1"], ["3", "h3"]), "not 1-3 cut into"),
        (with_rule("l0", "1-3", ["1", "h1"], ["1-3", "l0"]), "not 1-3 cut into"),
        (with_rule("l0", "1-2", ["1-2", "l0"]), "two or more"),
        (with_rule("l0", "1-2", ["1", "h1"], ["2", "h3"]), "requests 2 of h3"),
        (with_rule("l0", "1-3", ["1", "h1"], ["2-3", "l0"]), "requests 2-3 of l0"),
        (with_rule("t", "0-3", ["0", "h0"], ["1", "h1"], ["2-3", "l1"]), "one expression"),
        (with_rule("s", "0-3", ["0-1", "l0"], ["2-3", "l1"]), "same interval at the same node"),
        (with_rule("l0", "3-4", ["3", "h3"], ["4", "h0"]), "outside 0..3"),
    ],
)
def test_an_invalid_plan_is_refused_with_the_reason(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(wrong)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        document(rules=7),
        document(roots=["0-3"]),
        document(rules=[{"node": "s"}]),
        document(roots=[[3, "s"]]),
        document(rules=[7]),
    ],
)
def test_malformed_plans_raise_plan_errors(broken: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Plan.from_dict(broken)


def test_an_unknown_interval_names_the_known_ones() -> None:
    with pytest.raises(PlanError, match="makes no interval 1-2; it makes 0-1, 2-3, 0-3"):
        Plan.from_dict(document()).expression(Interval(1, 2))
