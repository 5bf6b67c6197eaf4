"""Hostile settings files take bounded time, and no deny rule is lost silently."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.config import settings as settings_module
from agentcli.config.files import MAX_PROBLEMS, SIZE_LIMIT
from agentcli.config.paths import Paths
from agentcli.config.settings import Settings, SettingsRequest, load_settings
from agentcli.config.trust import UNREADABLE, parts_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".agentcli").mkdir(parents=True)
    return tmp_path / "project"


def load(project: Path, content: str, *, trusted: bool = True) -> Settings:
    (project / ".agentcli" / "settings.json").write_text(content)
    folder = project.parent
    paths = Paths(folder / "config", folder / "state", folder / "cache", folder / "managed.json")
    return load_settings(SettingsRequest(paths=paths, cwd=project, trusted=trusted))


@pytest.mark.parametrize("trusted", [True, False])
def test_very_many_unknown_settings_are_counted_and_few_are_compared(
    project: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    compare = settings_module._did_you_mean
    monkeypatch.setattr(settings_module, "_did_you_mean", lambda name: asked.append(name) or compare(name))
    found = load(project, json.dumps({f"k{number}": 1 for number in range(7_000)} | {"modle": "x"}), trusted=trusted)
    assert len(asked) <= MAX_PROBLEMS
    assert len(found.problems) <= MAX_PROBLEMS + 1
    if trusted:
        assert "6,981 more settings are unknown" in found.problems[-1].text


def test_very_many_duplicate_names_are_counted(project: Path) -> None:
    names = [f'"k{number}": 1' for number in range(5_000)] * 2
    found = load(project, "{" + ", ".join(names) + "}")
    assert len(found.problems) <= 2 * (MAX_PROBLEMS + 1)


def test_a_very_long_name_is_shortened_in_messages(project: Path) -> None:
    (problem,) = load(project, json.dumps({"x" * 500_000: 1})).problems
    assert len(problem.text) < 500


@pytest.mark.parametrize("levels", [101, 600, 100_000])
def test_settings_nested_too_deeply_are_refused_and_every_tool_asks(project: Path, levels: int) -> None:
    found = load(project, '{"a":' * levels + "1" + "}" * levels)
    assert found.rights_uncertain
    assert "nested more than 100 levels" in found.problems[0].text


@pytest.mark.parametrize("rules", [["Read(a)"] * 50_000, ["Read(" + "*a" * 30_000 + ")"] * 3], ids=["many", "long"])
def test_more_deny_rules_than_can_be_matched_make_every_tool_ask(project: Path, rules: list[str]) -> None:
    found = load(project, json.dumps({"permissions": {"deny": rules, "allow": rules}}), trusted=False)
    assert found.rights_uncertain
    assert len(found.texts("permissions.deny")) <= 1_000
    assert sum(map(len, found.texts("permissions.deny"))) <= 65_536
    assert any("every tool needs approval" in problem.text for problem in found.problems)


def test_an_ordinary_number_of_rules_is_used_completely(project: Path) -> None:
    rules = [f"Read(secret{number})" for number in range(500)]
    found = load(project, json.dumps({"permissions": {"deny": rules}}), trusted=False)
    assert found.texts("permissions.deny") == tuple(rules)
    assert not found.rights_uncertain


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "large"])
def test_a_settings_file_that_cannot_be_read_is_unusable_and_never_trusted(project: Path, target: str) -> None:
    path = project / ".agentcli" / "settings.json"
    if target == "fifo":
        os.mkfifo(path)
    elif target == "large":
        with path.open("wb") as file:
            file.truncate(SIZE_LIMIT * 1_000)
    else:
        path.symlink_to(target)
    folder = project.parent
    paths = Paths(folder / "config", folder / "state", folder / "cache", folder / "managed.json")
    assert load_settings(SettingsRequest(paths=paths, cwd=project, trusted=False)).rights_uncertain
    assert [part.digest for part in parts_of(project)] == [UNREADABLE]
