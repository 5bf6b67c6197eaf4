"""What MCP servers ask in plain mode: line by line, and what each line means."""

from __future__ import annotations

import asyncio
from typing import Any

from agentcli.agent.mcp.requests import CANCELLED
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.plain.questions import answer_to
from tests.plain.asked import ESC, Paper

COLOURS: Json = {"type": "array", "items": {"enum": ["red", "green", "blue"]}}


def answered(display: Json, *answers: str, **rest: Any) -> tuple[Answer | None, str]:
    event = ev.PermissionRequested(
        request_id="q", tool_use_id="", name="agentcli", input={}, title="small asks", reason="", display=display
    )
    paper = Paper(*answers, **rest)
    return asyncio.run(answer_to(event, paper)), paper.text


def form(*required: str, message: str = "Who are you?", **fields: Json) -> Json:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"kind": "mcp_form", "server": "small", "message": message, "schema": schema}


def filled(display: Json, *answers: str, **rest: Any) -> Any:
    answer, _text = answered(display, "f", *answers, "y", **rest)
    assert answer is not None
    assert answer.behavior == "allow"
    assert answer.updated_input is not None
    return answer.updated_input["content"]


SAMPLING: Json = {
    "kind": "mcp_sampling",
    "server": "small",
    "system": "Be short.",
    "messages": [{"role": "user", "text": "Say hello"}],
    "model": "claude-haiku-5-5",
    "max_tokens": 50,
    "most_usd": 0.012,
    "spent_usd": 0.0,
    "budget_usd": 0.5,
}


def test_a_form_is_filled_in_line_by_line() -> None:
    display = form(
        "name",
        name={"type": "string", "title": "Name", "description": "As in your passport"},
        age={"type": "integer", "minimum": 1},
        sure={"type": "boolean"},
        colour={"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        colours=COLOURS,
    )
    answer, text = answered(display, "f", "Ada", "36", "yes", "2", "1, 3", "y")
    content = {"name": "Ada", "age": 36, "sure": True, "colour": "g", "colours": ["red", "blue"]}
    assert answer == Answer("allow", updated_input={"content": content})
    assert "Answers go to the MCP server small. Enter no passwords or keys." in text
    assert "Name (required)" in text
    assert "As in your passport" in text
    assert "a whole number, at least 1" in text


def test_a_line_that_does_not_fit_is_explained_and_asked_for_again() -> None:
    answer, text = answered(form("age", age={"type": "integer"}), "f", "", "old", "7", "y")
    assert answer == Answer("allow", updated_input={"content": {"age": 7}})
    assert "! Required." in text
    assert "! Enter a whole number." in text


def test_nothing_typed_keeps_the_suggestion_and_a_dash_empties_it() -> None:
    display = form(name={"type": "string", "default": "Ada"}, sure={"type": "boolean", "default": True})
    assert filled(display, "", "") == {"name": "Ada", "sure": True}
    assert filled(display, "-", "no") == {"sure": False}


def test_answers_can_be_changed_before_they_are_sent() -> None:
    answer, _text = answered(form(name={"type": "string"}), "f", "Ada", "c", "Grace", "y")
    assert answer == Answer("allow", updated_input={"content": {"name": "Grace"}})


def test_a_form_is_declined_before_or_after_it_was_filled_in() -> None:
    display = form(name={"type": "string"})
    assert answered(display, "n")[0] == Answer("deny")
    assert answered(display, "f", "Ada", "n")[0] == Answer("deny")


def test_escape_within_the_form_cancels_it() -> None:
    assert answered(form(name={"type": "string"}), "f", ESC)[0] == CANCELLED


def test_a_list_of_five_thousand_values_is_searched() -> None:
    city = {"type": "string", "enum": [f"city {number}" for number in range(5_000)]}
    answer, text = answered(form(city=city), "f", "city 4321", "1", "y")
    assert answer == Answer("allow", updated_input={"content": {"city": "city 4321"}})
    assert "4,980 more choices" in text
    assert len(text) < 3_000


def test_a_number_beyond_the_list_is_asked_again() -> None:
    answer, text = answered(form(colours=COLOURS), "f", "1, 4", "3", "y")
    assert answer == Answer("allow", updated_input={"content": {"colours": ["blue"]}})
    assert "Type numbers with commas from 1 to 3." in text


def test_a_long_text_is_written_in_the_users_editor() -> None:
    display = form(bio={"type": "string", "maxLength": 5_000})
    assert filled(display, "e", edited="one\ntwo\n") == {"bio": "one\ntwo"}
    answer, text = answered(display, "f", "e", "by hand", "y", edited=AgentError("There is no editor."))
    assert answer == Answer("allow", updated_input={"content": {"bio": "by hand"}})
    assert "There is no editor." in text


def test_a_field_that_asks_for_a_secret_is_pointed_out() -> None:
    assert "It seems to ask for a secret." in answered(form(password={"type": "string"}), "f", ESC)[1]


def test_an_address_is_shown_whole_with_its_warnings() -> None:
    url = "https://bank.example@evil.example/x"
    display = {"kind": "mcp_url", "server": "small", "message": "Sign in", "url": url}
    answer, text = answered(display, "y")
    assert answer == Answer("allow", updated_input={"open": True})
    assert url in text
    assert "The site is evil.example." in text
    assert answered(display, "m")[0] == Answer("allow", updated_input={"open": False})
    assert answered(display, "n")[0] == Answer("deny")


def test_a_request_to_the_model_is_shown_in_full_with_its_price() -> None:
    answer, text = answered(SAMPLING, "a")
    assert answer == Answer("allow", updated_input={"scope": "session"})
    assert "cost: at most $0.012; at most 50 tokens of reply; $0.00 of $0.50 used" in text
    assert "Be short." in text
    assert "Say hello" in text
    assert answered(SAMPLING, "y")[0] == Answer("allow", updated_input={"scope": "once"})
    assert answered(SAMPLING, "n")[0] == Answer("deny")


def test_without_a_known_price_there_is_no_yes_for_the_session() -> None:
    answer, text = answered({**SAMPLING, "most_usd": None}, "a", "y")
    assert answer == Answer("allow", updated_input={"scope": "once"})
    assert "always" not in text
