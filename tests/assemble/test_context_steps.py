"""The steps that free context space, as the settings choose them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.assemble.context_pipeline import collapser_for, pipeline_for
from agentcli.config.paths import Paths
from agentcli.config.settings import SettingsRequest, load_settings
from agentcli.context.view import ContextView


@pytest.mark.parametrize("off", ["", "budget", "snip", "microcompact", "collapse"])
def test_every_step_can_be_switched_off_and_the_others_keep_their_order(off: str, tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path, tmp_path / "managed.json")
    (tmp_path / "settings.json").write_text(json.dumps({"context": {off: False}} if off else {}))
    settings = load_settings(SettingsRequest(paths=paths, cwd=tmp_path, trusted=True))
    pipeline = pipeline_for(settings, None, collapser_for(settings, ContextView()))
    expected = [name for name in ("budget", "snip", "microcompact", "collapse") if name != off]
    assert [step.name for step in pipeline._steps] == expected
