"""An engine that starts while its standing pool is down computes, and finds no blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: `make kv-adapters` tests with it")

from tests.kv_adapters.vllm.engine import Engine, make_config, write_model

PROMPT = [(7 * place) % 500 for place in range(61)]


def test_an_engine_computes_while_its_pool_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    secret = tmp_path / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text("at least sixteen bytes")
    (tmp_path / "model").mkdir()
    write_model(tmp_path / "model")
    options = {"address": "prod", "tenant": "acme", "secret": str(secret)}
    engine = Engine(make_config(tmp_path / "model", **options))
    try:
        served = engine.serve(PROMPT)
        assert (served.computed_tokens, served.is_right) == (len(PROMPT), True)
        engine.saved()
    finally:
        engine.close()
