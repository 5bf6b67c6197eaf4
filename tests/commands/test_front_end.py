"""Commands that work through the front end: what they ask of it, and what they report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.registry import COMMANDS, completions, find
from agentcli.commands.transcript import code_blocks
from agentcli.core.events import NoticeRaised
from agentcli.core.permission import PermissionMode
from agentcli.tui.screens.settings import SettingChange
from tests.support.fakes import collect
from tests.support.scripts import provider_on, transport_for

pytestmark = pytest.mark.anyio

CODE = """\
1. In a list:

   ```python
   def f():
       return "```"
   ```

~~~~
~~~ inside
~~~~
Not a fence: ```x``` and
```sh
open"""


class Recorder(FrontEnd):
    """Picks `picked` wherever something can be picked, and records what it was asked for."""

    def __init__(self, picked: Any = None, *, pages: bool = True, home: Path | None = None) -> None:
        self.has_pages = pages
        self.calls: list[tuple[Any, ...]] = []
        self._picked = picked
        self._home = home

    async def options(self) -> Options:
        assert self._home is not None
        return Options(cwd=self._home, environ={"HOME": str(self._home)})

    async def page(self, kind: str, *_data: Any) -> Any:
        self.calls.append(("page", kind))
        return self._picked

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        self.calls.append(("choose", [choice.label for choice in choices]))
        return choices[self._picked].value if self._picked is not None else None

    def send(self, line: str) -> None:
        self.calls.append(("send", line))

    def prefill(self, text: str) -> None:
        self.calls.append(("prefill", text))

    def hint(self, text: str) -> None:
        self.calls.append(("hint", text))

    async def copy(self, text: str) -> str:
        self.calls.append(("copy", text))
        return "Copied."

    async def open_session(self, resume: str | None = None) -> None:
        self.calls.append(("open", resume))

    async def save_setting(self, name: str, value: Any, scope: str = "user") -> str:
        self.calls.append(("save", name, value, scope))
        return "settings.json"

    def themes(self) -> list[tuple[str, str]]:
        return [("nord", "cold")]


def engine_on(tmp_path: Path, *replies: str) -> Engine:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return build_engine(
        Options(cwd=tmp_path, environ=environ, provider=provider_on(transport_for(*replies)), model="claude-sonnet-5-5")
    )


async def reported(engine: Engine | None, line: str, front_end: FrontEnd) -> list[str]:
    name, _blank, arguments = line.partition(" ")
    command = find(name)
    assert command is not None
    assert command.is_local(arguments, front_end)
    events = await collect(command.load()(engine, arguments, front_end))
    return [f"{event.level}: {event.text}" for event in events if isinstance(event, NoticeRaised)]


@pytest.mark.parametrize(
    ("line", "picked", "asked"),
    [
        ("model", "opus", [("page", "model"), ("send", "/model opus now")]),
        ("model", None, [("page", "model")]),
        ("effort", "low", [("page", "effort"), ("send", "/effort low now")]),
        ("mode", PermissionMode.PLAN, [("page", "mode"), ("send", "/mode plan")]),
        ("permissions", "remove Bash(ls)", [("page", "permissions"), ("send", "/permissions remove Bash(ls)")]),
        ("help", "/diff [all|last]", [("page", "help"), ("prefill", "/diff ")]),
        ("context", None, [("page", "context")]),
        ("cost", None, [("page", "cost")]),
        ("tasks", None, [("page", "tasks")]),
        ("diff all", None, [("page", "diff")]),
        ("find word", None, [("page", "find")]),
        ("clear", None, [("open", None)]),
        ("resume some-id", None, [("open", "some-id")]),
        ("theme", "nord", [("page", "theme"), ("save", "theme", "nord", "user")]),
        ("theme", None, [("page", "theme")]),
    ],
)
async def test_a_page_is_opened_and_its_result_becomes_a_command_line(
    tmp_path: Path, line: str, picked: Any, asked: list[tuple[Any, ...]]
) -> None:
    front_end = Recorder(picked)
    async with engine_on(tmp_path) as engine:
        said = await reported(engine, line, front_end)
    assert front_end.calls == asked
    assert not any(text.startswith("error") for text in said)


async def test_without_pages_page_commands_run_as_ordinary_commands(tmp_path: Path) -> None:
    front_end = Recorder(pages=False)
    local = {command.name for command in COMMANDS if command.is_local("", front_end)}
    assert local == {
        "help",
        "copy",
        "find",
        "theme",
        "config",
        "login",
        "logout",
        "resume",
        "sessions",
        "clear",
        "exit",
        "output-style",
        "rewind",
        "tree",
        "trust",
        "what-if",
    }
    front_end.keys = "Enter sends"
    async with engine_on(tmp_path) as engine:
        (text,) = await reported(engine, "help", front_end)
    assert text.endswith("\n\nEnter sends")


async def test_answers_and_code_blocks_are_counted_from_the_last_one(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "First: ```no block```.", CODE) as engine:
        for _prompt in range(2):
            await collect(engine.submit("Hi"))
        for arguments, copied in (("", CODE), ("2", "First: ```no block```."), ("code", "open"), ("code 3", None)):
            front_end = Recorder()
            assert await reported(engine, f"copy {arguments}".rstrip(), front_end) == []
            assert front_end.calls[0] == ("copy", copied or 'def f():\n    return "```"')
        assert front_end.calls[1] == ("hint", "Code block 3 from the end: Copied.")
        front_end = Recorder()
        assert await reported(engine, "copy 3", front_end) == [
            "error: There is no answer 3. This session has 2 answers."
        ]
        assert "takes a number" in (await reported(engine, "copy all", front_end))[0]
        assert front_end.calls == []
    assert await reported(None, "copy", Recorder()) == ["error: There is no answer to copy yet."]


def test_code_blocks_may_be_indented_nested_and_open() -> None:
    assert code_blocks(CODE) == ['def f():\n    return "```"', "~~~ inside", "open"]
    assert code_blocks("```\n```") == [""]
    assert code_blocks("nothing", "> ```\n> quoted", "```\nnext\n```") == ["quoted", "next"]


async def test_a_session_is_chosen_from_a_list_and_the_open_one_is_refused(tmp_path: Path) -> None:
    front_end = Recorder(0, pages=False, home=tmp_path)
    assert "no earlier session" in (await reported(None, "resume", front_end))[0]
    async with engine_on(tmp_path, "Hello.") as engine:
        await collect(engine.submit("The old question"))
        assert await reported(engine, "resume", front_end) == ["error: This session is already open."]
        assert await reported(None, "resume", front_end) == []
        assert front_end.calls[-1] == ("open", engine.session_id)
        assert front_end.calls[0][1][0].startswith("The old question")


async def test_a_prompt_is_found_by_its_words_and_named_when_its_session_opens(tmp_path: Path) -> None:
    front_end = Recorder(0, pages=False, home=tmp_path)
    async with engine_on(tmp_path, "The answer was a giraffe.") as engine:
        await collect(engine.submit("The old question"))
        assert await reported(None, "sessions giraff answer", front_end) == [
            "info: Found in prompt 1: The answer was a giraffe."
        ]
        assert front_end.calls[-1] == ("open", engine.session_id)
        assert front_end.calls[0][1] == ["The old question: The answer was a giraffe."]
        assert "No session of this folder" in (await reported(None, "sessions elephant", front_end))[0]


async def test_settings_are_listed_and_a_changed_one_is_saved(tmp_path: Path) -> None:
    (text,) = await reported(None, "config", Recorder(pages=False, home=tmp_path))
    assert 'theme = "auto"' in text
    front_end = Recorder(SettingChange("mouse", False, "local"), home=tmp_path)
    assert await reported(None, "config", front_end) == [
        "info: mouse is saved in settings.json. It takes effect when agentcli is started again."
    ]
    assert front_end.calls == [("page", "settings"), ("save", "mouse", False, "local")]


async def test_argument_completions_are_declared_in_the_table(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        offered = {command.name: completions(command.name, engine, Recorder()) for command in COMMANDS}
    assert ("plan", "") in offered["mode"]
    assert ("auto", "") in offered["effort"]
    assert ("claude-opus-5-5", "") in offered["model"]
    assert offered["theme"] == [("nord", "cold")]
    assert [value for value, _text in offered["help"]] == [command.name for command in COMMANDS]
    assert [value for value, _text in offered["undo"]] == ["keep", "replace"]
    assert offered["rename"] == []
    assert completions("mode", None, Recorder()) == [], "before there is an engine"
    assert completions("nothing", None, Recorder()) == []
