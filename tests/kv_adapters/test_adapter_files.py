"""LoRA adapters are identified by their files' contents, and excluded when these change."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from innet.kv.adapters.identity import FileDigests
from innet.kv.adapters.lora import AdapterFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An adapter as trainers write it."""
    made = tmp_path / "adapter"
    made.mkdir()
    (made / "adapter_config.json").write_text('{"r": 8, "lora_alpha": 16}')
    (made / "adapter_model.safetensors").write_bytes(bytes(1000))
    return made


def files(**settings: str) -> AdapterFiles:
    """Of an engine that has just started."""
    return AdapterFiles(FileDigests(None), settings)


def identity(
    engine: AdapterFiles, folder: Path, name: str = "tuned", settings: str = ""
) -> str | None:
    found = engine.adapter(name, str(folder), str(folder), {"is_3d": settings})
    return None if found is None else found.identity


def retrain(folder: Path) -> None:
    (folder / "adapter_model.safetensors").write_bytes(bytes(999) + b"1")


def test_a_retrained_adapter_of_the_same_name_and_path_has_another_identity(folder: Path) -> None:
    before = identity(files(), folder)
    retrain(folder)
    assert before is not None
    assert identity(files(), folder) not in (before, None)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_each_file_counts(folder: Path, name: str) -> None:
    before = identity(files(), folder)
    file = folder / name
    file.write_bytes(file.read_bytes().replace(b"16", b"32") + b"\n")
    assert identity(files(), folder) != before


def test_equal_files_of_another_name_and_path_share_blocks(folder: Path) -> None:
    other = folder.with_name("copy")
    shutil.copytree(folder, other)
    assert identity(files(), folder) == identity(files(), other, "other")


def test_settings_of_engine_and_adapter_count(folder: Path) -> None:
    made = {
        identity(files(lora_dtype="float16"), folder),
        identity(files(lora_dtype="bfloat16"), folder),
        identity(files(lora_dtype="bfloat16"), folder, settings="yes"),
    }
    assert len(made) == 3
    assert None not in made


def test_an_adapter_that_changes_under_an_engine_is_excluded_and_the_log_says_so_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = files()
    before = identity(engine, folder)
    retrain(folder)
    assert identity(engine, folder) is None
    (folder / "adapter_model.safetensors").write_bytes(bytes(1000))
    assert identity(engine, folder) is None, "its blocks may be a mixture"
    [record] = caplog.records
    assert "tuned are neither loaded nor saved" in record.getMessage()
    assert "restart the engine" in record.getMessage()
    assert identity(files(), folder) == before
    assert identity(engine, folder, "by another name") == before


def test_a_file_that_is_only_touched_or_copied_again_is_the_same(folder: Path) -> None:
    engine = files()
    before = identity(engine, folder)
    os.utime(folder / "adapter_model.safetensors")
    assert identity(engine, folder) == before
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    assert identity(engine, folder) == before, "the engine cannot load another one"
    folder.with_name("copy").rename(folder)
    assert identity(engine, folder) == before


@pytest.mark.parametrize("missing", ["adapter_model.safetensors", ""])
def test_an_adapter_without_weights_is_excluded(
    folder: Path, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    if missing:
        (folder / missing).unlink()
    else:
        shutil.rmtree(folder)
    assert identity(files(), folder) is None
    assert str(folder) in caplog.text
