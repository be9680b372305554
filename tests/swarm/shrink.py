"""Cutting a failing scenario down to what it takes to fail in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.swarm.execution import Execution
from tests.swarm.kinds import kind_of
from tests.swarm.scenario import Call, Group, LinkModel, Scenario

_SIMPLER_CALL: dict[str, Any] = {
    "sleeps_s": (),
    "cancelled_by": None,
    "in_place": False,
    "dtype": "float32",
}


def shrink(
    scenario: Scenario, budget_s: float = 60.0, note: Callable[[str], None] = lambda text: None
) -> Scenario:
    """A smaller scenario with the same kind of first problem; itself when it has none.

    Greedy: whatever can be dropped while it still fails is dropped, until nothing can, or
    ``budget_s`` seconds have passed.
    """
    kind = _kind(scenario)
    if kind is None:
        return scenario
    end_s = time.monotonic() + budget_s
    smaller = True
    while smaller and time.monotonic() < end_s:
        smaller = False
        for candidate in _candidates(scenario):
            if time.monotonic() >= end_s:
                break
            if _kind(candidate) == kind:
                note(_size(candidate))
                scenario, smaller = candidate, True
                break
    return scenario


def _kind(scenario: Scenario) -> str | None:
    try:
        problems = Execution(scenario).run().problems
    except Exception:  # what cannot even be set up is no smaller failure
        return None
    return kind_of(problems[0]) if problems else None


def _size(scenario: Scenario) -> str:
    calls = sum(len(group.calls) for group in scenario.groups)
    ranks = sum(len(group.hosts) for group in scenario.groups)
    return f"{len(scenario.faults)} faults, {ranks} ranks, {calls} calls"


def _candidates(scenario: Scenario) -> Iterator[Scenario]:
    """Simpler ones, the boldest cuts first."""
    yield from _without_one(scenario, "groups", at_least=1)
    if scenario.faults:
        yield replace(scenario, faults=())
    if scenario.jobs:
        yield replace(scenario, jobs=())
    yield from _without_one(scenario, "faults", at_least=0)
    for number, group in enumerate(scenario.groups):
        for smaller in _smaller_groups(group):
            groups = list(scenario.groups)
            groups[number] = smaller
            yield replace(scenario, groups=tuple(groups))
    for name in scenario.settings:
        kept = {key: value for key, value in scenario.settings.items() if key != name}
        yield replace(scenario, settings=kept)
    plain = LinkModel()
    for field in fields(LinkModel):
        ordinary = getattr(plain, field.name)
        if getattr(scenario.links, field.name) != ordinary:
            yield replace(scenario, links=replace(scenario.links, **{field.name: ordinary}))
    defaults: dict[str, Any] = {"slots": 256, "cache_bytes": 1 << 20}
    for name, ordinary in defaults.items():
        if getattr(scenario, name) != ordinary:
            yield replace(scenario, **{name: ordinary})


def _without_one(scenario: Scenario, name: str, at_least: int) -> Iterator[Scenario]:
    parts = getattr(scenario, name)
    if len(parts) > at_least:
        for number in range(len(parts)):
            yield replace(scenario, **{name: parts[:number] + parts[number + 1 :]})


def _smaller_groups(group: Group) -> Iterator[Group]:
    for number, call in enumerate(group.calls):
        rest = group.calls[:number], group.calls[number + 1 :]
        if len(group.calls) > 1:
            yield replace(group, calls=rest[0] + rest[1])
        for smaller in _smaller_calls(call):
            yield replace(group, calls=(*rest[0], smaller, *rest[1]))
    if len(group.hosts) > 2:
        for number in range(len(group.hosts)):
            yield _without_rank(group, number)


def _smaller_calls(call: Call) -> Iterator[Call]:
    if call.elements > 1:
        yield replace(call, elements=call.elements // 4)
        yield replace(call, elements=call.elements // 2)
    for name, simple in _SIMPLER_CALL.items():
        if getattr(call, name) != simple:
            yield replace(call, **{name: simple})


def _without_rank(group: Group, rank: int) -> Group:
    def renumbered(call: Call) -> Call:
        sleeps_s = call.sleeps_s[:rank] + call.sleeps_s[rank + 1 :]
        cancelled_by = call.cancelled_by
        if cancelled_by is not None:
            cancelled_by = None if cancelled_by == rank else cancelled_by - (cancelled_by > rank)
        root = max(0, call.root - (call.root >= rank))
        return replace(call, sleeps_s=sleeps_s, root=root, cancelled_by=cancelled_by)

    hosts = group.hosts[:rank] + group.hosts[rank + 1 :]
    return replace(group, hosts=hosts, calls=tuple(renumbered(call) for call in group.calls))
