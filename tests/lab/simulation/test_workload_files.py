"""Workload files and short forms: what they mean, and how what is wrong is told."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from innet.errors import WorkloadError
from innet.lab.workload import Workload, json_schema, load_workload, parse_workload
from innet.lab.workload.layer_files import Layer, parse_layers_csv
from innet.lab.workload.model import CollectiveJob, TrainingJob

WORKLOADS = Path(__file__).parents[3] / "workloads"
SHIPPED = sorted(WORKLOADS.glob("*.yaml"))


def collective(workload: Workload) -> CollectiveJob:
    (job,) = workload.jobs
    assert isinstance(job, CollectiveJob)
    return job


def test_a_short_form_has_a_size_and_options() -> None:
    written = collective(load_workload("alltoall:1MiB,repetitions=7,pause=2ms")).written
    assert (written.operation, written.size) == ("alltoall", 1 << 20)
    assert (written.repetitions, written.pause) == (7, 0.002)


def test_layers_come_from_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text("# mine\nlayer,forward_s,backward_s,gradient_bytes\nfc, 1e-3, 0.002, 4KiB\n")
    (job,) = load_workload(f"training:{path},steps=2").jobs
    assert isinstance(job, TrainingJob)
    assert job.layers == (Layer("fc", 0.001, 0.002, 4096),)
    assert job.written.repetitions == 2


def test_files_beside_the_workload_are_found_from_any_directory(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("layer,forward_s,backward_s,gradient_bytes\nfc,1,2,4\n")
    text = "name: w\njobs: {t: {kind: training, layers-file: net.csv}}"
    (job,) = parse_workload(text, tmp_path / "w.yaml").jobs
    assert isinstance(job, TrainingJob)
    assert job.layers[0].name == "fc"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_workloads_load_and_fit_their_schema(path: Path) -> None:
    assert load_workload(path).jobs
    jsonschema.validate(YAML(typ="safe").load(path.read_text()), json_schema())


def test_the_committed_schema_is_current() -> None:
    committed = json.loads((WORKLOADS / "schema.json").read_text(encoding="utf-8"))
    assert committed == json_schema(), "run: python scripts/schemas.py"
    assert committed["title"] == "innet workload"


HEAD = "name: w\njobs:\n  a:\n    kind: collective\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD + "    operation: alreduce", 5, "expected 'allreduce'"),
        (HEAD + "    operation: allreduce\n    size: 5", 6, "a positive multiple of 4"),
        (HEAD + "    operation: allreduce\n    sise: 4", 6, "did you mean 'size'"),
        ("name: w\njobs:\n  t:\n    kind: training\n    steps: 1", 3, "'layers' or 'layers-file'"),
        ("name: w\njobs: {}", 2, "at least 1"),
        ("", None, "the file is empty"),
        (
            HEAD + "    operation: barrier\nevents:\n  - {kind: crash, node: s0, every: 0}",
            7,
            "a duration above 0",
        ),
        (
            HEAD + "    operation: barrier\nevents:\n  - {kind: link-down, link: h0}",
            7,
            'a link such as "h0 -- s0"',
        ),
        (
            HEAD + "    operation: barrier\nevents:\n"
            "  - {kind: pause, node: s0, rate: 1.0, every: 1s}",
            7,
            "'every' or 'rate', found both",
        ),
    ],
)
def test_mistakes_are_reported_with_their_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        parse_workload(text, Path("w.yaml"))
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alreduce:1MiB", "did you mean 'allreduce'"),
        ("allreduce:big", "expected a size in whole bytes"),
        ("allreduce:6", "a positive multiple of 4"),
        ("allreduce:4,repeat=3", "did you mean 'repetitions'|unknown key 'repeat'"),
        ("allreduce:4,quick", "options such as"),
        ("nowhere.yaml", "cannot be read"),
        ("training:nowhere.csv", "cannot be read"),
    ],
)
def test_an_unknown_short_form_is_refused_with_an_explanation(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load_workload(text)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,b\n", 1, "expected the header"),
        ("layer,forward_s,backward_s,gradient_bytes\n", None, "at least one layer"),
        ("layer,forward_s,backward_s,gradient_bytes\nx,1,2\n", 2, "4 cells, found 3"),
        ("layer,forward_s,backward_s,gradient_bytes\nx,1,nan,4\n", 2, "backward_s: expected"),
        ("layer,forward_s,backward_s,gradient_bytes\nx,1,2,much\n", 2, "gradient_bytes: expected"),
    ],
)
def test_mistakes_in_csv_are_reported_with_their_line(
    text: str, line: int | None, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        parse_layers_csv(text, Path("net.csv"))
    assert caught.value.line == line
