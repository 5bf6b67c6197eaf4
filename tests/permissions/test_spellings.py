"""Allow rules for a program of the project, which commands name by different paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.permissions.deciding import bash, policy
from tests.support.tables import each_row

RULES = "Bash(.venv/bin/python -m pytest *)\nBash(pytest *)\nBash(./run.sh)\nBash(ruff *)"


@pytest.fixture
def project(tree: Path) -> Path:
    for folder in (tree, tree.parent / "elsewhere"):
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "bin" / "python").symlink_to("/usr/bin/env")
    (tree / "run.sh").write_text("")
    return tree


def behavior(command: str, project: Path) -> str:
    return bash(policy(allow=RULES, search_path=""), command.format(project=project), project).behavior


@each_row(
    "command",
    [
        *(".venv/bin/python -m pytest", "cd tests && ../.venv/bin/python -m pytest -q"),
        *("cd tests && {project}/.venv/bin/python -m pytest", "timeout 60 ./.venv/bin/python -m pytest"),
        *("cd src && ../run.sh", "PYTHONPATH=src pytest -q"),
        *("PYTHONPATH={project}/src ./.venv/bin/python -m pytest -q", "CI=1 PYTHONPATH=src pytest"),
    ],
)
def test_another_spelling_of_the_same_program_is_covered(command: str, project: Path) -> None:
    assert behavior(command, project) == "allow"


@each_row(
    "command",
    [
        *("./.venv/bin/python x.py", "cd tests && ./.venv/bin/python -m pytest"),
        *("cd tests; ../.venv/bin/python -m pytest", "run.sh", "./ruff check", "PYTHONPATH=src ruff check"),
        *("PYTHONPATH=.. pytest", "PYTHONPATH=~/x pytest", "PYTHONPATH=src LD_PRELOAD=x pytest"),
    ],
)
def test_another_program_or_search_path_is_not_covered(command: str, project: Path) -> None:
    assert behavior(command, project) == "ask"


def test_tests_with_a_search_path_still_need_a_rule(project: Path) -> None:
    for command in ("PYTHONPATH=src pytest --version", "PYTHONPATH=src python3 -m pytest --version"):
        assert bash(policy(), command, project).behavior == "ask"
