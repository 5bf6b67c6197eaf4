"""Saving one setting: the rest of the file stays, and a broken file is never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.config.save import save_setting
from agentcli.core.errors import AgentError


def test_a_setting_is_added_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "settings.json"
    save_setting(path, "theme", "nord")
    path.write_text('{\n    "theme": "nord",\n    "model": "x", "unknown": [1]\n}\n')
    save_setting(path, "theme", "light")
    assert json.loads(path.read_text()) == {"theme": "light", "model": "x", "unknown": [1]}
    assert '\n    "theme"' in path.read_text(), "its indentation stays too"


def test_a_key_in_a_section_is_saved_there_and_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    save_setting(path, "sandbox.network", False)
    assert json.loads(path.read_text()) == {"sandbox": {"network": False}}
    save_setting(path, "sandbox.network", None)
    assert json.loads(path.read_text()) == {"sandbox": {}}


@pytest.mark.parametrize("text", ["{", '{"sandbox": 1}', "[]"])
def test_a_file_in_another_form_is_not_touched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(AgentError):
        save_setting(path, "sandbox.network", False)
    assert path.read_text() == text


def test_a_value_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    with pytest.raises(AgentError, match="auto"):
        save_setting(path, "notifications", "loud")
    assert not path.exists()
