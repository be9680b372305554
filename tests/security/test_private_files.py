"""Files that hold secrets are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.private_files import read_private, write_private


def test_a_replacement_is_atomic_for_readers(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, "the first")
    with path.open() as opened:
        write_private(path, "the second")
        assert opened.read() == "the first"
    assert read_private(path, "a token", "Make one") == b"the second"


def test_a_readable_file_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("open")
    path.chmod(0o644)
    write_private(path, "closed")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, "the first")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "no text: \ud800")
    assert path.read_text() == "the first"
    assert list(tmp_path.iterdir()) == [path]
