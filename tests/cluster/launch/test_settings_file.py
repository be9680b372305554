"""The file by which a run's processes get its settings."""

from __future__ import annotations

import math
from pathlib import Path

from innet.settings import RecoverySettings, Settings


def test_settings_round_trip_including_never_as_a_time(tmp_path: Path) -> None:
    settings = Settings(recovery=RecoverySettings(partition_timeout_s=math.inf))
    path = tmp_path / "settings.json"
    path.write_text(settings.model_dump_json(indent=2))
    assert Settings.load(path) == settings
