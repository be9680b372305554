"""A newcomer who follows a tutorial word by word reaches its end.

``make docs-commands`` follows the long ones as well.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.docs.command_lines import ROOT
from tests.docs.tutorials import TUTORIALS, Step, follow, missing_lines, steps_of
from tests.docs.workspace import Workspace

SHORT = ("first-allreduce", "kv-cache", "ndn-client")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_tutorial_works_word_by_word(name: str) -> None:
    page = ROOT / "docs" / "tutorials" / f"{name}.md"
    # A path short enough for sockets.
    with (
        tempfile.TemporaryDirectory(prefix="innet-docs-") as directory,
        Workspace(Path(directory)) as workspace,
    ):
        for step, why in follow(page, workspace):
            assert not why, f"line {step.line}: {step.name or step.text}\n{why}"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_has_commands_and_shows_what_they_print(page: Path) -> None:
    assert {"command", "output"} <= {step.kind for step in steps_of(page.read_text())}


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


def test_outputs_are_compared_by_line_and_numbers_can_differ() -> None:
    assert missing_lines("a 1.5 s\nb\n", "x\n[h0] a  12 s\nc\nb\n") == []
    assert missing_lines("b\na 1 s\n", "a 12 s\nb\n") == ["a 1 s"]
    assert missing_lines("a b s\n", "a 12 s\n") == ["a b s"]
