"""Output styles: in the system prompt of new sessions, the same bytes for the whole session."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.registry import find
from agentcli.context.prompt import OutputStyle, default_prompt
from agentcli.core import events as ev
from agentcli.definitions.library import all_styles
from tests.support.assembled import Assembled
from tests.support.fakes import only

pytestmark = pytest.mark.anyio


def style(project: Path, header: str = "", body: str = "Speak like a pirate.") -> Path:
    path = project / ".agentcli/output-styles/pirate.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\ndescription: Arr\n{header}---\n{body}\n")
    return path


def chosen(name: str) -> dict[str, Any]:
    return {"settings": json.dumps({"sandbox": {"mode": "off"}, "outputStyle": name})}


async def test_a_style_takes_the_place_of_the_manner_and_a_resumed_session_keeps_it(project: Path) -> None:
    path = style(project)
    async with Assembled(project, ["Arr."], options=chosen("Pirate")) as a:
        events = await a.run()
        session = a.engine.session_id
    (system,) = (a.requests[0]["system"][0]["text"],)
    assert "# Output style: pirate\nSpeak like a pirate." in system
    assert "# How to answer" not in system
    assert "# How to work" not in system
    assert "# Care" in system
    assert only(events, ev.SessionStarted)[0].output_style == "pirate"
    path.write_text("Speak like a lawyer.")
    async with Assembled(project, ["Arr."], options={"resume": session}) as b:
        await b.run()
    assert b.requests[0]["system"] == a.requests[0]["system"]


async def test_coding_instructions_can_stay(project: Path) -> None:
    style(project, "keep-coding-instructions: true\n")
    async with Assembled(project, ["Arr."], options=chosen("pirate")) as a:
        await a.run()
    assert "# How to work" in a.requests[0]["system"][0]["text"]


async def test_an_unknown_style_is_reported(project: Path) -> None:
    async with Assembled(project, ["Hi."], options=chosen("nosuch")) as a:
        await a.run()
        assert any("no output style 'nosuch'" in text for text in a.notices)
        assert "# How to answer" in a.requests[0]["system"][0]["text"]


def test_the_default_prompt_has_the_parts_that_a_style_replaces() -> None:
    assert all(heading in default_prompt() for heading in ("\n# How to answer\n", "\n# How to work\n", "\n# Care\n"))
    for built_in in all_styles(None).values():
        prompt = default_prompt(OutputStyle(built_in.name, built_in.body, built_in.keep_coding_instructions))
        assert "# How to work" in prompt
        assert "# How to answer" not in prompt


async def test_the_command_saves_a_style_for_the_next_session(project: Path) -> None:
    style(project)

    class Front(FrontEnd):
        async def options(self) -> Any:
            return SimpleNamespace(environ={"HOME": str(project.parent / "home")})

        async def choose(self, title: str, choices: Any) -> str | None:
            self.offered: list[Choice] = choices
            return "pirate"

    front, command = Front(), find("output-style")
    assert command is not None
    run = command.load()
    async with Assembled(project, []) as a:
        (said,) = [event async for event in run(a.engine, "", front)]
        assert [choice.value for choice in front.offered] == ["default", "concise", "explanatory", "pirate"]
        assert isinstance(said, ev.NoticeRaised)
        assert "next session or /clear" in said.text
        saved = json.loads((project.parent / "home/.config/agentcli/settings.json").read_text())
        assert saved == {"outputStyle": "pirate"}
        (refused,) = [event async for event in run(a.engine, "zzz", front)]
        assert isinstance(refused, ev.NoticeRaised)
        assert refused.level == "error"
