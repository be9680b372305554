"""ASTRA-sim's text workloads: read as they are meant, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.errors import WorkloadError
from innet.lab.experiment.run import Task, run_task
from innet.lab.workload import load_workload
from innet.lab.workload.layer_files import Phase, parse_astra_sim
from innet.settings import Settings
from innet.topology import load_topology

HYBRID = """HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 2
2
attention -1 1000000 NONE 0 1000000 ALLREDUCE 4096 1000000 ALLREDUCE 8192 10
mlp\t-1\t2000000\tALLGATHER\t4096\t2000000\tREDUCESCATTER\t4096\t2000000\tALLTOALL\t8192\t20

"""


def step_times_s(text: str, tmp_path: Path, hosts: int = 4, options: str = "") -> list[float]:
    path = tmp_path / "net.txt"
    path.write_text(text)
    workload = load_workload(f"astra-sim:{path}{options}")
    topology = load_topology(f"star:{hosts}").with_overrides(rate_bps=1e9)
    (job,) = run_task(Task(topology, workload, "inc", 1, Settings())).jobs
    assert job.failure is None
    return [ended - begun for begun, ended in job.spans_s]


def test_layers_are_parsed_with_their_three_phases() -> None:
    model = parse_astra_sim(HYBRID)
    assert (model.parallelism, model.model_parallel) == ("HYBRID_TRANSFORMER", 2)
    attention, mlp = model.layers
    assert attention.forward == Phase(1_000_000, "NONE", 0)
    assert attention.weight_gradient == Phase(1_000_000, "ALLREDUCE", 8192)
    assert (mlp.name, mlp.update_cycles) == ("mlp", 20)


def test_layers_can_have_a_parallelism_of_their_own() -> None:
    line = "a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4 1"
    model = parse_astra_sim(f"HYBRID_CUSTOMIZED\n2\n{line} DATA\n{line} MODEL\n")
    assert [layer.parallelism for layer in model.layers] == ["DATA", "MODEL"]


def test_a_pass_takes_its_computation_and_its_exposed_communication(tmp_path: Path) -> None:
    # 3 ms forward, 2 ms + 2 ms + 1 ms backward; communication is small. One cycle is 1 ns.
    (time_s,) = step_times_s(HYBRID, tmp_path)
    assert 0.008 < time_s < 0.010
    (slower_s,) = step_times_s(HYBRID, tmp_path, options=",cycle=2ns")
    assert 0.016 < slower_s < 0.018


def test_data_parallel_sums_run_during_backward(tmp_path: Path) -> None:
    # The last layer's sum takes 8.4 ms at least and fits into the first layer's 20 ms.
    text = (
        "DATA\n2\nfirst -1 0 NONE 0 0 NONE 0 20000000 NONE 0 0\n"
        "last -1 0 NONE 0 0 NONE 0 1000000 ALLREDUCE 1048576 0\n"
    )
    (time_s,) = step_times_s(text, tmp_path, options=",warm-up=2")
    assert time_s == pytest.approx(0.021, rel=0.01)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("SIDEWAYS\n1\nx", 1, "parallelism 'SIDEWAYS' is not supported"),
        ("DATA\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1", 2, "2 layers are announced, 1 follow"),
        ("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0", 3, "expected 12 words"),
        ("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 SHOUT 4 1", 3, "communication 'SHOUT'"),
        ("DATA\n1\na -1 1 NONE 0 -5 NONE 0 1 NONE 0 1", 3, "a time in cycles"),
        ("DATA", None, "expected the kind of parallelism"),
    ],
)
def test_mistakes_are_reported_with_their_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        parse_astra_sim(text, Path("net.txt"))
    assert caught.value.line == line


def test_groups_must_fit_the_ranks(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="3 ranks cannot be divided"):
        step_times_s(HYBRID, tmp_path, hosts=3)
    without = HYBRID.replace("\tmodel_parallel_NPU_group: 2", "")
    with pytest.raises(WorkloadError, match="needs the ranks of a model-parallel"):
        step_times_s(without, tmp_path)
    assert step_times_s(without, tmp_path, options=",model-parallel=4")
