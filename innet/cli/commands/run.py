"""``innet run``: a job's workers, on a network of its own or on one that is up."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from innet.cli import options
from innet.cli.network_choice import (
    become_launcher,
    chosen_hosts,
    chosen_output,
    chosen_plan,
    chosen_settings,
    chosen_topology,
    end_at_second_signal,
)
from innet.cli.text_output import open_console

if TYPE_CHECKING:
    from rich.console import Console

    from innet.cluster.launch import Session
    from innet.cluster.launch.messages import JobRequest

EXAMPLES = options.examples(
    "innet run star8 -- python train.py --epochs 3",
    "innet run star8 --rate 200mbit --algorithm ring -- python train.py",
    "innet run leaf-spine-16 --mode netns --hosts h0,h4,h8,h12 -- python train.py",
    "innet run --on lab -- python train.py",
    "innet run --on lab --hosts h0-h3 --job-name a --weight 2 -- python train.py",
    "innet run star8 --max-restarts 3 --elastic -- python train.py",
    "innet run star8 --on-worker-death shrink -- python train.py",
    "innet run star8 -- torchrun --max-restarts 3 train.py",
    "innet run star:2 --serve -- sh -c 'vllm serve MODEL --port 800$RANK'",
    "innet run star8 --trace . -- python train.py     # then open the file in ui.perfetto.dev",
)


def run(
    ctx: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPOLOGY -- COMMAND",
            help="Where (not with [cyan]--on[/]), and what to run on each host",
            show_default=False,
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Run on the network of [cyan]innet up[/] with this name"),
    ] = None,
    algorithm: options.Algorithm = "auto",
    hosts: options.Hosts = None,
    job_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the job, for [cyan]innet status[/]; made up by default"
        ),
    ] = None,
    weight: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="The job's part of the switches beside other jobs on the same network",
        ),
    ] = 1,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Write a timeline of all ranks, for chrome://tracing or Perfetto",
            show_default=False,
        ),
    ] = None,
    max_restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Start a worker that dies anew, up to N times each; others go on. By default not "
            "at all, and 3 times with [cyan]--on-worker-death wait[/]",
            show_default=False,
        ),
    ] = None,
    elastic: Annotated[
        bool,
        typer.Option(
            "--elastic", help="Go on without workers that died, as long as one reaches the end"
        ),
    ] = False,
    on_worker_death: Annotated[
        Literal["abort", "shrink", "wait"],
        typer.Option(
            help="What [cyan]comm.recover()[/] does: end; go on without those that died (the job "
            "is [cyan]--elastic[/] then); or wait for their successors. See docs/faults.md"
        ),
    ] = "abort",
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="The workers are servers that do not need each other, such as inference engines: "
            "one that dies is started anew, up to [cyan]--max-restarts[/] times (by default "
            "without limit, unless it dies 6 times in a row within 10 minutes of its start), "
            "and the others go on",
        ),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Threads that each rank computes with (OpenMP, MKL, OpenBLAS). By default "
            "OMP_NUM_THREADS, and without it the processors divided by the ranks",
            show_default=False,
        ),
    ] = None,
    mode: options.Mode = "local",
    rate: options.Rate = None,
    delay: options.Delay = None,
    loss: options.Loss = None,
    queue: options.Queue = None,
    mtu: options.Mtu = None,
    slots: options.Slots = None,
    broker: options.Broker = None,
    broker_port: options.BrokerPort = None,
    metrics_port: options.MetricsPort = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Run a command on every host, as the ranks of one job.

    Workers find the variables of [cyan]torchrun[/] in their environment: RANK, WORLD_SIZE, ....
    Rank 0 reads the standard input, unless it is a terminal; the others' is empty.
    When one worker fails, the others end too, except with [cyan]--elastic[/] or [cyan]--serve[/];
    in the end nothing of the job is left.
    """
    from innet.cluster.launch.messages import JobRequest

    if on is not None:
        _refuse_network_options(ctx)
    name, *command = arguments if on is None else ("", *arguments)
    if not command:
        raise typer.BadParameter(
            f"there is no command to run on {name}. Write: innet run {name} -- python train.py",
            param_hint="'COMMAND'",
        )
    job = JobRequest(
        argv=tuple(command),
        environment=dict(os.environ),
        directory=os.getcwd(),
        algorithm=algorithm,
        hosts=chosen_hosts(hosts),
        job_name=job_name,
        weight=weight,
        threads=threads,
        max_restarts=max_restarts,
        elastic=elastic,
        on_worker_death=on_worker_death,
        serve=serve,
    )
    if on is not None:
        _run_on(on, job, trace)
        return

    from innet.cluster.launch import Session
    from innet.telemetry.trace.job_trace import trace_file

    topology = chosen_topology(
        name, rate=rate, delay=delay, loss=loss, queue=queue, mtu=mtu, slots=slots
    )
    chosen_plan(algorithm, topology, job.hosts)  # what is wrong with it is known before the launch
    chosen = chosen_settings(
        settings,
        broker=broker,
        broker_port=broker_port,
        metrics_port=metrics_port,
        log_format=log_format,
        log_level=log_level,
    )
    session = Session(topology, mode=mode, settings=chosen, output=chosen_output(chosen))
    become_launcher(chosen, session.network.run_id)
    into = None if trace is None else trace_file(trace, session.network.run_id)
    console = open_console(stderr=True)
    with _telling_trace(console, into):
        asyncio.run(_launch_and_run(session, job, into, console))


async def _launch_and_run(
    session: Session, job: JobRequest, trace: Path | None, console: Console
) -> None:
    from innet.cluster.launch import RestartPolicy

    launching = f"launching {session.topology.name} ({session.network.mode})"
    with console.status(launching) as spinner:
        async with session:
            spinner.stop()
            _tell_threads(console, job, len(job.hosts or session.topology.hosts))
            began_s = time.monotonic()
            lost = await session.run_workers(
                job.argv,
                algorithm=job.algorithm,
                hosts=job.hosts,
                trace=trace,
                restarts=RestartPolicy.of(job),
                job_name=job.job_name,
                weight=job.weight,
                threads=job.threads,
                stdin=_redirected_input(),
            )
            _tell_success(console, time.monotonic() - began_s, lost)


def _redirected_input() -> int | None:
    """Standard input where it is a file or a pipe.

    Workers have sessions of their own, which cannot read from a terminal.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        return None
    return None if os.isatty(descriptor) else descriptor


def _warn_about_input(console: Console) -> None:
    """Say that redirected input does not reach a network that another process runs."""
    descriptor = _redirected_input()
    if descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
        console.print(
            "standard input is not passed to jobs on a network that is up; name the file in the "
            "command",
            highlight=False,
        )


def _run_on(run_id: str, job: JobRequest, trace: Path | None) -> None:

    from innet.cluster.emulation.runs import find_run
    from innet.cluster.launch.client import run_job
    from innet.errors import JobFailed
    from innet.settings import SETTINGS_NAME, Settings
    from innet.telemetry.trace.job_trace import trace_file

    end_at_second_signal()
    into = None if trace is None else trace_file(trace, run_id)
    console = open_console(stderr=True)
    request = job.model_copy(update={"trace": None if into is None else str(into)})
    _warn_about_input(console)
    _tell_threads(console, request, None)
    record = find_run(run_id)
    output = chosen_output(Settings.load(record.run_dir / SETTINGS_NAME))
    began_s = time.monotonic()
    with _telling_trace(console, into):
        end = asyncio.run(run_job(record, request, output))
    if end.exit_code != 0:
        raise JobFailed(end.error, end.exit_code)
    _tell_success(console, time.monotonic() - began_s, end.lost)


@contextmanager
def _telling_trace(console: Console, into: Path | None) -> Iterator[None]:
    """Say at the end, also after a failure, where the timeline is."""
    began_s = time.time()
    try:
        yield
    finally:
        if into is not None and into.exists() and into.stat().st_mtime >= began_s - 1:
            console.print(f"timeline: {into}", highlight=False, soft_wrap=True)


def _tell_threads(console: Console, job: JobRequest, ranks: int | None) -> None:
    """Say how many threads each rank gets, where the user chose nothing."""
    from innet.cluster.launch.worker_environment import thread_share

    if job.threads is not None or "OMP_NUM_THREADS" in job.environment:
        return
    share = "its share of the processors"
    if ranks is not None:
        threads = thread_share(ranks)
        share = "1 thread" if threads == 1 else f"{threads} threads"
    console.print(
        f"each rank computes with {share}; OMP_NUM_THREADS or --threads changes it",
        highlight=False,
        soft_wrap=True,
    )


def _tell_success(console: Console, duration_s: float, lost: Sequence[str]) -> None:
    who = "the other workers" if lost else "all workers"
    for death in lost:
        console.print(f"lost: {death}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{who} ended well after {duration_s:.1f} s", highlight=False)


_NETWORK_OPTIONS = (
    "mode", "rate", "delay", "loss", "queue", "mtu", "slots", "broker",
    "broker_port", "metrics_port", "log_format", "log_level", "settings",
)  # fmt: skip


def _refuse_network_options(ctx: typer.Context) -> None:
    for name in _NETWORK_OPTIONS:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = "--set" if name == "settings" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"{flag} belongs to the network, which is up already; give it to `innet up`",
                param_hint=f"'{flag}'",
            )
