"""Nothing is allowed before all of it was visible, and "always" saves the chosen or typed rule."""

from __future__ import annotations

import pytest
from textual import events
from textual.pilot import Pilot

from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer
from agentcli.tui.screens.page import Scroller
from tests.tui.screen_host import (
    OPEN,
    Host,
    asked,
    check,
    look,
    looks,
    play,
    press,
    replies,
    settled,
    shown,
    stays_open,
)
from tests.tui.screens.test_permission_dialog import EDIT, dialog

LONG = asked(
    "Bash",
    {"command": "\n".join(f"echo {number}" for number in range(40))},
    suggestions=["Bash(echo *)"],
    display={"kind": "command"},
)
PYTEST = asked(
    "Bash",
    {"command": "pytest -q"},
    suggestions=["Bash(pytest -q)"],
    rule_choices=[
        {"rules": ["Bash(pytest -q)"], "covers": "exactly this command", "note": ""},
        {"rules": ["Bash(pytest *)"], "covers": "pytest with any arguments", "note": "Also python -m pytest."},
    ],
    display={"kind": "command"},
)
ALLOWING = ("enter", "1", "y", "2", "a", "a a a", "y y y", "pagedown y", "2 | 2 | enter")


def answers(event: PermissionRequested, *scripts: str) -> list[Answer | str | None]:
    return replies(lambda: dialog(event), *scripts)


def test_a_long_command_cannot_be_allowed_before_its_end_was_visible() -> None:
    stays_open(dialog(LONG), *ALLOWING)
    assert answers(LONG, "end y", "end a") == [Answer("allow"), Answer("allow", rules=("Bash(echo *)",))]
    pages = " ".join(["pagedown"] * 6), " ".join(["space"] * 6), " ".join(["down"] * 50)
    assert answers(LONG, *(f"{keys} | y" for keys in pages)) == [Answer("allow")] * 3


def test_a_long_command_can_always_be_denied() -> None:
    assert answers(LONG, "n", "3", "4 n o enter", "escape") == [
        Answer("deny"),
        Answer("deny"),
        Answer("deny", message="no"),
        None,
    ]


def test_unread_lines_are_counted_and_a_refused_answer_says_what_to_do_first() -> None:
    before, after, read = looks(dialog(LONG), "", "y", "end")
    assert "more lines: scroll to the end to allow" in before
    assert "Read to the end first: PgDn or End" in after
    assert before.splitlines()[1:10] == after.splitlines()[1:10]
    assert "Read to the end first: PgDn or End" in look(dialog(LONG), "enter", size=(40, 10))
    assert " PgDn Space ↓ scroll · n deny · End go to the end · Esc stop" in before
    assert "scroll to the end to allow" not in read


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 5)])
def test_every_line_of_command_and_rule_was_on_the_screen_before_allowing_works(size: tuple[int, int]) -> None:
    command = " ".join(f"w{number}" for number in range(16))
    event = asked("Bash", {"command": command}, suggestions=[f"Bash({command})"], display={"kind": "command"})
    seen: set[str] = set()

    async def script(pilot: Pilot[None], host: Host) -> None:
        for _step in range(400):
            seen.update(" ".join(shown(host)).replace("(", " ").replace(")", " ").split())
            await press(pilot, "y down")
            if host.answers:
                break
        assert host.answer == Answer("allow")

    play(dialog(event), script, size)
    assert set(command.split()) <= seen
    assert "Bash" in seen, "the rule was shown too"


def test_a_window_without_room_for_the_text_allows_nothing() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        for keys in ("y", "end y", "a", "enter"):
            await press(pilot, keys)
            assert host.answers == []
        await press(pilot, "n")
        assert host.answer == Answer("deny")

    play(dialog(LONG), script, (40, 2))


def test_the_wheel_and_a_larger_window_unlock_it() -> None:
    async def wheel(pilot: Pilot[None], host: Host) -> None:
        body = host.screen.query_one(Scroller)
        while body.hidden[1]:
            body.post_message(events.MouseScrollDown(body, 5, 5, 0, 1, 0, False, False, False))
            await settled(pilot)
        await press(pilot, "y")
        assert host.answer == Answer("allow")

    async def larger(pilot: Pilot[None], host: Host) -> None:
        await pilot.resize_terminal(80, 130)
        await settled(pilot)
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        await press(pilot, "y")
        assert host.answer == Answer("allow")

    play(dialog(LONG), wheel)
    play(dialog(LONG), larger)


def test_a_click_on_a_locked_choice_does_nothing() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        row = next(place for place, text in enumerate(shown(host)) if "y Allow once" in text)
        await pilot.click(offset=(8, host.screen.query_one("#sheet").region.y + row))
        await settled(pilot)
        assert host.answers == []

    play(dialog(LONG), script)


def test_edits_and_hunks_are_locked_too(tmp_path) -> None:
    diff = "@@ -1,100 +1,100 @@\n" + "\n".join(f"-old {number}\n+new {number}" for number in range(100))
    display = {"kind": "diff", "path": "a", "diff": diff}
    event = asked("Edit", EDIT.input, display=display, suggestions=["Edit(/a)"], self_evident=True)
    stays_open(dialog(event), "y", "e", "5", "enter")
    refused, allowed = answers(event, "n", "end e")
    assert refused == Answer("deny")
    assert allowed.mode == "acceptEdits"  # type: ignore[union-attr]
    (tmp_path / "a").write_text("\n".join(f"x {number}\n\n\n\n\n\n\n\n\n" for number in range(30)))
    many = "\n".join(f"y {number}\n\n\n\n\n\n\n\n\n" for number in range(30))
    several = "@@ -1,1 +1,1 @@\n-x 0\n+y 0\n@@ -10,1 +10,1 @@\n-x 1\n+y 1"
    event = asked("Write", {"file_path": "a", "content": many}, display={"kind": "diff", "path": "a", "diff": several})

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "h")
        await press(pilot, "enter")
        assert host.answers == []
        await press(pilot, "end")
        await press(pilot, "enter")
        assert host.answer == Answer("allow")

    play(dialog(event, cwd=tmp_path), script)


# ------------------------------------------------------------------------------------------------------- rules


def test_the_arrows_choose_the_rule_and_tab_where_it_is_saved() -> None:
    exact, broad = ("Bash(pytest -q)",), ("Bash(pytest *)",)
    assert answers(PYTEST, "a", "right a", "right right a", "left tab a") == [
        Answer("allow", rules=exact),
        Answer("allow", rules=broad),
        Answer("allow", rules=exact),
        Answer("allow", rules=broad, save_to="local"),
    ]
    text = look(dialog(PYTEST), "right")
    assert "Always allow Bash(pytest *)" in text
    assert "covers pytest with any arguments" in text
    assert "Also python -m pytest." in " ".join(text.split())
    assert "‹\u00a02\u00a0of\u00a02\u00a0›" in text


def test_a_broader_rule_has_to_be_on_the_screen_before_it_can_be_saved() -> None:
    rule = f"Bash(pytest {'x' * 2000} *)"
    choices = [PYTEST.rule_choices[0], {"rules": [rule], "covers": "much", "note": ""}]
    event = asked("Bash", PYTEST.input, rule_choices=choices, display={"kind": "command"})
    assert answers(event, "a", "right a", "right | end | a") == [
        Answer("allow", rules=("Bash(pytest -q)",)),
        OPEN,
        Answer("allow", rules=(rule,)),
    ]


def test_a_rule_can_be_edited_and_is_described_again() -> None:
    keys = "r | backspace backspace backspace | * ) enter"
    check(
        dialog(PYTEST),
        (keys, "covers pytest with any arguments", "3\u00a0of\u00a03"),
        ("a", Answer("allow", rules=("Bash(pytest *)",))),
    )
    assert "It does not match this call" in look(dialog(PYTEST), "r | ctrl+u | =Bash(ls) enter")


def test_an_invalid_rule_is_explained_and_nothing_is_saved() -> None:
    check(
        dialog(PYTEST),
        ("r | backspace | enter", "Not a permission rule"),
        ("escape | a", Answer("allow", rules=("Bash(pytest -q)",))),
    )


@pytest.mark.parametrize("rule", ["Bash", "Bash(python3 *)", "Bash(sh)"])
def test_a_rule_that_allows_anything_needs_the_word_yes(rule: str) -> None:
    check(
        dialog(PYTEST),
        (f"r | ctrl+u | ={rule.replace(' ', ' space =')} enter", "! Bash"),
        *((keys, OPEN) for keys in ("a", "enter", "a =no enter")),
        ("a =yes enter", Answer("allow", rules=(rule,))),
    )


def test_each_rule_of_a_compound_command_is_edited_in_turn() -> None:
    event = asked(
        "Bash", {"command": "a && b"}, suggestions=["Bash(a)", "Bash(b)"], display={"kind": "command", "command": "a"}
    )
    assert answers(event, "r | enter | backspace | space * ) enter | a") == [
        Answer("allow", rules=("Bash(a)", "Bash(b *)"))
    ]
