"""`@server:uri` in a prompt attaches the resource."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from agentcli.commands.line import run_command
from agentcli.core.messages import ATTACHED, ImageBlock, Message, Origin
from agentcli.interactive import wording
from agentcli.mcp.protocol import McpContent, PromptMessage
from agentcli.mcp.servers import McpServers
from tests.support.assembled import Assembled
from tests.support.mcp_offers import fake, servers_with
from tests.support.mcp_server import PIXEL

pytestmark = pytest.mark.anyio
RULE = '{"sandbox": {"mode": "off"}, "permissions": {"deny": ["mcp__notes"]}}'


def session_in(project: Path, **options: Any) -> Assembled:
    return Assembled(project, ["Seen."], options=options)


def attached(session: Assembled) -> list[Message]:
    return [message for message in session.log if message.origin is Origin.ATTACHMENT and ATTACHED in message.meta]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> McpServers:
    made = servers_with(("notes", "connected"))
    fake(made, "notes").texts = {
        "note://one": (McpContent("resource", text="First\x1b[2J note", uri="note://one", mime_type="text/plain"),),
        "note://picture": (McpContent("image", data=PIXEL, mime_type="image/png"),),
        "note://bytes": (
            McpContent("resource", data=base64.b64encode(b"\0\1").decode(), uri="note://bytes", mime_type="x/y"),
        ),
    }
    monkeypatch.setattr("agentcli.assemble.servers_for", lambda *_arguments: made)
    return made


async def test_a_resource_is_attached_with_its_text(tmp_path: Path, servers: McpServers) -> None:
    async with session_in(tmp_path) as session:
        await session.run("What is in @notes:note://one, and why?")
        [message] = attached(session)
        assert "The user attached notes:note://one" in message.text
        assert "First note" in message.text
        assert "\x1b" not in message.text
        assert wording.message_line(message).startswith("Attached notes:note://one (")
        assert fake(servers, "notes").done == ["read note://one"]
        assert session.notices == []


async def test_pictures_are_sent_and_other_data_is_saved_to_a_file(tmp_path: Path, servers: McpServers) -> None:
    async with session_in(tmp_path) as session:
        await session.run("Look at @notes:note://picture and @notes:note://bytes")
        picture, data = attached(session)
        assert any(isinstance(block, ImageBlock) for block in picture.content)
        path = Path(data.text.rpartition("saved as ")[2].removesuffix("]"))
        assert path.read_bytes() == b"\0\1"


async def test_a_failure_is_reported_to_the_user_and_to_the_model(tmp_path: Path, servers: McpServers) -> None:
    async with session_in(tmp_path) as session:
        await session.run("Read @notes:note://missing")
        assert session.notices == ["@notes:note://missing was not attached: notes: Resource not found"]
        assert "was not attached" in attached(session)[0].text


async def test_a_file_of_that_name_takes_precedence(tmp_path: Path, servers: McpServers) -> None:
    (tmp_path / "notes:one.txt").write_text("from the disk")
    async with session_in(tmp_path) as session:
        await session.run("Read @notes:one.txt and @nobody:note://one")
        [message] = attached(session)
        assert "from the disk" in message.text
        assert fake(servers, "notes").done == []


@pytest.mark.parametrize("rule", ["mcp__notes", "mcp__notes__*"])
async def test_a_rule_against_the_server_prevents_it(tmp_path: Path, servers: McpServers, rule: str) -> None:
    async with session_in(tmp_path, settings=RULE.replace("mcp__notes", rule)) as session:
        await session.run("Read @notes:note://one")
        assert len(session.notices) == 1
        assert "@notes:note://one was not attached" in session.notices[0]
        assert fake(servers, "notes").done == []


async def test_a_server_that_still_connects_is_waited_for(tmp_path: Path, servers: McpServers) -> None:
    fake(servers, "notes").become("connecting")
    async with session_in(tmp_path) as session:
        work = asyncio.ensure_future(session.run("Read @notes:note://one"))
        while not any(message.origin is Origin.PROMPT for message in session.engine.messages):
            await asyncio.sleep(0)
        fake(servers, "notes").become("connected")
        await work
        assert "First note" in attached(session)[0].text


async def test_a_prompt_of_a_server_attaches_what_the_user_names_and_not_what_the_server_does(
    tmp_path: Path, servers: McpServers
) -> None:
    for name in ("mine.txt", "theirs.txt"):
        (tmp_path / name).write_text(name)
    said = McpContent("text", "Read @theirs.txt and @notes:note://one")
    fake(servers, "notes").messages = (PromptMessage("user", said),)
    async with session_in(tmp_path) as session:
        await session.follow(run_command(session.engine, "mcp__notes__greet", "@mine.txt"))
        [message] = attached(session)
        assert message.meta[ATTACHED]["name"] == "mine.txt"
