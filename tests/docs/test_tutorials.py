"""A newcomer who follows a tutorial word by word reaches its end.

``make docs-commands`` follows the long ones as well.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.docs.command_lines import ROOT, pages
from tests.docs.tutorials import TUTORIALS, Step, follow, missing_lines, steps_of
from tests.docs.workspace import FOLDERS, Workspace

SHORT = ("first-allreduce", "kv-cache", "ndn-client")


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["line by line", "whole"])
@pytest.mark.parametrize("name", SHORT)
def test_a_tutorial_works_word_by_word(name: str, whole: bool) -> None:
    page = ROOT / "docs" / "tutorials" / f"{name}.md"
    # A path short enough for sockets.
    with (
        tempfile.TemporaryDirectory(prefix="innet-docs-") as directory,
        Workspace(Path(directory)) as workspace,
    ):
        for step, why in follow(page, workspace, whole=whole):
            assert not why, f"line {step.line}: {step.name or step.text}\n{why}"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_has_commands_and_shows_what_they_print(page: Path) -> None:
    assert {"command", "output"} <= {step.kind for step in steps_of(page.read_text())}


def test_a_reader_has_nothing_that_the_page_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither variables nor files: a page that needs one says so."""
    for name in ("VLLM_CPU_KVCACHE_SPACE", "OMP_NUM_THREADS", "PYTHONPATH", "INNET_NDN"):
        monkeypatch.setenv(name, "1")
    with Workspace(tmp_path) as workspace:
        assert set(workspace.environment) == {"PATH", "HOME", "XDG_RUNTIME_DIR", "LANG"}
        assert {path.name for path in tmp_path.iterdir()} == {"run", "home", *FOLDERS}
        assert not [*(tmp_path / "home").iterdir(), *(tmp_path / "run").iterdir()]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_loop_that_waits_ends_also_if_nothing_comes(page: Path) -> None:
    """``kill -0`` sees that the awaited process has ended."""
    loops = re.findall(r"^.*\b(?:until|while) .*; do .*$", page.read_text(), re.MULTILINE)
    assert [loop for loop in loops if "kill -0" not in loop and "timeout" not in loop] == []


def test_the_wait_for_a_server_ends_with_its_error_when_the_server_has_ended(
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "tutorials" / "prefill-decode.md").read_text()
    [ready] = re.findall(r"^ready\(\) .*$", page, re.MULTILINE)
    (tmp_path / "log").write_text("INFO starting\nRuntimeError: no memory\nValueError: then\n")
    script = f"curl() {{ return 7; }}\n{ready}\ntrue & pid=$!\nwait $pid\nready 8001 $pid log"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "RuntimeError: no memory\n")
    assert "No such process" in done.stderr


PAGE = """
Save this as `a.py`:

```python
print(1.5)
```

```sh
python a.py
false
```

```text
1.7
```

```python
not_saved()
```
"""


def test_steps_are_files_commands_and_outputs_in_order() -> None:
    assert list(steps_of(PAGE)) == [
        Step(5, "file", "print(1.5)\n", "a.py"),
        Step(9, "command", "python a.py"),
        Step(10, "command", "false"),
        Step(14, "output", "1.7\n"),
    ]


def test_a_reader_stops_where_a_command_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with Workspace(tmp_path) as workspace:
        done = list(follow(page, workspace))
    assert [step.text for step, why in done if why] == ["false"]
    assert done[-1][1].startswith("exit code 1\n1.5")


def test_outputs_are_compared_by_line_and_figures_within_the_tolerance() -> None:
    assert missing_lines("a 1.5 s\nb\n", "x\n[h0] a  1.5 s\nc\nb\n") == []
    assert missing_lines("a 1.5 s\n", "a 1.50 s\n") == []
    assert missing_lines("b\na 1 s\n", "a 1 s\nb\n") == ["a 1 s"]
    assert missing_lines("a b s\n", "a 12 s\n") == ["a b s"]
    assert missing_lines("in 10.0 ms\n", "in 0.0 ms\n") == ["in 10.0 ms"]
    assert missing_lines("in 10.0 ms\n", "in 11.9 ms\n", 1.2) == []
    assert missing_lines("in 10.0 ms\n", "in 8.4 ms\n", 1.2) == []
    assert missing_lines("in 10.0 ms\n", "in 12.1 ms\n", 1.2) == ["in 10.0 ms"]
    assert missing_lines("in 10.0 ms\n", "in 0.0 ms\n", 100) == ["in 10.0 ms"]
    assert missing_lines("1 segment\n", "11 segment\n") == ["1 segment"]
    assert missing_lines("2,048 hosts of h0-h3\n", "2,047 hosts of h0-h3\n", 1.01) == []
    assert missing_lines("hosts of h0-h3\n", "hosts of h0-h4\n", 2) == ["hosts of h0-h3"]
    assert missing_lines("/hello/v=…: 1 segment\n", "/hello/v=17954: 1 segment; x\n") == []
    assert missing_lines("/hello/v=…: 1 segment\n", "/hello/v=17954: 2 segments\n") != []


@pytest.mark.parametrize(
    ("prose", "factor"),
    [
        ("It prints:", 1),
        ("It prints, within 20 %:", 1.2),
        ("The time is right within\na factor of 5:", 5),
        ("Elsewhere within 50 %.\n\nHere it prints:", 1),
    ],
)
def test_a_page_states_the_tolerance_of_an_output_in_the_paragraph_before(
    prose: str, factor: float
) -> None:
    [step] = steps_of(f"# Page\n\n{prose}\n\n```text\n1 s\n```\n")
    assert step.factor == factor
