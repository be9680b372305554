"""``make audit`` never passes for a check that was not made."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit-packages.sh"
FOUND, NOT_CHECKED = 1, 2


@pytest.mark.parametrize(
    ("report", "ended_with", "expected", "message"),
    [
        ("No known vulnerabilities found", 0, 0, ""),
        ("Found 2 known vulnerabilities in 1 package", 1, FOUND, "pyproject.toml"),
        ("requests.exceptions.ConnectionError: [Errno 111]", 1, NOT_CHECKED, "https://pypi.org"),
        ("", 124, NOT_CHECKED, "no answer from its database (status 124)"),
        (
            "No known vulnerabilities found\nx (1.0) could not be audited",
            0,
            NOT_CHECKED,
            "has no answer for 1 packages",
        ),
    ],
)
def test_the_exit_status_shows_whether_all_packages_were_checked(
    tmp_path: Path, report: str, ended_with: int, expected: int, message: str
) -> None:
    (tmp_path / "report").write_text(report)
    tool = tmp_path / "pip-audit"
    tool.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exit 0\n'
        f"cat {tmp_path}/report; echo; exit {ended_with}\n"
    )
    tool.chmod(0o755)
    assert audit(str(tool), message) == expected


def test_a_missing_pip_audit_is_not_a_clean_result() -> None:
    assert audit("/nonexistent/pip-audit", "pip install pip-audit") == NOT_CHECKED


def audit(command: str, message: str) -> int:
    """The status, once stderr has the message."""
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "AUDIT_COMMAND": command},
    )
    assert message in done.stderr
    return done.returncode
