"""Dialogs of MCP servers that are answered by a choice: an address to open, a reply of the model."""

from __future__ import annotations

from typing import Any

import pytest

from agentcli.core.permission import Answer
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.dialog_for import dialog_for
from tests.tui.screen_host import OPEN, asked, calm, look, replies


def ready(title: str, display: dict[str, Any]) -> Dialog[Answer | None]:
    return calm(dialog_for(asked("agentcli", {}, title=title, display=display)))


def address(url: str = "https://example.com/sign-in?id=1", message: str = "Sign in") -> Dialog[Answer | None]:
    display = {"kind": "mcp_url", "server": "small", "url": url, "message": message}
    return ready("The MCP server small asks you to open an address", display)


def sampling(text: str = "Say hello", **more: Any) -> Dialog[Answer | None]:
    display = {
        "kind": "mcp_sampling",
        "server": "small",
        "system": "Be short.",
        "messages": [{"role": "user", "text": text}],
        "model": "claude-haiku-5-5",
        "max_tokens": 50,
        "most_usd": 0.012,
        "spent_usd": 0.1,
        "budget_usd": 0.5,
        **more,
    }
    return ready("The MCP server small requests a model reply", display)


def test_the_whole_address_and_the_message_are_shown() -> None:
    assert look(address(), size=(60, 20)) == (
        "─── The MCP server small asks you to open an address ───────\n"
        " https://example.com/sign-in?id=1\n"
        "\n"
        " Sign in\n"
        "\n"
        " ❯ 1 Open it in the browser\n"
        "   2 I open it myself\n"
        "   3 Decline\n"
        " ↑↓ choose · Enter confirm · Esc cancel"
    )


def test_what_hides_the_true_host_stands_below_the_address() -> None:
    seen = look(address("https://bank.example@evil.example/"))
    assert "! The part before @ is a user name. The site is evil.example." in seen


def test_a_request_to_the_model_is_shown_in_full_with_its_price() -> None:
    assert look(sampling(), size=(72, 24)) == (
        "─── The MCP server small requests a model reply ────────────────────────\n"
        " model claude-haiku-5-5\n"
        " cost at most $0.012; at most 50 tokens of reply; $0.10 of $0.50 used\n"
        "\n"
        " system prompt:\n"
        "   Be short.\n"
        "\n"
        " user:\n"
        "   Say hello\n"
        "\n"
        " ❯ 1 Allow once\n"
        "   2 Allow all of small in this session, up to $0.50\n"
        "   3 Decline\n"
        " ↑↓ choose · Enter confirm · Esc cancel"
    )


def test_a_long_request_is_read_to_its_end_before_it_can_be_allowed() -> None:
    def long() -> Dialog[Answer | None]:
        return sampling("line\n" * 100)

    assert replies(long, "y", "end | y", "n") == [
        OPEN,
        Answer("allow", updated_input={"scope": "once"}),
        Answer("deny"),
    ]


def test_without_a_known_price_a_server_cannot_be_allowed_for_the_session() -> None:
    seen = look(sampling(most_usd=None))
    assert "cost not known" in seen
    assert "in this session" not in seen


@pytest.mark.parametrize("size", [(40, 10), (80, 24)])
def test_nothing_of_a_server_is_obeyed_by_the_terminal(size: tuple[int, int]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J[red]bold[/]\u202e"
    for seen in (look(address(message=evil), size=size), look(sampling(evil), "end", size=size)):
        assert not {"\x1b", "\x07", "\u202e"} & set(seen)
        assert "owned" not in seen
