"""Dialogs of MCP servers that are answered by a choice: an address to open, a reply of the model."""

from __future__ import annotations

from collections.abc import Callable
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


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (
            address,
            " https://example.com/sign-in?id=1\n\n Sign in\n\n ❯ 1 Open it in the browser\n   2 I open it myself\n",
        ),
        (
            lambda: address("https://bank.example@evil.example/"),
            "! The part before @ is a user name. The site is evil.example.",
        ),
        (
            sampling,
            (
                " model claude-haiku-5-5\n cost at most $0.012; at most 50 tokens of reply; $0.10 of $0.50 used\n\n"
                " system prompt:\n   Be short.\n\n user:\n   Say hello\n\n"
                " ❯ 1 Allow once\n   2 Allow all of small in this session, up to $0.50\n   3 Decline\n"
            ),
        ),
    ],
)
def test_addresses_and_requests_to_the_model_are_shown_in_full(make: Callable[[], Any], rows: str) -> None:
    assert rows in look(make(), size=(80, 24))


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
