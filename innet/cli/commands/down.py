"""``innet down``: ends runs, and cleans up after killed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.cluster.emulation.runs import RunRecord

EXAMPLES = options.examples(
    "innet down",
    "innet down lab",
    "innet down --all",
)


def down(
    run_id: options.RunId = None,
    every: Annotated[bool, typer.Option("--all", help="End all runs of this user")] = False,
) -> None:
    """End a run and leave nothing of it.

    Without ID, the only network of [cyan]innet up[/] ends; a job needs its ID. Remains of runs that
    were killed ([cyan]kill -9[/]) are always removed. Token files of the network are worth nothing
    after that.
    """
    from innet.cluster.emulation.runs import (
        find_kept_up,
        find_run,
        list_runs,
        remove_run,
        remove_stale_runs,
    )

    if every and run_id is not None:
        raise typer.BadParameter("give an ID or --all, not both", param_hint="'--all'")
    records = [find_run(run_id)] if run_id is not None else []
    for record in remove_stale_runs():
        say(f"{record.run_id}: removed its remains")
        if run_id in (None, record.run_id):  # otherwise its launcher may be starting again
            _forget_launcher(record)
        records = [other for other in records if other.run_id != record.run_id]
    live = list_runs()
    if every:
        records = live
    elif run_id is None and live:
        records = [find_kept_up()]
    for record in records:
        remove_run(record)
        _forget_launcher(record)
        say(f"{record.run_id}: ended")
    if run_id is None and not records and not live:
        say("no network is up")


def _forget_launcher(record: RunRecord) -> None:
    """Remove what a later launcher of the network would use: it has ended for good."""
    if record.token_file is not None:
        from innet.cluster.machines.launcher_identity import forget_launcher

        forget_launcher(record.token_file, record.run_id)
