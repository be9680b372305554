"""``innet status``: lists the runs, or shows the state of one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from innet.cluster.run_status import RunStatus

EXAMPLES = options.examples(
    "innet status",
    "innet status lab --watch",
    "innet status lab --node s0",
    "innet status lab --json | jq '.nodes.s0.reducer'",
)

_REFRESH_S = 1.0
_WIDTH_OF_FILES = 200
"""Wide enough for whole names in files and pipes."""


def status(
    run_id: options.RunId = None,
    node: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="All counters, routes and rules of one node"),
    ] = None,
    as_json: options.AsJson = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Repeat every second until Ctrl-C")
    ] = False,
) -> None:
    """List the runs on this machine, or show what the nodes of one are doing."""
    if as_json and watch:
        raise typer.BadParameter("choose --json or --watch", param_hint="'--watch'")
    if as_json:
        say(_json(run_id, node))
        return

    from innet.cli.terminal import ScrolledScreen

    console = open_console(highlight=False, file_width=_WIDTH_OF_FILES)
    if not watch:
        console.print(_view(run_id, node))
        return
    shown = [_view(run_id, node)]
    with ScrolledScreen(console, lambda: shown[0]):
        while True:
            time.sleep(_REFRESH_S)
            shown[0] = _view(run_id, node)


def _view(run_id: str | None, node: str | None) -> RenderableType:
    from innet.cli.run_tables import node_view, run_view, runs_view
    from innet.cluster.emulation.runs import foreign_runs, list_runs

    if run_id is None and node is None:
        return runs_view(list_runs(), foreign_runs())
    found = _read(run_id)
    return run_view(found) if node is None else node_view(node, _answer_of(found, node))


def _json(run_id: str | None, node: str | None) -> str:
    import json

    from innet.cluster.emulation.runs import foreign_runs, list_runs

    if run_id is None and node is None:
        others = [{"run_id": path.name, "run_dir": str(path)} for path in foreign_runs()]
        runs = [{**r.model_dump(mode="json"), "stale": r.is_stale} for r in list_runs()]
        return json.dumps({"runs": runs, "of_other_versions": others}, indent=2)
    found = _read(run_id)
    if node is None:
        return found.model_dump_json(indent=2)
    return json.dumps(_answer_of(found, node), indent=2)


def _read(run_id: str | None) -> RunStatus:
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.run_status import read_run_status

    return read_run_status(find_run(run_id))


def _answer_of(status: RunStatus, node: str) -> dict[str, object]:
    from innet.errors import ControlError

    if node in status.nodes:
        return status.nodes[node]
    why = status.silent.get(node, "no such node runs; a host is a node while a job runs on it")
    raise ControlError(f"{node}: {why}. Answering: {', '.join(status.nodes) or 'none'}")
