"""Programs that the app starts itself, with a PATH that begins in a folder which the agent can write."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from agentcli.cli.flags import parse
from agentcli.cli.front_ends import _environment_of_programs
from agentcli.core.errors import AgentError
from agentcli.core.terminal import Terminal
from agentcli.interactive.clipboard import copy
from agentcli.interactive.editor import edit_in_editor, editor_command
from agentcli.providers.credentials import KeyHelper
from agentcli.tui.model import Facts
from agentcli.tui.prompt.external_input import read_clipboard
from agentcli.tui.startup.preferences import load_preferences

NAMES = ("jq", "cat", "git", "less", "tr", "sh", "python3", "nano", "vim", "vi", "xclip", "wl-copy", "wl-paste", "head")


class Project:
    """A project, a folder added to it, and a home; every program in `.venv/bin` of either records that it ran."""

    def __init__(self, root: Path) -> None:
        self.ran = root / "ran"
        self.work, self.added, self.home, self.tools = (root / name for name in ("work", "added", "home", "tools"))
        (self.home / ".config/agentcli").mkdir(parents=True)
        self.tools.mkdir()
        for folder in (self.work, self.added):
            (folder / ".venv/bin").mkdir(parents=True)
            for name in NAMES:
                self.make(folder / ".venv/bin", name, f"echo {name} >> {self.ran}; echo planted")
        (root / "link").symlink_to(self.work / ".venv/bin")
        entries = (f"{self.work}/.venv/bin", f"{self.added}/.venv/bin", ".venv/bin", f"{root}/link", str(self.tools))
        self.environ = {"HOME": str(self.home), "PATH": ":".join((*entries, "/usr/bin", "/bin")), "TERM": "xterm"}

    def make(self, folder: Path, name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    def settings(self, **values: object) -> None:
        (self.home / ".config/agentcli/settings.json").write_text(json.dumps(values))

    def for_programs(self) -> Mapping[str, str]:
        """As the command line gives it to a front end."""
        return _environment_of_programs(parse(["--add-dir", str(self.added)]), self.environ, self.work)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def test_the_status_line_runs_no_program_of_the_project(project: Project) -> None:
    command = "head -c 1 >/dev/null; echo here | cat | tr a-z A-Z; git --version"
    project.settings(statusLine={"type": "command", "command": command})
    preferences = load_preferences(project.work, project.for_programs(), None, None)
    status = preferences.status_command("1")
    assert status is not None
    ran = asyncio.run(status.run(Facts()))
    assert "".join(text for text, _style in ran.line) == "HERE"
    assert not project.ran.exists()


@pytest.mark.parametrize(
    "widened",
    [{"permissions": {"additionalDirectories": ["../added"]}}, {"sandbox": {"allowWrite": ["../added"]}}],
)
def test_the_status_line_runs_no_program_of_a_folder_that_the_settings_make_writable(
    project: Project, widened: dict[str, object]
) -> None:
    project.settings(statusLine={"type": "command", "command": "echo here | cat"}, **widened)
    status = load_preferences(project.work, project.environ, None, None).status_command("1")
    assert status is not None
    assert "".join(text for text, _style in asyncio.run(status.run(Facts())).line) == "here"
    assert not project.ran.exists()


@pytest.mark.parametrize("words", ["sh status.sh", "./status.sh", "sh .claude/status.sh | cat", "sh ../status.sh"])
def test_the_status_line_runs_no_script_of_the_project(project: Project, words: str) -> None:
    """The user's own command may name a file that every project can have, long before the trust question."""
    (project.work / ".git").mkdir()
    folder = project.work / "deep"
    for place in (project.work, folder, folder / ".claude"):
        place.mkdir(exist_ok=True)
        project.make(place, "status.sh", f"echo ran > {project.ran}; echo here")
    project.settings(statusLine={"type": "command", "command": words})
    status = load_preferences(folder, project.for_programs(), None, None).status_command("1")
    assert status is not None
    assert "names a file of this project" in asyncio.run(status.run(Facts())).problem
    assert not project.ran.exists()


def test_a_session_in_the_home_folder_has_its_status_line(project: Project) -> None:
    project.make(project.home, "status.sh", "echo here")
    project.settings(statusLine={"type": "command", "command": f"sh {project.home}/status.sh"})
    environ = {"HOME": str(project.home), "PATH": "/usr/bin:/bin"}
    for folder in (project.home, project.work):
        status = load_preferences(folder, environ, None, None).status_command("1")
        assert status is not None
        assert "".join(text for text, _style in asyncio.run(status.run(Facts())).line) == "here"


def test_a_status_line_in_python_imports_nothing_from_the_project(project: Project) -> None:
    (project.work / "json.py").write_text(f"open({str(project.ran)!r}, 'w').write('x')\n")
    project.settings(statusLine={"type": "command", "command": "python3 -c 'import json; print(json.__name__)'"})
    # The system's own, whichever that is: older ones than 3.11 do not know how to leave the folder out.
    status = load_preferences(project.work, project.for_programs(), None, None).status_command("1")
    assert status is not None
    assert status.environ["PATH"].split(":") == [str(project.tools), "/usr/bin", "/bin"]
    assert status.environ["PYTHONSAFEPATH"] == "1"


@pytest.mark.anyio
async def test_the_key_helper_runs_no_program_of_the_project_and_starts_outside_of_it(project: Project) -> None:
    (project.home / "key").write_text("sk-mine")
    helper = KeyHelper("cat key | tr -d ' '", project.environ, (project.work, project.added))
    assert await helper.read() == "sk-mine"
    assert not project.ran.exists()


@pytest.mark.anyio
async def test_the_editor_is_not_one_of_the_project_and_neither_is_what_it_starts(project: Project) -> None:
    for name in ("nano", "vim", "vi"):
        with suppress(AgentError):
            found = editor_command({**project.for_programs(), "EDITOR": name}, project.work)
            assert not Path(found[0]).is_relative_to(project.work.parent)
    project.make(project.tools, "my-editor", 'cat "$1" > "$1.new"; echo more >> "$1.new"; cat "$1.new" > "$1"')
    environ = {**project.for_programs(), "EDITOR": "my-editor"}
    assert await edit_in_editor("text", environ, project.work) == "textmore"
    assert not project.ran.exists()


@pytest.mark.anyio
@pytest.mark.parametrize("named", ["{work}/.venv/bin/vi", "./.venv/bin/vi", ".venv/bin/vi", "{work}/../link/vi"])
async def test_an_editor_in_the_project_is_refused_by_its_path_too(project: Project, named: str) -> None:
    environ = {**project.for_programs(), "EDITOR": named.format(work=project.work)}
    with pytest.raises(AgentError, match="is in the working directory"):
        await edit_in_editor("text", environ, project.work)
    assert not project.ran.exists()


@pytest.mark.anyio
async def test_the_clipboard_s_programs_are_not_those_of_the_project(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = project.home / "seen"
    for name in ("xclip", "wl-copy", "wl-paste"):
        project.make(project.tools, name, f"env > {seen}; cat >> {project.home}/copied; printf pasted")
    given = {**project.for_programs(), "DISPLAY": ":0", "WAYLAND_DISPLAY": "w", "DATABASE_URL": "secret"}
    assert read_clipboard(given, project.work).image == b"pasted"
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SSH_TTY", raising=False)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    said = await copy("text", Terminal.from_environ(given, "linux"), lambda _text: None, (project.work,))
    assert "with wl-copy" in said or "with xclip" in said
    assert (project.home / "copied").read_text() == "text"
    assert "secret" not in seen.read_text()
    assert str(project.work) not in seen.read_text()
    assert not project.ran.exists()
    assert os.environ["DATABASE_URL"] == "secret"
