"""Settings of SGLang's servers that change keys and values are part of the pages' names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from innet.errors import KVError
from innet.kv.adapters.sglang_settings import settings_facts


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    made = tmp_path / "adapter"
    made.mkdir()
    (made / "adapter_config.json").write_text("{}")
    (made / "adapter_model.safetensors").write_bytes(bytes(1000))
    return made


def facts(**arguments: Any) -> dict[str, Any]:
    return settings_facts(SimpleNamespace(**arguments), "")


def test_a_retrained_adapter_of_the_same_name_and_path_counts(adapter: Path) -> None:
    before = facts(lora_paths=[f"tuned={adapter}"])
    (adapter / "adapter_model.safetensors").write_bytes(bytes(999) + b"1")
    assert facts(lora_paths=[f"tuned={adapter}"]) != before


def test_each_form_of_an_adapter_is_read(adapter: Path) -> None:
    path = str(adapter)
    forms: list[Any] = [
        [f"tuned={path}"],
        [{"lora_name": "tuned", "lora_path": path}],
        {"tuned": path},
        [SimpleNamespace(lora_name="tuned", lora_path=path)],
    ]
    assert all(facts(lora_paths=form) == facts(lora_paths=forms[0]) for form in forms)
    assert facts(lora_paths=forms[0])["adapters"] != facts(lora_paths=None)["adapters"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("load_format", "dummy"),
        ("json_model_override_args", '{"rope_theta": 1.0}'),
        ("quantization", "fp8"),
        ("kv_cache_dtype", "fp8_e4m3"),
        ("speculative_algorithm", "EAGLE3"),
        ("speculative_draft_model_path", "someone/draft"),
        ("mm_process_config", {"image": {"max_pixels": 9}}),
        ("rl_quant_profile", "x"),
        ("weight_version", "2"),
        ("forward_hooks", [{"target_modules": ["mlp"], "hook_factory": "x:y"}]),
        ("cp_strategy", "zigzag"),
        ("enable_deepseek_v4_fp4_indexer", True),
    ],
)
def test_settings_count(name: str, value: Any) -> None:
    assert facts(**{name: value}) != facts(**{name: None})


@pytest.mark.parametrize(
    "setting", ["quantization_param_path", "kt_weight_path", "decrypted_config_file"]
)
def test_files_count_by_their_contents(setting: str, tmp_path: Path) -> None:
    file = tmp_path / "scales.json"
    file.write_text('{"k": 1}')
    before = facts(**{setting: str(file)})
    file.write_text('{"k": 2}')
    assert facts(**{setting: str(file)}) != before


def test_files_that_are_not_here_are_refused_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(KVError, match=r"lora_paths: .*is no local file or folder"):
        facts(lora_paths=[f"tuned={tmp_path / 'none'}"])


def test_sets_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from types import SimpleNamespace as N\n"
        "from innet.kv.adapters.sglang_settings import settings_facts\n"
        "print(settings_facts(N(lora_target_modules={'q', 'k', 'v', 'o', 'gate'}), ''))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
