"""`# text` and /memory add: a line of the user's goes into the instruction file of their choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.commands.front_end import Choice, FrontEnd, NoFrontEnd
from agentcli.commands.registry import find
from agentcli.core import events as ev
from tests.support.fakes import collect
from tests.support.scripts import provider_on, transport_for

pytestmark = pytest.mark.anyio


class Choosing(FrontEnd):
    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.offered: list[tuple[str, str]] = []
        self.prefilled = ""

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        self.offered = [(choice.label, choice.detail) for choice in choices]
        return self.wanted

    def prefill(self, text: str) -> None:
        self.prefilled = text


async def add(folder: Path, text: str, front_end: FrontEnd) -> list[ev.Event]:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    transport = transport_for()
    options = Options(cwd=project, environ={"HOME": str(folder)}, sandbox="off", provider=provider_on(transport))
    command = find("memory")
    assert command is not None
    async with build_engine(options) as engine:
        return await collect(command.load()(engine, f"add {text}", front_end))


async def test_a_line_is_added_at_the_end_of_the_chosen_file(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/AGENTS.md").write_text("# Rules\n\n- old")
    front_end = Choosing("AGENTS.md")
    await add(tmp_path, "run  make check", front_end)
    assert (tmp_path / "project/AGENTS.md").read_text() == "# Rules\n\n- old\n- run make check\n"
    user = str(tmp_path / ".config/agentcli/AGENTS.md")
    assert front_end.offered == [
        ("AGENTS.md", "the project's"),
        ("AGENTS.local.md", "yours, for this project; new"),
        (user, "yours, for all projects; new"),
    ]


async def test_a_user_file_is_created_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / ".config/agentcli/AGENTS.md"
    [event] = await add(tmp_path, "speak plainly", Choosing(str(path)))
    assert path.read_text() == "- speak plainly\n"
    assert isinstance(event, ev.NoticeRaised)
    assert "speak plainly" in event.text


async def test_a_project_with_only_a_claude_file_uses_it(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/CLAUDE.md").write_text("x\n")
    await add(tmp_path, "y", Choosing("CLAUDE.md"))
    assert (tmp_path / "project/CLAUDE.md").read_text() == "x\n- y\n"


async def test_cancelling_the_choice_restores_the_line(tmp_path: Path) -> None:
    front_end = Choosing(None)
    [event] = await add(tmp_path, "x y", front_end)
    assert isinstance(event, ev.NoticeRaised)
    assert "Nothing was added" in event.text
    assert front_end.prefilled == "# x y"
    assert not (tmp_path / "project/AGENTS.md").exists()


async def test_without_a_front_end_it_is_not_available(tmp_path: Path) -> None:
    [event] = await add(tmp_path, "x", NoFrontEnd())
    assert isinstance(event, ev.NoticeRaised)
    assert event.level == "error"
    assert "not available" in event.text
