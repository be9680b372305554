"""Workloads, and how they are read from a file or a short form such as ``allreduce:16MiB``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from innet.errors import WorkloadError
from innet.lab.traces import PromptRequest, load_trace
from innet.lab.workload.document import (
    COLLECTIVES,
    AstraSimSpecification,
    BackgroundSpecification,
    CollectiveSpecification,
    JobSpecification,
    KvSpecification,
    TrainingSpecification,
    WorkloadDocument,
)
from innet.lab.workload.layer_files import AstraSimModel, Layer, parse_astra_sim, parse_layers_csv
from innet.shipped_files import located
from innet.suggestions import did_you_mean
from innet.topology.document import event_of
from innet.topology.events import TopologyEvent
from innet.topology.located_yaml import parse_located
from innet.topology.names import sanitised_name
from innet.topology.specification import validated
from innet.validation_messages import first_message


@dataclass(frozen=True)
class CollectiveJob:
    """A collective, repeated."""

    name: str
    written: CollectiveSpecification


@dataclass(frozen=True)
class TrainingJob:
    """Steps of data-parallel training."""

    name: str
    written: TrainingSpecification
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class AstraSimJob:
    """A training loop of ASTRA-sim."""

    name: str
    written: AstraSimSpecification
    model: AstraSimModel


@dataclass(frozen=True)
class KvJob:
    """A replay of requests."""

    name: str
    written: KvSpecification
    requests: tuple[PromptRequest, ...]


Job = CollectiveJob | TrainingJob | AstraSimJob | KvJob


@dataclass(frozen=True)
class Workload:
    """Jobs that run at the same time, with events and background traffic.

    Attributes:
        name: for titles and directories.
        jobs: in the order of the file.
        events: of nodes and links.
        background: TCP traffic beside the jobs.
    """

    name: str
    jobs: tuple[Job, ...]
    events: tuple[TopologyEvent, ...] = ()
    background: tuple[BackgroundSpecification, ...] = ()

    @property
    def is_replay(self) -> bool:
        """Whether all jobs are replays of requests; then the runs compare designs."""
        return all(isinstance(job, KvJob) for job in self.jobs)

    @property
    def block_bytes(self) -> int | None:
        """Size of a block; ``None`` unless the workload is one replay of requests."""
        job = self.jobs[0]
        return job.written.block if len(self.jobs) == 1 and isinstance(job, KvJob) else None

    def with_size(self, size_bytes: int) -> Workload:
        """A copy with another size of its only collective, or of its only replay's memory."""
        job = self.jobs[0]
        if len(self.jobs) != 1 or not isinstance(job, CollectiveJob | KvJob):
            raise WorkloadError(
                f"sizes can only be swept of a single collective or of the cache of a single kv "
                f"job; {self.name} has other jobs. "
                "Leave --sizes out, or give a workload such as allreduce:16MiB"
            )
        if isinstance(job, KvJob):
            if (why := job.written.why_no_cache_of(size_bytes)) is not None:
                raise WorkloadError(f"{self.name}: {why}")
            cached = job.written.model_copy(update={"cache": size_bytes})
            return replace(self, jobs=(replace(job, written=cached),))
        written = job.written.model_copy(update={"size": size_bytes})
        return replace(self, jobs=(replace(job, written=written),))

    def with_repetitions(self, repetitions: int) -> Workload:
        """A copy with ``repetitions`` timed operations or steps of each job."""
        jobs: list[Job] = [
            replace(job, written=job.written.model_copy(update={"repetitions": repetitions}))  # type: ignore[arg-type]
            for job in self.jobs
        ]
        return replace(self, jobs=tuple(jobs))


MAX_FILE_BYTES: Final = 64 * 2**20
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_DEFAULT_SIZE: Final = "1MiB"
_OF_FILES: Final[dict[str, tuple[type[JobSpecification], str]]] = {
    "training": (TrainingSpecification, "layers-file"),
    "kv": (KvSpecification, "trace"),
    "astra-sim": (AstraSimSpecification, "file"),
}
"""The specification of a job that a file describes, and its field for that file."""
SHORT_FORMS: Final = (
    "allreduce:16MiB",
    "alltoall:1MiB",
    "training:layers.csv",
    "astra-sim:net.txt",
    "kv:trace.jsonl",
)


def load_workload(text: str | Path) -> Workload:
    """Load a workload.

    Args:
        text: a YAML file as :func:`innet.lab.workload.json_schema` describes it, also a shipped one
            (``workloads/training.yaml``), or

            * ``COLLECTIVE:SIZE``, such as ``allreduce:16MiB`` (by default 1MiB), and ``barrier``;
            * ``training:FILE`` with layers in CSV;
            * ``astra-sim:FILE`` with a text workload of ASTRA-sim;
            * ``kv:FILE`` with a recorded trace of requests;

            each with options behind commas: ``allreduce:16MiB,repetitions=10,pause=1ms``.

    Example:
        >>> load_workload("allreduce:16MiB").name
        'allreduce-16MiB'
    """
    path = located(Path(text))
    if path.suffix.lower() in (".yaml", ".yml"):
        return parse_workload(_read(path), path)
    return _short_form(str(text))


def parse_workload(text: str, path: Path | None = None) -> Workload:
    """Read the text of a workload file; files that it names are relative to its directory."""
    document = parse_located(text, path, WorkloadError)
    written = validated(WorkloadDocument, document)
    directory = Path() if path is None else path.parent
    jobs = tuple(_job(name, job, directory) for name, job in written.jobs.items())
    events = tuple(event_of(event) for event in written.events)
    return Workload(written.name, jobs, events, tuple(written.background))


def _job(name: str, written: JobSpecification, directory: Path) -> Job:
    if isinstance(written, TrainingSpecification):
        return TrainingJob(name, written, _layers(written, directory))
    if isinstance(written, KvSpecification):
        path = directory / written.trace
        return KvJob(name, written, load_trace(path, _read(path)))
    if isinstance(written, AstraSimSpecification):
        path = directory / written.file
        return AstraSimJob(name, written, parse_astra_sim(_read(path), path))
    return CollectiveJob(name, written)


def _layers(written: TrainingSpecification, directory: Path) -> tuple[Layer, ...]:
    if written.layers_file is not None:
        path = directory / written.layers_file
        return parse_layers_csv(_read(path), path)
    return tuple(
        Layer(layer.name or f"layer {number}", layer.forward, layer.backward, layer.gradient)
        for number, layer in enumerate(written.layers)
    )


def _short_form(text: str) -> Workload:
    head, *options = text.split(",")
    kind, _, what = head.partition(":")
    fields: dict[str, object] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise WorkloadError(
                f"{text}: expected options such as repetitions=10, found {option!r}"
            )
        fields[key.strip()] = _value(value.strip())
    specification: type[JobSpecification]
    if kind in COLLECTIVES:
        size = {} if kind == "barrier" else {"size": what or _DEFAULT_SIZE}
        specification = CollectiveSpecification
        form = {"kind": "collective", "operation": kind, **size, **fields}
    elif kind in _OF_FILES:
        specification, file_field = _OF_FILES[kind]
        form = {"kind": kind, file_field: what, **fields}
    else:
        raise _unknown(text, kind)
    try:
        written = specification.model_validate(form)
    except ValidationError as error:
        raise WorkloadError(f"{text}: {first_message(error)}") from None
    return Workload(_name(head), (_job(kind, written, Path()),))


def _value(text: str) -> object:
    """Numbers and booleans as in YAML; everything else stays text."""
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _unknown(text: str, kind: str) -> WorkloadError:
    hint = did_you_mean(kind, (*COLLECTIVES, *_OF_FILES))
    return WorkloadError(
        f"no workload file or form {text!r}{hint}\n"
        f"  files end in .yaml; forms: {', '.join(SHORT_FORMS)}\n"
        f"  collectives: {', '.join(COLLECTIVES)}"
    )


def _name(head: str) -> str:
    kind, _, what = head.partition(":")
    return sanitised_name(f"{kind}-{Path(what).stem}" if what else kind)


def _read(path: Path) -> str:
    path = located(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise WorkloadError(f"larger than {MAX_FILE_BYTES >> 20} MiB", path=path)
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(f"cannot be read: {reason}", path=path) from None
