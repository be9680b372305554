"""``innet fetch``: fetches an object by its name."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TransferSpeedColumn

from innet.cli import options
from innet.cli.key_choice import Trust, trust_of
from innet.cli.text_output import open_console, say
from innet.quantities import counted

if TYPE_CHECKING:
    from innet.ndn.objects import FetchedObject
    from innet.ndn.objects import Progress as FetchProgress

EXAMPLES = options.examples(
    "innet fetch /alice/photo -o photo.jpg",
    "innet fetch /lab/alice/model -o model.bin --anchor /lab",
    "innet fetch /alice/notes/v=7 --forwarder tcp://router:6363",
)


def fetch(
    name: options.NdnName,
    output: options.OutputFile = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Fetch NAME as it is, without a version component")
    ] = False,
    patience_s: Annotated[
        float,
        options.time_option(
            "--patience", least_s=0.1, help="Deadline of each packet", default="8s"
        ),
    ] = 8.0,
    anchor: options.Anchor = None,
    policy: options.TrustPolicy = "store",
    forwarder: options.Forwarder = None,
) -> None:
    """Fetch the latest version of an object: of [cyan]innet publish[/], ndnserve (ndnputchunks),
    NDNts, python-ndn.

    A name that ends with a version is fetched as it is. Digests and manifests are always verified;
    signatures only with [cyan]--anchor[/].
    """
    started_s = time.monotonic()
    fetched = asyncio.run(
        _fetch(name, output, exact, patience_s, trust_of(anchor, policy), forwarder)
    )
    if output is None:
        sys.stdout.buffer.write(fetched.content)
        sys.stdout.buffer.flush()
    elapsed_s = time.monotonic() - started_s
    mbit_per_s = fetched.size_bytes * 8e-6 / max(elapsed_s, 1e-9)
    say(
        f"{fetched.name}: {counted(fetched.size_bytes, 'byte')} in "
        f"{counted(fetched.segments, 'segment')}, "
        f"{elapsed_s:.2f} s, {mbit_per_s:.1f} Mbit/s",
        err=True,
    )
    if anchor is None:
        say(
            "warning: no signature was verified, so any node on the path may have written this; "
            "--anchor NAME|FILE accepts only what a trusted key has signed",
            err=True,
        )


async def _fetch(
    name: str,
    output: Path | None,
    exact: bool,
    patience_s: float,
    trust: Trust | None,
    forwarder: str | None,
) -> FetchedObject:
    from innet.ndn import Client
    from innet.ndn.objects import fetch

    bar = Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=open_console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(name, total=None)
        async with Client(forwarder) as client:
            return await fetch(
                client,
                name,
                into=output,
                exact=exact,
                patience_s=patience_s,
                validator=None if trust is None else trust.validator(client),
                on_progress=lambda progress: _show(bar, task, progress),
            )


def _show(bar: Progress, task: TaskID, progress: FetchProgress) -> None:
    if progress.total and progress.arrived:
        expected = progress.size_bytes * progress.total // progress.arrived
        bar.update(task, completed=progress.size_bytes, total=expected)
