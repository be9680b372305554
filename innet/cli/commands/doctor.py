"""``innet doctor``: finds what is wrong with a running network, and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.observe.doctor import Finding

EXAMPLES = options.examples(
    "innet doctor",
    "innet doctor lab --seconds 5",
    "innet doctor lab --json | jq -r '.findings[].problem'",
)

_BRIEF_S = 1.0
_LONG_S = 8.0
"""Time of a longer observation; in half of it a slow link carries many times its queue."""


def doctor(
    run_id: options.RunId = None,
    seconds: Annotated[
        float | None,
        options.time_option(
            "--seconds",
            least_s=0.1,
            most_s=600,
            help="Time between the first and the last observation",
            default="1s, and another 8s when packets are missing that may be under way",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every finding, not only the worst of each cause")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Observe a running network for a moment, and say what is wrong with it and what to do.

    Of findings with one cause only the worst is shown, with their number ([cyan]--all[/] shows
    each), and what follows from it. Checks for lost machines; lost, restarting, silent, stopped and
    starved nodes; cut, slow, full and lossy links; missing routes, late ranks, switches without
    free slots, refused packets and wrong clocks.
    Exit code: 0 healthy, 1 a problem was found.
    """
    import json

    from innet.cluster.emulation.runs import find_run
    from innet.observe.doctor import examine, needs_longer_look
    from innet.observe.doctor.observation import observe
    from innet.quantities import counted

    record = find_run(run_id)
    span_s = seconds or _BRIEF_S
    seen = observe(record, span_s)
    if seconds is None and needs_longer_look(seen):
        span_s = _LONG_S
        seen = observe(record, span_s)
    findings = examine(seen)
    problems = [finding for finding in findings if finding.level == "problem"]
    if as_json:
        document = {
            "run": record.run_id,
            "healthy": not problems,
            "findings": [finding.model_dump() for finding in findings],
            "starting": sorted(seen.starting()),
        }
        say(json.dumps(document, indent=2, ensure_ascii=False))
    elif not problems:
        say(f"{record.run_id} is healthy: nothing was found within {span_s:g} s")
    if not as_json:
        _print(findings, every)
        if starting := seen.starting():
            say(f"{counted(len(starting), 'node')} still starting: not checked yet")
    if problems:
        raise typer.Exit(1)


def _print(findings: Sequence[Finding], every: bool) -> None:
    from innet.observe.doctor import FindingGroup, grouped

    groups = [FindingGroup(finding) for finding in findings] if every else grouped(findings)
    for group in groups:
        say(group.worst.problem, bold=group.worst.level == "problem")
        for line in group.more():
            say(f"  {line}")
        say(f"  → {group.worst.remedy}")
