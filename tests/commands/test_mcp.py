"""/mcp as text: what it lists, what its arguments do, what it completes to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentcli.commands.front_end import NoFrontEnd
from agentcli.commands.line import run_command
from agentcli.commands.mcp import NONE, USAGE
from agentcli.commands.mcp_listing import about, details, overview
from agentcli.commands.registry import completions, find
from agentcli.core.events import Event, NoticeRaised
from agentcli.mcp.configuration import ServerConfig
from agentcli.mcp.protocol import ServerOffers, ToolOffer
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers
from tests.support.fakes import bench, collect, only
from tests.support.mcp_offers import FakeServer, fake, servers_with

pytestmark = pytest.mark.virtual


def all_states() -> McpServers:
    return servers_with(
        ("notes", "connected"),
        ("broken", "failed"),
        ("hub", "needs-auth"),
        ("idle", "disabled"),
        ("found", "unapproved"),
        ("slow", "connecting"),
    )


def notices(events: Sequence[Event]) -> list[NoticeRaised]:
    return [event for event in only(events, NoticeRaised) if event.code == "command"]


def texts(servers: McpServers | None, *lines: str) -> list[str]:
    """What these arguments of /mcp report; failures begin with `!`."""
    found: list[str] = []

    async def main() -> None:
        b = bench(mcp=servers)
        async with b.engine:
            for line in lines:
                reported = notices(await collect(run_command(b.engine, "mcp", line)))
                found.extend(("! " if notice.level == "error" else "") + notice.text for notice in reported)

    asyncio.run(main())  # what is switched is saved in a thread
    return found


def test_the_overview_names_state_offers_source_and_error_of_each_server() -> None:
    [text] = texts(all_states(), "")
    lines = text.splitlines()
    assert lines[0] == "✓ notes   connected  3 tools · 1 refused · 3 resources · 2 prompts  yours, in all projects"
    assert lines[1] == "    notes-server --fast"
    assert lines[2] == "✗ broken  failed  yours, in all projects"
    assert lines[4] == "    exit code 1 no module named notes"
    assert [line[10:].split("  ")[0] for line in lines[5:11:2]] == ["needs sign-in", "disabled", "not approved"]
    assert text.endswith("/mcp NAME shows one server in full.")


def test_one_server_is_shown_in_full() -> None:
    servers = servers_with(("notes", "connected"))
    fake(servers, "notes").log.extend(f"line {number}" for number in range(30))
    [text] = texts(servers, "notes")
    for part in (
        "Command: notes-server --fast",
        "Server: notes server 1.2, protocol 2025-06-18",
        "  Search before you write.",
        "Tools (3)",
        "  list  [read-only] List notes",
        "  wipe  [destructive] Delete all notes",
        "  bent: its schema is not valid",
        "  /mcp__notes__greet <name> [mood]  Greet somebody",
        "  @notes:note://one  one: The first note · text/plain · 2 KB",
        "  @notes:note://{name}  any note",
        "  line 29",
    ):
        assert part in text.splitlines(), part
    assert "  line 9" not in text.splitlines()


def test_secrets_in_a_configuration_are_not_shown() -> None:
    servers = servers_with()
    config = ServerConfig(
        "hub",
        "http",
        url="https://me:hunter2@hub.example/mcp?key=abcdef",
        headers={"Authorization": "Bearer abc.def"},
    )
    text = "\n".join(about(FakeServer(config, servers)))
    assert "hub.example/mcp?•••" in text
    assert "Headers: Authorization" in text
    assert not any(secret in text for secret in ("hunter2", "abcdef", "abc.def"))
    config = ServerConfig("x", "stdio", command="x", args=("--token", "opensesame", "--api-key=sesame"))
    text = "\n".join(about(FakeServer(config, servers)))
    assert "x --token ••• --api-key=•••" in text


def test_texts_of_a_server_cannot_write_to_the_terminal() -> None:
    servers = servers_with(("evil", "connected"))
    server = fake(servers, "evil")
    tool = ToolOffer("a\x1b[2Jb", "one\ntwo\u202ethree\x07")
    server.offers = ServerOffers(name="\x1b]0;title\x07", instructions="\x1b[31mred", tools=(tool,))
    server.error = "\x1b[1mbad\nsecond line"
    server.log.append("\x1b[3Jlog")
    text = "\n".join(details(server, list(servers))) + overview(list(servers))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_a_server_is_reconnected_and_the_outcome_reported() -> None:
    servers = servers_with(("notes", "failed"), ("broken", "failed"))
    fake(servers, "broken").connects_to = "failed"
    good, bad = texts(servers, "reconnect notes", "reconnect broken")
    assert good == "notes is connected, 3 tools · 1 refused · 3 resources · 2 prompts"
    assert bad == "! broken failed: refused again. /mcp reconnect broken tries again."


def test_a_server_that_is_disabled_or_not_approved_is_not_reconnected() -> None:
    servers = all_states()
    found = texts(servers, "reconnect idle", "reconnect found", "enable found")
    assert found[0] == "! idle is disabled. /mcp enable idle connects to it."
    assert found[1].startswith("! found is not approved. /trust")
    assert found[2].startswith("! found is not approved. /trust")
    assert fake(servers, "found").done == []


def test_servers_and_tools_are_switched_off_and_on() -> None:
    servers = servers_with(("notes", "connected"))
    off, shown, on, gone, back, unknown = texts(
        servers,
        "disable notes wipe",
        "notes",
        "enable notes wipe",
        "disable notes",
        "enable notes",
        "disable notes nothing",
    )
    assert off == "The tool wipe of notes is off."
    assert "  wipe  [off, destructive] Delete all notes" in shown.splitlines()
    assert on == "The tool wipe of notes is on."
    assert gone == "notes is disabled."
    assert back.startswith("notes is connected, 3 tools ·")
    assert unknown == "! notes has no tool nothing."


def test_signing_in_shows_the_address_and_signing_out_is_confirmed() -> None:
    servers = servers_with(("hub", "needs-auth"))
    assert texts(servers, "login hub", "logout hub") == ["! hub has no sign-in."] * 2
    fake(servers, "hub").signs = True
    address, outcome, removed = texts(servers, "login hub", "logout hub", "login hub http://localhost/?code=1")
    assert address.splitlines()[0] == "Sign in here: https://auth.example/authorize?state=1"
    assert outcome.startswith("hub is connected")
    assert removed == "The tokens for hub are removed."
    assert fake(servers, "hub").done == ["sign_in", "sign_out", "paste http://localhost/?code=1"]


def test_unknown_servers_and_verbs_are_refused_with_the_names_there_are() -> None:
    servers = servers_with(("notes", "connected"), ("my files", "connected"))
    assert texts(servers, "nots", "disable nots", "disable", "disable my files find") == [
        "! There is no MCP server nots. Servers: notes, my files.",
        "! There is no MCP server nots. Servers: notes, my files.",
        f"! {USAGE}",
        "The tool find of my files is off.",
    ]


def test_without_servers_it_says_how_to_add_one() -> None:
    assert texts(None, "") == [NONE]


def test_arguments_complete_to_names_actions_and_tools() -> None:
    servers = servers_with(("notes", "connected"), ("idle", "disabled"))
    b = bench(mcp=servers)
    values = [value for value, _words in completions("mcp", b.engine, NoFrontEnd())]
    assert values[:2] == ["notes", "idle"]
    assert {"reconnect notes", "disable notes", "enable idle", "disable notes wipe"} <= set(values)
    assert "login notes" not in values


def test_it_runs_beside_the_work_of_the_model() -> None:
    command = find("mcp")
    assert command is not None
    assert command.concurrent


class WithPages(NoFrontEnd):
    has_pages = True

    def __init__(self) -> None:
        self.opened: list[tuple[str, ...]] = []

    async def page(self, kind: str, *data: Any) -> Any:
        self.opened.append((kind, *(each.name for each in data if isinstance(each, McpServer))))


async def test_where_there_are_pages_a_name_opens_the_page_of_that_server() -> None:
    b, front_end, command = bench(mcp=servers_with(("notes", "connected"))), WithPages(), find("mcp")
    assert command is not None
    async with b.engine:
        for line in ("", "notes"):
            assert command.is_local(line, front_end)
            assert await collect(command.load()(b.engine, line, front_end)) == []
    assert front_end.opened == [("mcp",), ("mcp", "notes")]


@pytest.mark.parametrize("line", ["reconnect notes", "enable notes", "disable notes", "login hub", "logout hub"])
def test_an_action_opens_no_page(line: str) -> None:
    command = find("mcp")
    assert command is not None
    assert not command.is_local(line, WithPages())
