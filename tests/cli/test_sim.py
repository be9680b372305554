"""``innet sim``: results are printed and saved, Ctrl-C keeps what was measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.lab.compare.measurement import Comparison


def test_results_are_printed_and_saved(cli: CliRunner, tmp_path: Path) -> None:
    arguments = ["--rate", "1gbit", "--algorithm", "inc,ps:server=h1", "--output", str(tmp_path)]
    done = cli.invoke(app, ["sim", "star:3", "allreduce:64KiB", *arguments])
    assert done.exit_code == 0, done.output
    comparison = Comparison.load(tmp_path / "comparison.json")
    assert comparison.mode == "sim"
    assert comparison.methods == ["inc", "ps:server=h1"]
    assert (tmp_path / "report.html").read_text().startswith("<!")
    assert "allreduce-64KiB on star-3, sim" in done.output


@pytest.mark.parametrize("columns", ["80", "150"])
def test_the_table_is_as_wide_as_columns_say_without_a_terminal(
    tmp_path: Path, columns: str
) -> None:
    arguments = ["--algorithm", "inc", "--repetitions", "1", "--output", str(tmp_path)]
    done = CliRunner(env={"COLUMNS": columns}).invoke(
        app, ["sim", "star:3", "allreduce:1KiB", *arguments]
    )
    table = [line for line in done.stdout.splitlines() if "┃" in line]
    assert max(map(len, table)) <= int(columns)
    assert ("busiest link" in "".join(table)) == (columns == "150"), done.stdout
    assert ("a wider terminal shows: " in done.stdout) == (columns == "80")


@pytest.mark.parametrize("rate", [[], ["--rate", "unlimited"]])
def test_links_without_rate_and_delay_get_both(
    cli: CliRunner, tmp_path: Path, rate: list[str]
) -> None:
    arguments = ["--algorithm", "inc", "--repetitions", "1", "--output", str(tmp_path), *rate]
    done = cli.invoke(app, ["sim", "star:3", "allreduce", *arguments])
    assert done.exit_code == 0, done.output
    assert "simulated with 10 Gbit/s and 1 µs" in done.output
    (measured,) = Comparison.load(tmp_path / "comparison.json").measurements
    assert measured.size_bytes == 2**20, "the default size"
    assert measured.median_s >= measured.size_bytes * 8 / 10e9


def test_the_same_seed_prints_the_same_json(cli: CliRunner, tmp_path: Path) -> None:
    def samples(seed: str) -> list[float]:
        arguments = ["--rate", "1gbit", "--loss", "2%", "--json", "--seed", seed]
        arguments += ["--algorithm", "inc", "--output", str(tmp_path)]
        done = cli.invoke(app, ["sim", "star:3", "allreduce:64KiB", *arguments])
        assert done.exit_code == 0, done.output
        found: list[float] = json.loads(done.stdout)["measurements"][0]["samples_s"]
        return found

    assert samples("3") == samples("3") != samples("4")


def test_baselines_over_tcp_and_packets_are_available(cli: CliRunner, tmp_path: Path) -> None:
    trace = tmp_path / "traces" / "a.pcapng"
    arguments = ["--rate", "1gbit", "--algorithm", "tcp-ring", "--payloads", "virtual"]
    arguments += ["--capture", str(trace), "--capture-at", "s0", "--output", str(tmp_path)]
    done = cli.invoke(app, ["sim", "star:3", "allreduce:64KiB", *arguments])
    assert done.exit_code == 0, done.output
    (measured,) = Comparison.load(tmp_path / "comparison.json").measurements
    assert measured.method == "tcp-ring"
    assert measured.simulated is not None
    assert measured.simulated.virtual_scale == 16
    assert "each byte in memory stood for 16" in (tmp_path / "report.html").read_text()
    assert trace.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"  # a section header of pcapng


def test_recorded_requests_are_replayed_by_policy_and_memory(
    cli: CliRunner, tmp_path: Path
) -> None:
    trace = tmp_path / "requests.jsonl"
    line = '{"timestamp": %d, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}'
    trace.write_text("\n".join(line % (2000 * number) for number in range(3)))
    arguments = [str(trace), "--topology", "star:2", "--block", "64KiB", "--cache", "16blocks,2MiB"]
    arguments += ["--policy", "lru,lfu", "--design", "home", "--output", str(tmp_path)]
    done = cli.invoke(app, ["kv", "replay", *arguments])
    assert done.exit_code == 0, done.output
    comparison = Comparison.load(tmp_path / "comparison.json")
    assert comparison.methods == ["home:policy=lru", "home:policy=lfu"]
    assert comparison.sizes_bytes == [1 << 20, 2 << 20]
    assert all(row.blocks and row.blocks.computed == 2 for row in comparison.measurements)
    assert "home: home nodes alone (policy=lfu)" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("sizes", ["1B", "65535", "1MiB,1KiB"])
def test_memory_below_one_block_is_refused_before_the_replay(
    cli: CliRunner, tmp_path: Path, sizes: str
) -> None:
    trace = tmp_path / "requests.jsonl"
    trace.write_text(
        '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}'
    )
    arguments = [str(trace), "--block", "64KiB", "--cache", sizes, "--output", str(tmp_path)]
    done = cli.invoke(app, ["kv", "replay", *arguments])
    assert done.exit_code in (1, 2)
    said = " ".join(done.output.split())
    assert "holds no block of 65536 bytes" in said
    assert "such as 64MiB" in said
    assert not (tmp_path / "comparison.json").exists()


def test_a_trace_without_prefixes_is_announced(cli: CliRunner, tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    )
    arguments = [str(trace), "--topology", "star:2", "--design", "home", "--output", str(tmp_path)]
    done = cli.invoke(app, ["kv", "replay", *arguments])
    assert done.exit_code == 0, done.output
    assert "does not record which prompts share a prefix" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "lrux"], "there is no policy 'lrux'; policies: lru, lfu"),
        (["--design", "somewhere"], "there is no design 'somewhere'; designs: home, balanced"),
        (["--design", "home:lfu"], "home:lfu: unknown option 'lfu'"),
    ],
)
def test_an_unknown_design_or_policy_is_refused_by_name(
    cli: CliRunner, options: list[str], message: str
) -> None:
    trace = Path(__file__).parents[2] / "workloads" / "traces" / "conversation.jsonl"
    done = cli.invoke(app, ["kv", "replay", str(trace), *options])
    assert done.exit_code == 1
    assert f"error: {message}" in " ".join(done.output.split())


def test_a_wrong_block_size_is_quoted(cli: CliRunner) -> None:
    done = cli.invoke(app, ["kv", "replay", "trace.jsonl", "--block", "2MX"])
    assert done.exit_code == 2
    assert "Invalid value for '--block': expected a size" in done.output
    assert "found '2MX'" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["star:2", "barrier", "--capture-at", "s0"], "needs --capture FILE|DIR"),
        (["star:2", "allreduc:1"], "did you mean 'allreduce'"),
        (["star:2", "allreduce:4", "--algorithm", "magic"], "unknown algorithm 'magic'"),
        (["star:2", "barrier", "--sizes", "many"], "expected a size"),
    ],
)
def test_mistakes_are_reported(cli: CliRunner, arguments: list[str], message: str) -> None:
    done = cli.invoke(app, ["sim", *arguments])
    assert done.exit_code in (1, 2)
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.jobs), "2"])
def test_ctrl_c_keeps_the_measurements_so_far(tmp_path: Path, processes: str) -> None:
    command = [
        *(sys.executable, "-m", "innet", "sim", "star:4", "allreduce:1MiB,repetitions=500"),
        *("--rate", "1gbit", "--algorithm", "inc", "--seeds", processes),
        *("--processes", processes, "--output", str(tmp_path)),
    ]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert started.stderr is not None
    for line in started.stderr:  # the first that says that operations have ended
        if "packets/s" in line and " 0/" not in line and " operations" in line:
            break
    started.send_signal(signal.SIGINT)
    _out, _err = started.communicate(timeout=240)
    assert started.returncode == 130
    comparison = Comparison.load(tmp_path / "comparison.json")
    assert comparison.interrupted
    assert comparison.measurements[0].samples_s


def test_ctrl_c_while_the_processes_of_a_sweep_start_ends_with_one_line(tmp_path: Path) -> None:
    """A terminal sends it to all of them."""
    arguments = ["star:3", "allreduce:64KiB", "--rate", "1gbit", "--output", str(tmp_path)]
    started = subprocess.Popen(
        [sys.executable, "-m", "innet", "sim", *arguments, "--processes", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert started.stderr is not None
    assert "0 of 3 runs done" in started.stderr.readline()
    os.killpg(started.pid, signal.SIGINT)
    out, err = started.communicate(timeout=240)
    assert started.returncode == 130
    assert (out, err) == ("", "interrupted before an operation was measured\n")
