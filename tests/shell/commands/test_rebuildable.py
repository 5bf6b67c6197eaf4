"""Which folders auto mode allows to remove because a tool creates them again."""

from __future__ import annotations

from pathlib import Path

from agentcli.shell.commands.removal import Rebuildable


def test_the_environment_that_runs_agentcli_is_not_rebuildable(tmp_path: Path) -> None:
    environment = tmp_path / ".venv"
    (environment / "lib").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    assert Rebuildable().covers(".venv", tmp_path)
    assert not Rebuildable(installation=(environment.resolve() / "lib",)).covers(".venv", tmp_path)
    assert not Rebuildable(installation=(environment.resolve(),)).covers(".venv/lib", tmp_path)


def test_without_git_only_unambiguous_names_count(tmp_path: Path) -> None:
    for name in ("node_modules", "dist", "work"):
        (tmp_path / name).mkdir()
    covered = [name for name in ("node_modules", "dist", "work", ".", "..") if Rebuildable().covers(name, tmp_path)]
    assert covered == ["node_modules"]
