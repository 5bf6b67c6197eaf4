"""The form of an MCP server: filled in by keyboard alone, checked field by field, and whatever the server writes."""

from __future__ import annotations

from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from agentcli.agent.mcp.requests import CANCELLED
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.dialog_for import dialog_for
from tests.tui.screen_host import OPEN, Host, asked, calm, look, looks, play, press, replies, settled, shown

NAME: Json = {"type": "string", "title": "Name", "description": "As in your passport"}
AGE: Json = {"type": "integer", "minimum": 1, "maximum": 120}
COLOUR: Json = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
LANGUAGES: Json = {"type": "array", "items": {"type": "string", "enum": ["Python", "Rust", "C"]}}
NEWS: Json = {"type": "boolean", "title": "Send me news", "default": True}


def dialog(required: tuple[str, ...] = (), message: str = "Who are you?", **fields: Json) -> Dialog[Answer | None]:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    display = {"kind": "mcp_form", "server": "small", "message": message, "schema": schema}
    event = asked("agentcli", {}, title="The MCP server small asks for input", display=display)
    return calm(dialog_for(event))


def content(keys: str, required: tuple[str, ...] = (), **fields: Json) -> Any:
    (reply,) = replies(lambda: dialog(required, **fields), keys)
    given = reply.updated_input if isinstance(reply, Answer) else None
    return given["content"] if given and "content" in given else reply


def test_a_form_has_a_row_for_each_field_and_says_where_answers_go() -> None:
    made = dialog(("name",), name=NAME, age=AGE, colour={**COLOUR, "default": "g"}, news=NEWS)
    assert look(made, size=(60, 20)) == (
        "─── The MCP server small asks for input ────────────────────\n"
        " Who are you?\n"
        "\n"
        " Answers go to the MCP server small. Enter no passwords or\n"
        " keys.\n"
        "\n"
        " ❯ Name*: …\n"
        "     As in your passport\n"
        "   age: …\n"
        "     a whole number, at least 1, at most 120\n"
        "   colour: Green\n"
        "   [x] Send me news\n"
        "   Accept: send the answers\n"
        "   Decline\n"
        " Ctrl+G editor · Tab next · Enter edit · Esc cancel"
    )


def test_in_forty_columns_and_ten_rows_message_fields_and_keys_are_in_sight() -> None:
    fields = {"name": NAME, "age": AGE, "colour": COLOUR, "languages": LANGUAGES, "news": NEWS}
    assert look(dialog(("name",), **fields), size=(40, 10)) == (
        "─── The MCP server small asks for inp… ─\n"
        " Who are you?\n"
        "\n"
        " Answers go to the MCP server small.\n"
        " Enter no passwords or keys.\n"
        " ❯ Name*: …\n"
        "   age: …\n"
        "   colour: …\n"
        "   languages: …\n"
        " Tab next · Enter edit · Esc cancel"
    )
    seen = look(dialog(("name",), **fields), "up", size=(40, 10))
    assert " ❯ Decline" in seen


@pytest.mark.parametrize(
    ("keys", "fields", "answer"),
    [
        ("A d a enter | 4 1 enter | enter", {"name": NAME, "age": AGE}, {"name": "Ada", "age": 41}),
        ("tab tab shift+tab 7 enter | enter", {"name": NAME, "age": AGE}, {"age": 7}),
        ("tab enter", {"news": NEWS}, {"news": True}),
        ("space | tab enter", {"news": NEWS}, {"news": False}),
        ("enter | tab enter", {"news": NEWS}, {"news": False}),
        ("enter | down enter | enter", {"colour": COLOUR}, {"colour": "g"}),
        ("enter | escape | tab enter", {"colour": COLOUR}, {}),
        ("enter | enter down down enter | escape | tab enter", {"l": LANGUAGES}, {"l": ["Python", "C"]}),
        ("enter | enter enter | escape | tab enter", {"l": LANGUAGES}, {"l": []}),
        (
            "tab tab enter",
            {"name": {**NAME, "default": "Ada"}, "age": {**AGE, "default": 36}},
            {"name": "Ada", "age": 36},
        ),
        ("escape", {"name": NAME}, CANCELLED),
        ("tab tab enter", {"name": NAME}, Answer("deny")),
    ],
)
def test_keys_fill_in_the_fields(keys: str, fields: dict[str, Json], answer: Any) -> None:
    assert content(keys, **fields) == answer


def test_arrows_change_a_choice_and_backspace_removes_from_a_text() -> None:
    assert content("right right | tab enter", colour=COLOUR) == {"colour": "g"}
    assert content("left | tab enter", colour=COLOUR) == {"colour": "g"}
    assert content("backspace 7 enter | enter", age={**AGE, "default": 36}) == {"age": 37}


def test_a_value_that_does_not_fit_is_explained_and_asked_for_again() -> None:
    asked_again, left = looks(dialog(age=AGE), "x enter", "escape")
    assert "age: Enter a whole number." in asked_again
    assert "age: x  ✗ Enter a whole number." in left
    assert content("x enter | backspace 5 enter | enter", age=AGE) == {"age": 5}


def test_a_form_with_problems_is_not_sent_and_the_first_one_is_marked() -> None:
    made = dialog(("name", "age"), name=NAME, age=AGE)
    seen = look(made, "tab tab enter")
    assert " ❯ Name*: …  ✗ Required." in seen
    assert "age*: …  ✗ Required." in seen
    assert "2 fields to correct" in seen
    assert replies(lambda: dialog(("name",), name=NAME), "tab enter") == [OPEN]


def test_a_list_of_five_thousand_values_is_searched_and_a_paste_goes_into_what_is_open() -> None:
    many: Json = {"type": "string", "enum": [f"city {number}" for number in range(5_000)]}

    async def script(pilot: Pilot[None], host: Host) -> None:
        for text in ("city 4321", "Ada Lovelace"):
            await press(pilot, "enter")
            host.screen.post_message(events.Paste(text))
            await settled(pilot)
            await press(pilot, "enter |")
        await press(pilot, "enter")

    answer = play(dialog(city=many, name=NAME), script).answer
    assert answer.updated_input == {"content": {"city": "city 4321", "name": "Ada Lovelace"}}


@pytest.mark.parametrize(("open_with", "field"), [("enter", {"type": "string", "maxLength": 5_000}), ("ctrl+g", NAME)])
def test_a_text_of_several_lines_is_written_in_an_editor(open_with: str, field: Json) -> None:
    made = dialog(bio=field)

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, open_with)
        for key in ("h", "i", "enter", "y", "o", "u"):
            await pilot.press(key)
        await settled(pilot)
        await press(pilot, "escape")
        assert any(": hi you (2 lines)" in row for row in shown(host))
        await press(pilot, "tab enter")

    assert play(made, script).answer.updated_input == {"content": {"bio": "hi\nyou"}}


def test_a_field_that_asks_for_a_secret_is_pointed_out() -> None:
    seen = look(dialog(token={"type": "string", "title": "API token"}))
    assert "“API token” seems to ask for a secret. A server must not do that with a form." in seen


def test_a_hundred_fields_and_a_long_message_leave_room_for_both() -> None:
    fields = {f"field {number}": NAME for number in range(100)}
    seen = look(dialog(message="word " * 4_000, **fields), "up up", size=(80, 24))
    assert " ❯ Accept" in seen
    assert "more lines" in seen
