"""A newcomer who follows the tutorials about vLLM word by word reaches their end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.kv_adapters.running import require_vllm_for_processors

require_vllm_for_processors()

from tests.docs.command_lines import ROOT
from tests.docs.tutorials import WITH_VLLM, follow
from tests.docs.workspace import Workspace

_TIMEOUT_S = 1500


@pytest.mark.timeout(2 * _TIMEOUT_S)
@pytest.mark.parametrize("name", WITH_VLLM)
def test_a_tutorial_works_word_by_word(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The environment of vLLM stands on that of innet, and has not its commands.
    monkeypatch.setenv("PATH", f"{ROOT}/.venv/bin:{os.environ['PATH']}")
    page = ROOT / "docs" / "tutorials" / f"{name}.md"
    # A path short enough for sockets.
    with (
        tempfile.TemporaryDirectory(prefix="innet-docs-") as directory,
        Workspace(Path(directory)) as workspace,
    ):
        for step, why in follow(page, workspace, _TIMEOUT_S):
            assert not why, f"line {step.line}: {step.name or step.text}\n{why}"
