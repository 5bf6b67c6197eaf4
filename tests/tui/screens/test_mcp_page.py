"""The page of MCP servers: all of them, one of them, live, and what its keys do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual import events
from textual.pilot import Pilot

from agentcli.mcp.servers import McpServers
from agentcli.tui.screens.mcp import LogPage, McpPage, ServerPage
from tests.support.mcp_offers import fake, servers_with
from tests.tui.screen_host import OPEN, Host, after_each, look, play, press, through_all_sizes


def some() -> McpServers:
    return servers_with(("notes", "connected"), ("broken", "failed"), ("idle", "disabled"), ("found", "unapproved"))


def states_after(servers: McpServers, name: str, *batches: tuple[str, ...]) -> list[str]:
    """Of a server, after each batch of keys."""
    states: list[str] = []

    async def steps(pilot: Pilot[None], host: Host) -> None:
        for keys in batches:
            await press(pilot, *keys)
            states.append(fake(servers, name).state)

    play(McpPage(servers), steps)
    return states


def row_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.lstrip(" ❯").startswith(start))


def test_every_server_has_a_state_that_is_readable_without_colour() -> None:
    text = look(McpPage(some()))
    assert "connected" in row_of(text, "✓ notes")
    assert "3 tools · 1 refused · 3 resources · 2 prompts" in row_of(text, "✓ notes")
    assert "failed  exit code 1 no module" in row_of(text, "✗ broken")
    assert "disabled" in row_of(text, "○ idle")
    assert "not approved" in row_of(text, "? found")


def test_a_server_that_connects_while_the_page_opens_is_shown_as_connected() -> None:
    servers = servers_with(("notes", "connecting"))
    page = McpPage(servers)
    fake(servers, "notes").state = "connected"
    servers._note_change()
    assert "connected" in row_of(look(page, "|"), "✓ notes")


def test_a_server_lists_everything_it_offers_and_esc_goes_back_one_level() -> None:
    entered, back, closed = after_each(McpPage(some()), ("enter", "|"), ("escape", "|"), ("escape", "|"), size=(90, 40))
    text = entered[1]
    assert "MCP server notes" in text
    assert "Find notes" in row_of(text, "● find")
    assert "[read-only] List notes" in row_of(text, "● list")
    assert "[destructive]" in row_of(text, "● wipe")
    assert "its schema is not valid" in row_of(text, "✗ bent")
    assert "Greet somebody" in row_of(text, "/ greet <name> [mood]")
    assert "Shopping list" in row_of(text, "@ note://two")
    assert "any note" in row_of(text, "@ note://{name}")
    assert "MCP servers" in back[1]
    assert back[0] == OPEN
    assert closed[0] is None


def test_enter_on_a_tool_shows_its_name_for_rules_and_its_arguments() -> None:
    servers = some()
    text = look(ServerPage(fake(servers, "notes"), servers), "down", "down", "enter", "|")
    assert "For rules: mcp__notes__find" in text
    assert "text (string)" in text
    servers = some()
    found = look(ServerPage(fake(servers, "notes"), servers), "/ =note://two | enter |")
    assert " @notes:note://two\n" in found


def test_the_log_and_the_error_of_a_failed_server_are_shown() -> None:
    servers = some()
    fake(servers, "broken").log.append("Traceback: no notes")

    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert "exit code 1 no module named notes" in host.shown
        await press(pilot, "down", "enter", "|")
        assert "Traceback: no notes" in host.shown
        assert isinstance(host.screen, LogPage)
        fake(servers, "broken").log.extend(f"line {number}" for number in range(50))
        host.screen.refresh_content()
        await pilot.pause()
        assert "line 49" in host.shown

    play(ServerPage(fake(servers, "broken"), servers), steps)


def test_the_page_follows_the_servers() -> None:
    servers = some()

    async def steps(pilot: Pilot[None], host: Host) -> None:
        fake(servers, "broken").become("connecting")
        await pilot.pause()
        assert "connecting" in row_of(host.shown, "… broken")
        fake(servers, "broken").become("connected")
        await pilot.pause()
        assert "connected" in row_of(host.shown, "✓ broken")

    play(McpPage(servers), steps)


def test_keys_reconnect_and_disable_and_enable_a_server() -> None:
    assert states_after(some(), "broken", ("down", "r", "|")) == ["connected"]
    assert states_after(some(), "notes", ("e", "|"), ("e", "|")) == ["disabled", "connected"]


def test_a_server_that_is_not_approved_is_not_started_here() -> None:
    servers = some()
    text = look(McpPage(servers), "end", "r", "e", "|")
    assert "Use /trust" in text
    assert fake(servers, "found").state == "unapproved"


def test_a_server_that_is_removed_or_replaced_while_it_is_shown_does_no_harm() -> None:
    servers = some()

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "enter", "|")
        removed = servers._servers.pop("notes")
        removed.log.append("gone")
        servers._note_change()
        await pilot.pause()
        assert "MCP server notes" in host.shown
        new = fake(servers, "broken")
        new.config = replace(new.config, name="notes")
        servers._servers["notes"] = new
        servers._note_change()
        await pilot.pause()
        assert "✗ failed" in host.shown

    play(McpPage(servers), steps)


def test_e_and_space_switch_what_is_pointed_at() -> None:
    servers = some()
    notes = fake(servers, "notes")

    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert "e disable server" in host.shown
        for key, switch in (("down down | space |", "enable"), ("space |", "disable"), ("e |", "enable")):
            await press(pilot, key)
            assert f"e {switch} tool" in host.shown
            assert "Find notes" in row_of(host.shown, "○ find" if switch == "enable" else "● find")
            assert notes.disabled_tools == ({"find"} if switch == "enable" else frozenset())
        assert notes.state == "connected"
        await press(pilot, "home", "e", "|")
        assert "e enable server" in host.shown
        assert notes.state == "disabled"

    play(ServerPage(notes, servers), steps)


def test_signing_in_shows_the_address() -> None:
    assert "sign in" not in look(McpPage(servers_with(("hub", "needs-auth")))).splitlines()[-1]
    servers = servers_with(("hub", "needs-auth"))
    fake(servers, "hub").signs = True

    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert "s sign in" in host.shown.splitlines()[-1]
        await press(pilot, "s", "|", "|")
        assert "https://auth.example/authorize?state=1" in host.shown
        assert fake(servers, "hub").done == ["sign_in"]

    play(McpPage(servers), steps)


def test_an_address_that_comes_late_is_pasted_for_the_server_that_signs_in() -> None:
    servers = servers_with(("hub", "needs-auth"), ("notes", "connected"))
    hub = fake(servers, "hub")
    hub.signs = True
    show: list[Callable[[str], None]] = []

    async def sign_in(show_address: Callable[[str], None]) -> None:
        show.append(show_address)

    hub.sign_in = sign_in  # type: ignore[method-assign]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "s", "|", "down", "|")
        show[0]("https://auth.example/authorize?state=2")
        await pilot.pause()
        host.screen.post_message(events.Paste("http://127.0.0.1/callback?code=1"))
        await pilot.pause()
        assert hub.done == ["paste http://127.0.0.1/callback?code=1"]
        assert fake(servers, "notes").done == []

    play(McpPage(servers), steps)


@pytest.mark.parametrize("opens", [McpPage, lambda servers: ServerPage(fake(servers, "notes"), servers)])
def test_both_pages_work_at_every_size(opens: type[McpPage]) -> None:
    play(opens(some()), through_all_sizes)
