"""Policies: who may sign what, told with the rule that says so."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PolicyError, SecurityError
from innet.names import Name, with_component
from innet.plans import make_plan
from innet.security.trust.facts import GroupFacts
from innet.security.trust.names import name_of
from innet.security.trust.policy import Policy
from innet.security.trust.policy_source import SHIPPED
from innet.topology import load_topology

GROUP = "/j1/g0.inc"
STAR = load_topology("star4")
FACTS = {GROUP: GroupFacts.of_plan(make_plan("inc", STAR, STAR.hosts), tuple(reversed(STAR.hosts)))}
JOB = Policy.load("job", FACTS)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_compile_and_have_one_anchor(name: str) -> None:
    policy = Policy.load(name)
    assert policy.roots == {"#anchor"}


@pytest.mark.parametrize(
    ("name", "node", "rule"),
    [
        (f"{GROUP}/2/sum.f32/seq=4/seg=9", "h2", "#contribution"),
        (f"{GROUP}/2/sum.f32.of-f/seq=4/seg=9", "h2", "#contribution"),
        (f"{GROUP}/0-3/sum.f32/seq=4/seg=9", "s0", "#sum"),
        (f"{GROUP}/p2p/1/f32/0/7/seq=4/seg=9", "h2", "#message"),
        (f"{GROUP}/p2p/1/receipt/of-0/7/seq=4/seg=0", "h2", "#message"),
        (f"{GROUP}/rounds/1/ready/seq=4/seg=0", "h2", "#round"),
        (f"{GROUP}/obj/1/model/layer1/seg=0", "h2", "#object"),
        (f"{GROUP}/obj/1/model/layer1/32=manifest/seg=0", "h2", "#object"),
        (f"{GROUP}/arrays/1/snapshot/0/weights/seq=4/seg=9", "h2", "#array"),
        (f"{GROUP}/arrays/1/request/0/seq=4/seg=0", "h2", "#array"),
    ],
)
def test_each_name_of_a_job_has_one_permitted_signer(name: str, node: str, rule: str) -> None:
    for other in (*STAR.hosts, *STAR.switches):
        decision = JOB.decide(name, f"/n/{other}/KEY/j1/anchor/v=1")
        assert (decision.is_allowed, decision.rule) == (other == node, rule), decision.reason
        assert rule in decision.reason
    assert not JOB.decide(name, f"/n/{node}/KEY/j2/anchor/v=1").is_allowed
    assert not JOB.decide(name.replace(GROUP, "/j1/g0.inc.2"), f"/n/{node}/KEY/j1").is_allowed
    assert not JOB.decide(name.replace(GROUP, "/j2/g0.inc"), f"/n/{node}/KEY/j1").is_allowed


def test_nodes_of_a_job_are_certified_only_by_its_anchor() -> None:
    anchor = "/j1/KEY/1/self/v=1"
    assert JOB.is_anchor(name_of(anchor))
    for node in ("h2", "s0"):
        assert JOB.decide(f"/n/{node}/KEY/j1/anchor/v=1", anchor).key_rule == "#anchor"
        for other in ("/j2/KEY/1/self/v=1", "/n/h2/KEY/j1/anchor/v=1", "/n/h1/KEY/j1/anchor/v=1"):
            decision = JOB.decide(f"/n/{node}/KEY/j1/anchor/v=1", other)
            assert not decision.is_allowed, decision.reason
    assert not JOB.decide(anchor, anchor).is_allowed


def test_a_key_cannot_sign_a_name_that_is_only_a_digest() -> None:
    assert not JOB.decide(f"/sha256digest={64 * '0'}", "/n/h1/KEY/j1").is_allowed


def test_a_refusal_names_the_function_that_refused() -> None:
    decision = JOB.decide(f"{GROUP}/2/sum.f32/seq=4/seg=9", "/n/h1/KEY/j1")
    assert "#contribution refuses it" in decision.reason
    assert "$holds(j1, g0.inc, 2) does not hold for h1" in decision.reason
    decision = JOB.decide(f"{GROUP}/02/sum.f32/seq=4/seg=9", "/n/h2/KEY/j1")
    assert "$rank() does not hold for 02" in decision.reason
    decision = JOB.decide(f"{GROUP}/2/sum.f32/seq=4/seg=9", "/n/h2/KEY/j2/anchor/v=1")
    assert "its job is j2" in decision.reason
    assert "no rule" in JOB.decide("/j1/elsewhere", "/n/h1/KEY/j1").reason


def test_a_producer_of_a_pool_signs_only_blocks_of_its_model() -> None:
    pool, block = Policy.load("pool"), "/kv/ab/cafe/bf16-kv-nhd/0-31/00ff"
    for last in ("seg=3", "32=manifest/seg=0"):
        assert pool.decide(f"{block}/{last}", "/kv/ab/KEY/1").is_allowed
        assert pool.decide(f"{block}/{last}", "/kv/ab/cafe/KEY/1/ab/v=1").rule
        assert pool.decide(f"{block}/{last}", "/kv/ab/cafe/KEY/1/ab/v=1").is_allowed
        assert not pool.decide(f"{block}/{last}", "/kv/ab/beef/KEY/1/ab/v=1").is_allowed
        assert not pool.decide(f"{block}/{last}", "/kv/cd/KEY/1").is_allowed
    answer = "/kv/ab/request/h1/h0/77/keep/cafe/bf16-kv-nhd/0-31/00ff/3/h0/seg=0"
    assert pool.decide(answer, "/kv/ab/KEY/1").rule == "#answer"
    assert not pool.decide(answer, "/kv/ab/request/KEY/1/ab/v=1").is_allowed


def test_a_user_of_a_store_signs_only_its_own_data_and_certifies_nobody() -> None:
    store = Policy.load("store")
    mine = "/lab/alice/KEY/1/lab/v=1"
    assert store.decide("/lab/alice/data/v=1/seg=0", mine).rule == "#object"
    for name in ("/lab/bob/data/v=1/seg=0", "/lab/alice", "/other/alice/data"):
        assert not store.decide(name, mine).is_allowed
    for identity in ("/lab/alice", "/lab/bob", "/lab"):
        assert not store.decide(f"{identity}/KEY/2/alice/v=1", mine).is_allowed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rule"),
        ("#a: b/\n", "column 7: the policy ends in the middle of a rule"),
        ("// ä\n#a: b @ c", "test.lvs:2: column 7: '@' cannot stand here"),
        ("#a: b\n#b: c <= #d", "test.lvs:2: column 10: Signed by a non-existing key #d"),
        ("#a: b & {c: d}", "test.lvs:1: column 10: rule #a has a constraint with c"),
        ('#a: b & {b: $foo("x")}', "test.lvs:1: column 13: there is no function $foo"),
        ('#a: "%zz"', "test.lvs:1: column 5: "),
        ("#a: #b\n#b: #a", "Loop"),
        ("#a: x <= #b\n#b: y <= #a", "Loop"),
        ("#a: b\n" * 20000, "names"),
        ("#a0: x\n#a0: y\n" + "".join(f"#a{i + 1}: #a{i}/#a{i}\n" for i in range(9)), "stands"),
        ("#a: " + "/".join("b" * 5000), "stands for"),
    ],
)
def test_mistakes_in_a_policy_are_reported_with_their_place(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.of_text(text, path=Path("test.lvs"))
    assert said in str(caught.value)


_words = st.sampled_from(
    [
        "#a",
        "#b",
        "#a:",
        "#b:",
        "x",
        "y",
        '"k"',
        "/",
        "&",
        "{",
        "}",
        ":",
        "|",
        "<=",
        "$eq(",
        ")",
        ",",
    ]
)


@given(st.lists(_words, max_size=30).map(" ".join) | st.text(max_size=60))
def test_a_policy_compiles_or_raises_one_kind_of_error(text: str) -> None:
    try:
        policy = Policy.of_text(text)
    except PolicyError:
        return
    assert policy.decide("/a/b", "/a/KEY/1").is_allowed in (False, True)


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=7))
def test_every_name_is_checked_without_an_exception(parts: list[bytes]) -> None:
    odd = functools.reduce(with_component, parts, Name("/"))
    assert not JOB.decide(odd, name_of("/n/h0/KEY/j1/anchor/v=1")).is_allowed
    assert not JOB.decide(name_of(f"{GROUP}/2/sum.f32/seq=4/seg=9"), odd).is_allowed


def test_invalid_names_are_refused() -> None:
    with pytest.raises(SecurityError, match="invalid name"):
        JOB.decide("j1/g0", "/n/h0/KEY/j1")
