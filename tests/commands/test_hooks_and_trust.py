"""/hooks lists what is active, /trust lets a project's hooks take effect without a restart."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.commands.extensions import NO_HOOKS, HookRow
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.registry import find
from agentcli.config.trust import TrustState
from agentcli.core.events import NoticeRaised
from agentcli.core.permission import PermissionMode
from tests.support.fakes import collect
from tests.support.scripts import call, provider_on, reply, transport_for

pytestmark = pytest.mark.anyio
OFF = "not active: this folder is not trusted; /trust reviews it"


class Reviewer(FrontEnd):
    def __init__(self, project: Path, *, trusts: bool = True, pages: bool = False) -> None:
        self.has_pages = pages
        self.shown: list[Any] = []
        self._project = project
        self._trusts = trusts

    async def options(self) -> Options:
        return options(self._project)

    async def page(self, kind: str, *data: Any) -> None:
        self.shown.append((kind, *data))

    async def review_trust(self, state: TrustState) -> bool:
        self.shown += [part.text for part in state.parts]
        return self._trusts


def options(project: Path, *replies: Any) -> Options:
    return Options(
        cwd=project,
        environ={"PATH": os.environ["PATH"], "HOME": str(project.parent)},
        provider=provider_on(transport_for(*replies)),
        model="claude-sonnet-5-5",
        permission_mode=PermissionMode.BYPASS,
        settings='{"sandbox": {"mode": "off"}}',
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".agentcli").mkdir(parents=True)
    value = {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "exit 3"}]}]}
    (project / ".agentcli/settings.json").write_text(json.dumps({"hooks": value}))
    return project


async def said(name: str, engine: Engine | None, front_end: FrontEnd, arguments: str = "") -> list[str]:
    command = find(name)
    assert command is not None
    events = await collect(command.load()(engine, arguments, front_end))
    return [event.text for event in events if isinstance(event, NoticeRaised)]


async def hooks(engine: Engine, front_end: FrontEnd, arguments: str = "") -> list[str]:
    return await said("hooks", engine, front_end, arguments)


async def trust(engine: Engine | None, front_end: FrontEnd) -> list[str]:
    return await said("trust", engine, front_end)


async def test_trust_shows_the_files_and_turns_the_hooks_on(project: Path) -> None:
    front_end = Reviewer(project)
    async with build_engine(options(project, reply(call("Bash", command="true")), "Ok.")) as engine:
        head = "PreToolUse Bash|Edit: exit 3"
        assert await hooks(engine, front_end) == [f"{head}\n    from .agentcli/settings.json; {OFF}"]
        assert await trust(engine, front_end) == [
            f"{project} is trusted. Its settings, hooks, MCP servers and definitions apply now."
        ]
        assert front_end.shown == [(project / ".agentcli/settings.json").read_text()]
        assert await hooks(engine, front_end) == [f"{head}\n    from .agentcli/settings.json; has not run yet"]
        await collect(engine.submit("go"))
        (text,) = await hooks(engine, front_end)
        assert "last run: failed, " in text


async def test_what_is_not_trusted_stays_off(project: Path) -> None:
    front_end = Reviewer(project, trusts=False)
    async with build_engine(options(project)) as engine:
        (text,) = await trust(engine, front_end)
        assert text.startswith("Nothing was trusted.")
        (text,) = await hooks(engine, front_end)
        assert text.endswith(OFF)
        (project / ".agentcli/settings.json").unlink()
        assert await hooks(engine, front_end) == [NO_HOOKS]


async def test_the_app_shows_a_page_and_a_search_finds(project: Path) -> None:
    front_end = Reviewer(project, pages=True)
    async with build_engine(options(project)) as engine:
        await trust(engine, front_end)
        front_end.shown.clear()
        assert await hooks(engine, front_end) == []
        row = HookRow("PreToolUse", "Bash|Edit", "exit 3", ".agentcli/settings.json", "")
        assert front_end.shown == [("hooks", [row])]
        assert await hooks(engine, Reviewer(project), "nope") == ["No hook mentions nope."]
        assert len(await hooks(engine, Reviewer(project), "edit")) == 1


async def test_a_project_without_files_has_nothing_to_trust(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (text,) = await trust(None, Reviewer(tmp_path / "empty"))
    assert "has no settings" in text
