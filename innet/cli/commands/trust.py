"""``innet trust``: checks and explains trust policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say, write_text
from innet.quantities import counted

if TYPE_CHECKING:
    from innet.security.trust.facts import Facts

app = typer.Typer()

_POLICY_HELP = "A file in the LightVerSec language, or [cyan]job[/], [cyan]pool[/], [cyan]store[/]"


@app.command("check", epilog=options.examples("innet trust check lab.lvs", "innet trust check job"))
def check(policy: Annotated[str, typer.Argument(metavar="FILE", help=_POLICY_HELP)]) -> None:
    """Compile a policy and print its anchors; errors have line and column."""
    from innet.security.trust.policy import Policy

    loaded = Policy.load(policy)
    say(f"{policy}: {counted(len(loaded.rules()), 'rule')}: {', '.join(loaded.rules())}")
    say(f"anchors: {', '.join(sorted(loaded.roots)) or 'none'}")
    if not loaded.roots:
        say("warning: no rule names a key that may sign, so every packet is refused", err=True)


@app.command(
    "explain",
    epilog=options.examples(
        "innet trust explain /lab/alice/data/v=1/seg=0 /lab/alice/KEY/1",
        "innet plan star8 --algorithm inc --json > plan.json; innet trust explain --policy job "
        "--plan /j1/g0.inc=plan.json /j1/g0.inc/0-7/sum.f32/seq=4/seg=9 /n/s0/KEY/j1",
        "innet trust explain --policy job --run r1 /j1/g0.inc/0-7/sum.f32/seq=4/seg=9 /n/s0/KEY/j1",
    ),
)
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a packet")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Name of a key or certificate")],
    policy: Annotated[str, typer.Option(metavar="FILE", help=_POLICY_HELP)] = "store",
    plan: Annotated[
        list[str],
        typer.Option(
            metavar="PREFIX=FILE",
            help="A group's plan, as [cyan]innet plan --json[/] prints it; repeatable",
        ),
    ] = [],  # noqa: B006  # typer copies it
    run: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Take the plans of the groups of this run",
            autocompletion=options.run_ids,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print which rule allows or refuses a key to sign a name.

    Exit code: 0 allowed, 3 refused.
    """
    from innet.security.trust.policy import Policy

    decision = Policy.load(policy, {**_facts_of_run(run), **_facts(plan)}).decide(name, key)
    if as_json:
        document = {
            "allowed": decision.is_allowed,
            "rule": decision.rule,
            "key_rule": decision.key_rule,
            "bindings": dict(decision.bindings),
            "reason": decision.reason,
        }
        say(json.dumps(document, indent=2))
    else:
        say(f"{'allowed' if decision.is_allowed else 'refused'}: {decision.reason}")
    if not decision.is_allowed:
        raise typer.Exit(3)


@app.command(
    "anchor",
    epilog=options.examples("innet trust anchor", "innet trust anchor j1 --run r1 -o j1.cert"),
)
def anchor(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="The job; by default the only one")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Its run; by default the only one", autocompletion=options.run_ids
        ),
    ] = None,
    output: options.OutputFile = None,
) -> None:
    """Print the anchor of a running job: the certificate that verifies those of its nodes.

    NDN programs, [cyan]innet.security.trust.PolicyValidator[/] and [cyan]--anchor[/] take it.
    """
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.run_status import job_anchor

    write_text(job_anchor(find_run(run), job).to_text(), output)


def _facts_of_run(run: str | None) -> Facts:
    if run is None:
        return {}
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.run_status import group_facts

    return group_facts(find_run(run))


def _facts(plans: list[str]) -> Facts:
    from innet.plans import Plan
    from innet.security.trust.facts import GroupFacts
    from innet.security.trust.key_operations import read_file

    facts = {}
    for given in plans:
        prefix, equals, file = given.partition("=")
        if not equals or not prefix.startswith("/"):
            raise typer.BadParameter(
                f"expected /job/group=FILE, found {given!r}", param_hint="'--plan'"
            )
        try:
            document = json.loads(read_file(Path(file)))
        except ValueError as error:
            raise typer.BadParameter(
                f"{file} is not JSON: {error}", param_hint="'--plan'"
            ) from error
        made = document.get("plan", document) if isinstance(document, dict) else {}
        facts[prefix] = GroupFacts.of_plan(Plan.from_dict(made))
    return facts
