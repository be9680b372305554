"""``innet doctor``: what is wrong with a running network, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

EXAMPLES = options.examples(
    "innet doctor",
    "innet doctor lab --seconds 5",
    "innet doctor lab --json | jq -r '.findings[].problem'",
)


def doctor(
    run_id: options.RunId = None,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=600, help="Time between the two looks")
    ] = 1.0,
    as_json: options.AsJson = False,
) -> None:
    """Look at a running network twice, and say what is wrong with it and what to do.

    Looks for dead, stopped and starved nodes, missing routes, slow, full and lossy links, ranks
    that others wait for, switches without free slots, refused packets and wrong clocks.
    Exit code: 0 healthy, 1 something was found.
    """
    import json

    from innet.doctor import examine
    from innet.doctor.observing import observe
    from innet.emulation.runs import find_run

    record = find_run(run_id)
    findings = examine(observe(record, seconds))
    if as_json:
        document = {
            "run": record.run_id,
            "healthy": not findings,
            "findings": [finding.model_dump() for finding in findings],
        }
        say(json.dumps(document, indent=2, ensure_ascii=False))
    elif not findings:
        say(f"{record.run_id} is healthy: nothing was found within {seconds:g} s")
    for finding in () if as_json else findings:
        say(finding.problem, bold=True)
        say(f"  → {finding.remedy}")
    if findings:
        raise typer.Exit(1)
