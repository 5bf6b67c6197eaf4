"""The titles of calls that the user sees."""

from __future__ import annotations

from pathlib import Path

from agentcli.tools.base import title_of
from agentcli.tools.documents.read import Read
from agentcli.tools.search.grep import Grep
from agentcli.tools.shell.bash import Bash
from tests.support.tables import each_row

ROOT = Path("/home/me/project")


@each_row(
    ("path", "shown"),
    [
        ("/home/me/project/src/a.py", "src/a.py"),
        ("/home/me/project-old/a.py", "/home/me/project-old/a.py"),
        ("/home/me/project/../other/a.py", "/home/me/project/../other/a.py"),
        ("src/a.py", "src/a.py"),
        ("/etc/passwd", "/etc/passwd"),
    ],
)
def test_a_path_in_the_sessions_folder_is_named_from_there(path: str, shown: str) -> None:
    assert title_of(Read(), {"file_path": path}, ROOT) == f"Read {shown}"


def test_a_command_is_shown_as_it_will_run() -> None:
    command = "rm /home/me/project/a.py"
    assert title_of(Bash(), {"command": command}, ROOT) == f"Bash {command}"


def test_invalid_input_has_a_title_too() -> None:
    assert title_of(Read(), {"file_path": 3}, ROOT) == "Read 3"
    assert title_of(Grep(), {"pattern": "x", "path": "/home/me/project/src"}, ROOT).endswith("in src")
