"""Prompts of MCP servers as slash commands: their arguments, the turn they become, their failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentcli.commands.from_mcp import complete_argument, fill_arguments, words_of
from agentcli.commands.front_end import NoFrontEnd
from agentcli.commands.line import CommandLine, parse_line, run_command
from agentcli.commands.registry import find, find_matching
from agentcli.core import events as ev
from agentcli.core.errors import UsageError
from agentcli.core.messages import ImageBlock, Message, Origin
from agentcli.interactive.completion import Completions
from agentcli.interactive.wording import expansion_line
from agentcli.mcp.protocol import McpContent, PromptArgument, PromptMessage, PromptOffer, ServerOffers
from tests.support.fakes import Bench, bench, collect, only, result_of
from tests.support.mcp_offers import OFFERS, FakeServer, fake, servers_with
from tests.support.mcp_server import PIXEL

pytestmark = pytest.mark.virtual

GREET, PLAIN = OFFERS.prompts


def prompts_of(b: Bench) -> list[Message]:
    return [message for message in b.engine.messages if message.origin is Origin.PROMPT]


def test_prompts_are_rows_with_source_description_and_arguments() -> None:
    b = bench(mcp=servers_with(("My Notes", "connected"), ("down", "failed")))
    row = find("mcp__My_Notes__greet", b.engine)
    assert row is not None
    assert (row.usage, row.described) == ("/mcp__My_Notes__greet <name> [mood]", "Greet somebody (My Notes)")
    assert [one.name for one in find_matching("mynotesgreet", b.engine)] == ["mcp__My_Notes__greet"]
    assert "name, required: Whom" in row.manual
    line = parse_line("/mcp__My_Notes__greet Ada", b.engine)
    assert isinstance(line, CommandLine)
    assert line.command is not None
    assert find("mcp__down__greet", b.engine) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Ada", {"name": "Ada"}),
        ('"Ada Lovelace" kind', {"name": "Ada Lovelace", "mood": "kind"}),
        ("Ada very kind today", {"name": "Ada", "mood": "very kind today"}),
        (r'"a \"b\"" ' + "'c d'", {"name": 'a "b"', "mood": "c d"}),
        ("it's fine", {"name": "it's", "mood": "fine"}),
    ],
)
def test_arguments_are_positional_and_the_last_takes_the_rest(text: str, values: dict[str, str]) -> None:
    assert fill_arguments(GREET, text) == values


def test_missing_and_superfluous_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match=r"Arguments are missing: <name> \[mood\]"):
        fill_arguments(GREET, "")
    with pytest.raises(UsageError, match="takes no arguments"):
        fill_arguments(PLAIN, "x")
    assert words_of("  a  b ") == [(2, "a"), (5, "b")]


async def test_the_messages_of_a_prompt_become_the_turn_of_the_user() -> None:
    servers = servers_with(("notes", "connected"))
    b = bench("Hello Ada.", mcp=servers)
    async with b.engine:
        events = await collect(run_command(b.engine, "mcp__notes__greet", "Ada"))
        assert fake(servers, "notes").done == ["prompt greet {'name': 'Ada'}"]
        assert result_of(events).text == "Hello Ada."
        [prompt] = prompts_of(b)
        assert prompt.text == "Greet Ada."
        assert prompt.meta["typed"] == "/mcp__notes__greet Ada"
        assert expansion_line(prompt) == "Prompt of the MCP server notes (1 line)"
        assert b.requests[0]["messages"][0]["role"] == "user"


def test_roles_are_marked_where_the_assistant_speaks_and_pictures_are_sent() -> None:
    async def main() -> None:
        servers = servers_with(("notes", "connected"))
        fake(servers, "notes").messages = (
            PromptMessage("user", McpContent("text", "What is this?")),
            PromptMessage("user", McpContent("image", data=PIXEL, mime_type="image/png")),
            PromptMessage("assistant", McpContent("text", "A pixel.")),
        )
        b = bench("Yes.", mcp=servers)
        async with b.engine:
            await collect(run_command(b.engine, "mcp__notes__plain", ""))
            [prompt] = prompts_of(b)
            assert sum(isinstance(block, ImageBlock) for block in prompt.content) == 1
            assert "User:" in prompt.text
            assert "Assistant:" in prompt.text
            assert len(b.requests[0]["messages"]) == 1

    asyncio.run(main())  # pictures are read in a thread


async def test_a_failure_is_a_notice_and_nothing_is_sent() -> None:
    servers = servers_with(("notes", "connected"))
    fake(servers, "notes").offers = replace(OFFERS, prompts=(PromptOffer("broken"), GREET))
    b = bench(mcp=servers)
    async with b.engine:
        for name, arguments, text in (
            ("mcp__notes__broken", "", "/mcp__notes__broken failed: notes: no such prompt"),
            ("mcp__notes__greet", "", "Arguments are missing: <name> [mood]"),
        ):
            events = await collect(run_command(b.engine, name, arguments))
            assert [notice.text for notice in only(events, ev.NoticeRaised)] == [text]
            assert result_of(events).is_error
        assert b.requests == []
        assert b.engine.messages == ()


async def test_an_unknown_prompt_names_servers_that_still_connect() -> None:
    b = bench(mcp=servers_with(("notes", "connecting")))
    async with b.engine:
        events = await collect(run_command(b.engine, "mcp__notes__greet", ""))
        assert "still connecting" in only(events, ev.NoticeRaised)[0].text


async def test_arguments_complete_through_the_server_with_those_before_them() -> None:
    servers = servers_with(("notes", "connected"))
    server = fake(servers, "notes")
    assert await complete_argument(server, GREET, "a") == [("Ada", "Whom"), ("Alan", "Whom")]
    server.values = ("very kind", "vain")
    assert await complete_argument(server, GREET, "Ada v") == [('Ada "very kind"', ""), ("Ada vain", "")]
    assert server.done[-1] == "complete prompt greet mood v {'name': 'Ada'}"
    both = PromptOffer("two", arguments=(PromptArgument("a", required=True), PromptArgument("b", required=True)))
    assert (await complete_argument(server, both, "va"))[0] == ("vain ", "")
    assert await complete_argument(server, both, "x y z") == []


class SlowServer(FakeServer):
    async def complete(self, *arguments: object) -> tuple[str, ...]:  # type: ignore[override]
        self.done.append("complete")
        await asyncio.sleep(60)
        return ("late",)


async def test_late_completions_end_in_time() -> None:
    servers = servers_with(("notes", "connected"))
    b = bench(mcp=servers)
    async with b.engine:
        late = Completions(lambda: b.engine, NoFrontEnd).late_choices
        assert await late("mcp__notes__greet", "al") == [("Alan", "Whom")]
        assert await late("help", "x") == []
        slow = servers._servers["notes"] = SlowServer(fake(servers, "notes").config, servers)
        began = asyncio.get_running_loop().time()
        assert await late("mcp__notes__greet", "al") == []
        assert asyncio.get_running_loop().time() - began < 3
        assert slow.done == ["complete"]


def test_a_server_without_prompts_adds_no_rows() -> None:
    servers = servers_with(("notes", "connected"))
    fake(servers, "notes").offers = ServerOffers()
    assert find("mcp__notes__greet", bench(mcp=servers).engine) is None
