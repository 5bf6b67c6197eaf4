"""The first run in a real terminal without a key: the welcome, each of its choices, and no dead end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripts import fails, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram

pytestmark = pytest.mark.anyio
KEY = "sk-ant-first-0123456789abcdefghij"


def program(
    folder: Path, *arguments: str, public: str = "http://127.0.0.1:9", port: int = 9, **rest: Any
) -> TerminalProgram:
    """The app without a key, with a server of ours as the public one, and one port to look for servers on."""
    code = (
        "from agentcli.assemble import login\n"
        "from agentcli.interactive.login import welcome, welcome_actions\n"
        "from agentcli.providers import credentials\n"
        "from agentcli.providers import local_servers as local\n"
        f"for module in (credentials, welcome_actions, login): module.PUBLIC_BASE_URL = {public!r}\n"
        f"local.PROGRAMS, welcome._PORTS = (local.Program('Ollama', {port}),), '{port}'\n"
        "local.find_local_servers.__defaults__ = (local.PROGRAMS, 5.0)\n"
        "from agentcli.__main__ import main\n"
        "main()\n"
    )
    environ = {"ANTHROPIC_API_KEY": "", **rest.pop("environ", {})}
    return TerminalProgram(folder, *arguments, command=("-c", code), environ=environ, **rest)


def kept_in(home: Path) -> Path:
    return home / ".local/state/agentcli/credentials.json"


def holders(*folders: Path) -> list[Path]:
    """Files that hold the key."""
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if KEY.encode() in path.read_bytes()]


async def test_a_pasted_key_is_saved_for_its_address_and_a_prompt_without_a_key_waits_or_returns_to_the_box(
    tmp_path: Path,
) -> None:
    async with (
        LoopbackServer(reply("hello from the model"), reply("hello again")) as server,
        program(tmp_path, public=server.url) as app,
    ):
        await app.wait_for("Welcome: connect a model")
        await app.answer("escape")
        await app.wait_for("/login connects one")
        await app.submit("a first question")
        await app.wait_for("Your prompt is sent once one")
        await app.wait_for("No other machine was contacted")
        assert server.requests == [], "no server is asked before the user has chosen"
        await app.answer("k")
        await app.wait_for("it is not shown")
        await app.paste(KEY)
        await app.wait_for("•••••")
        await app.press("enter")
        await app.wait_for("hello from the model")
        assert [request.path.partition("?")[0] for request in server.requests] == [
            *("/v1/models", "/v1/messages/count_tokens", "/v1/messages"),
        ]
        assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in server.requests)
        assert "a first question" in json.dumps(server.bodies[-1]["messages"])
        await app.wait_for(lambda: app.box.startswith("Ask anything"))
        await app.submit("/status")
        await app.wait_for("messages")
        assert await app.leave() == 0
        assert app.is_restored
        assert KEY.encode() not in app.raw
        assert holders(app.home, app.work) == [kept_in(app.home)]

    async with LoopbackServer() as other, program(tmp_path, public=other.url) as app:
        await app.submit("sent blindly")
        await app.wait_for("Your prompt is sent once one")
        assert other.requests == [], "the key is for another address"
        await app.answer("escape")
        await app.wait_for("/login connects one")
        assert app.box == "sent blindly"
        assert "❯ sent blindly" not in app.text.rpartition("❯")[0]
        await app.press("ctrl+u")
        await app.submit("/todos")
        await app.wait_for("❯ /todos")
        await app.submit("!echo it still works")
        await app.wait_for(lambda: app.text.count("it still works") >= 2)
        assert await app.leave() == 0


async def test_a_key_sent_as_a_prompt_is_recognised_and_after_a_logout_the_next_prompt_asks_for_one(
    tmp_path: Path,
) -> None:
    async with LoopbackServer(reply("hello"), fails(401)) as server, program(tmp_path, public=server.url) as app:
        await app.wait_for("Welcome: connect a model")
        await app.answer("escape")
        await app.wait_for("/login connects one")
        await app.paste(KEY)
        await app.wait_for(lambda: app.box == KEY)
        await app.press("enter")
        await app.wait_for("•••••")
        assert KEY not in app.text
        await app.press("enter")
        await app.wait_for("other address.")
        await app.submit("hi")
        await app.wait_for("◆ hello")
        assert all(KEY.encode() not in request.raw for request in server.requests)
        await app.submit(KEY)
        await app.wait_for("•••••")
        await app.press("escape", "escape")
        await app.wait_for("•••••", gone=True)
        await app.submit("second")
        await app.wait_for("did not accept the API key from agentcli login. Run")
        assert len(server.bodies) == 2, "the key is no prompt later either"
        assert KEY not in json.dumps(server.bodies)
        assert holders(app.home, app.work) == [kept_in(app.home)]
        await app.submit("/logout")
        await app.wait_for("was deleted. No model is connected now")
        assert holders(app.home, app.work) == []
        await app.submit("third")
        await app.wait_for("Your prompt is sent once one")
        await app.answer("escape")
        await app.wait_for(lambda: app.box == "third")
        assert await app.leave() == 0


async def test_choosing_the_tour_replaces_the_app(tmp_path: Path) -> None:
    async with program(tmp_path) as app:
        await app.wait_for("Take the tour")
        await app.answer("d")
        await app.wait_for("demo", seconds=40)
        await app.wait_for(lambda: "scripted" in app.text.lower(), seconds=40)
        await app.press("ctrl+c")
        await app.press("ctrl+c", "ctrl+c")
        await app.end()
        assert app.is_restored
