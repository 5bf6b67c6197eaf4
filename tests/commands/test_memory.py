"""`# text` and /memory add: a line of the user's goes into the instruction file of their choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.commands.front_end import Choice, FrontEnd, NoFrontEnd
from agentcli.commands.line import run_command
from agentcli.commands.registry import find
from agentcli.core import events as ev
from agentcli.core.messages import TYPED
from agentcli.core.permission import Answer, PermissionMode
from tests.support.fakes import collect, only
from tests.support.scripts import call, provider_on, reply, transport_for

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


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
async def test_the_change_is_shown_before_it_is_made(tmp_path: Path, mode: PermissionMode) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "Makefile").write_text("check:\n")
    (project / ".cursorrules").write_text("x")
    transport = transport_for(reply(call("Write", file_path="AGENTS.md", content="make check\n")), "Done.", "Ok.")
    options = Options(
        cwd=project,
        environ={"HOME": str(tmp_path)},
        sandbox="off",
        interactive=True,
        permission_mode=mode,
        provider=provider_on(transport),
    )
    async with build_engine(options) as engine:
        events = []
        async for event in run_command(engine, "init", "be brief"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                assert event.display["kind"] == "diff"
                origin = f"rule Edit {project}/AGENTS.md from /init, which always asks first"
                assert event.reason == f"Needs approval: it matches {origin}"
                assert not (project / "AGENTS.md").exists()
                engine.answer(event.request_id, Answer("allow"))
        assert (project / "AGENTS.md").read_text() == "make check\n"
        only(events, ev.PermissionRequested)
        assert engine.messages[0].meta[TYPED] == "/init be brief"
        assert engine.permissions.entries() == []
    sent = str(transport.requests[0]["messages"])
    for part in ("Makefile", ".cursorrules", "The user adds: be brief"):
        assert part in sent


async def test_without_a_user_the_mode_decides(tmp_path: Path) -> None:
    transport = transport_for(reply(call("Write", file_path="AGENTS.md", content="x\n")), "Done.")
    options = Options(
        cwd=tmp_path,
        environ={"HOME": str(tmp_path)},
        sandbox="off",
        permission_mode=PermissionMode.ACCEPT_EDITS,
        provider=provider_on(transport),
    )
    async with build_engine(options) as engine:
        async for _event in run_command(engine, "init", ""):
            pass
    assert (tmp_path / "AGENTS.md").exists()
