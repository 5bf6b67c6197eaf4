"""The dialog for the model's questions: options, multiple picks, free text, a review, and the answer."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from agentcli.core.permission import Answer
from agentcli.tui.screens.dialog_for import dialog_for
from agentcli.tui.screens.question import QuestionsDialog
from tests.tui.screen_host import OPEN, Host, asked, calm, check, look, play, press, replies, settled, shown

DATABASE = {
    "question": "Which database should it use?",
    "header": "Database",
    "options": [
        {"label": "PostgreSQL", "description": "As the other services do."},
        {"label": "SQLite", "description": "One file, nothing to run."},
    ],
}
LOGGING = {
    "question": "What should be logged?",
    "header": "Logging",
    "multiSelect": True,
    "options": [{"label": "Requests"}, {"label": "Errors"}, {"label": "SQL", "description": "Noisy"}],
}
BOTH = {"questions": [DATABASE, LOGGING]}
ONE = {"questions": [DATABASE]}


def dialog(input: dict[str, Any], **display: str) -> QuestionsDialog:
    event = asked("AskUserQuestion", input, display={"kind": "questions", **display})
    made = dialog_for(event)
    assert isinstance(made, QuestionsDialog)
    return calm(made)


def answers(input: dict[str, Any], *scripts: str) -> list[Any]:
    found = replies(lambda: dialog(input), *scripts)
    for reply in found:
        assert isinstance(reply, Answer)
        assert reply.behavior == "allow"
        assert reply.updated_input is not None
        assert reply.updated_input["questions"] == input["questions"]
    return [reply.updated_input["answers"] for reply in found]


def test_while_a_custom_answer_is_typed_its_hint_stays_visible() -> None:
    assert "Another amount like $5" in look(dialog(ONE, other="Another amount like $5"), "3")
    assert "Your answer" in look(dialog(ONE), "3")


def test_space_picks_also_while_the_prompt_has_text() -> None:
    made = dialog({"questions": [LOGGING]})
    made.draft = lambda: "half a sen"

    async def script(pilot: Pilot[None], host: Host) -> None:
        keys = next(row for row in shown(host) if "typing goes to" in row)
        assert "Space pick" in keys
        assert "number" not in keys
        assert "letters" not in keys
        await press(pilot, "space down space enter enter")
        assert host.prompt == ""
        assert host.answer.updated_input["answers"] == {LOGGING["question"]: ["Requests", "Errors"]}

    play(made, script, (100, 24))


def test_a_page_shows_the_question_and_its_options_with_descriptions() -> None:
    seen = look(dialog(BOTH), size=(60, 20))
    assert "Question 1 of 2" in seen
    assert "  ○ Database   ○ Logging   → Send\n Which database should it use?\n" in seen
    assert " ❯ 1 ○ PostgreSQL\n       As the other services do.\n   2 ○ SQLite\n" in seen
    assert seen.endswith("   3 ○ Other: type your own answer\n ←→ question · Enter pick · Esc stop the work")


def test_on_a_small_screen_all_options_stay_visible_and_descriptions_can_be_scrolled() -> None:
    options = [{"label": name, "description": f"{name} has much to be said for it, and more."} for name in ("A", "B")]
    input = {"questions": [{**DATABASE, "options": options}, LOGGING]}
    assert look(dialog(input), size=(40, 10)) == (
        "─── Question 1 of 2 ────────────────────\n"
        "  ○ Database   ○ Logging   → Send\n"
        " Which database should it use?\n"
        "\n"
        " 1 A\n"
        "─── ↓ 6 more lines · PgUp PgDn ─────────\n"
        " ❯ 1 ○ A\n"
        "   2 ○ B\n"
        "   3 ○ Other …\n"
        " Enter pick · Esc stop the work"
    )
    assert "   B has much to be said for it, and\n" in look(dialog(input), "end", size=(40, 10))


def test_one_question_with_one_answer_needs_no_review() -> None:
    key = "Which database should it use?"
    assert answers(ONE, "2", "enter") == [{key: "SQLite"}, {key: "PostgreSQL"}]
    assert "→ Send" not in look(dialog(ONE))


def test_free_text_is_an_answer_unless_it_is_empty() -> None:
    assert answers(ONE, "3 M y enter") == [{"Which database should it use?": "My"}]
    assert replies(lambda: dialog(ONE), "3 enter", "3 space enter") == [OPEN, OPEN]


def test_several_questions_are_reviewed_before_they_are_sent() -> None:
    check(
        dialog(BOTH),
        (
            "2 1 3 enter",
            "Send these answers?",
            "  ✓ Database   ✓ Logging   → Send\n Which database should it use?\n   → SQLite\n",
            " What should be logged?\n   → Requests, SQL\n\n ❯ 1 Send\n   2 Change an answer\n ←→ back to a question",
            OPEN,
        ),
    )
    expected = {"Which database should it use?": "SQLite", "What should be logged?": ["Requests", "SQL"]}
    assert answers(BOTH, "2 1 3 enter enter") == [expected]


def test_multiple_picks_are_toggled_and_free_text_is_one_more() -> None:
    many = answers({"questions": [LOGGING]}, "1 2 1 space down space t o o enter | right enter")
    assert many == [{"What should be logged?": ["Requests", "too"]}]


def test_multiple_picks_and_free_text_are_finished_with_enter_alone() -> None:
    only = {"questions": [LOGGING]}
    expected = {"What should be logged?": ["Requests", "my"]}
    assert answers(only, "space up enter m y enter | enter | enter", "1 m y enter | enter | enter") == [expected] * 2


@pytest.mark.parametrize("words", ["no use both", "yes", "change it", "other"])
def test_typed_letters_are_an_answer_in_own_words_and_never_a_shortcut(words: str) -> None:
    keys = " ".join("space" if letter == " " else letter for letter in words)
    assert answers(ONE, f"{keys} enter") == [{"Which database should it use?": words}]
    assert replies(lambda: dialog(BOTH), f"2 enter {keys}", keys) == [OPEN, OPEN]


def test_a_single_pick_and_free_text_replace_each_other() -> None:
    found = answers(BOTH, "1 left 3 x enter | right enter", "3 x enter | left 1 right enter")
    assert found == [{"Which database should it use?": answer} for answer in ("x", "PostgreSQL")]


def test_a_question_may_stay_unanswered_but_not_all() -> None:
    text = look(dialog(BOTH), "right right")
    assert text.count("(not answered)") == 2
    assert "   1 Send: no question is answered yet" in text
    assert replies(lambda: dialog(BOTH), "right right 1") == [OPEN]
    assert answers(BOTH, "right 2 enter enter") == [{"What should be logged?": ["Errors"]}]


def test_an_answer_can_be_changed_from_the_review() -> None:
    assert answers(BOTH, "2 enter 2 1 enter enter") == [{"Which database should it use?": "PostgreSQL"}]


def test_the_tabs_can_be_clicked() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        top = host.screen.query_one("#sheet").region.y
        await pilot.click(offset=(17, top + 1))
        await settled(pilot)
        assert "Question 2 of 2" in shown(host)[0]

    play(dialog(BOTH), script)


def test_esc_sends_nothing_and_in_the_input_line_only_leaves_it() -> None:
    assert replies(lambda: dialog(BOTH), "escape", "2 escape", "2 enter escape", "3 a escape") == [
        None,
        None,
        None,
        OPEN,
    ]
    assert answers(ONE, "3 a escape | 1") == [{"Which database should it use?": "PostgreSQL"}]


def test_the_tool_finds_the_answer_by_the_question_as_the_model_wrote_it() -> None:
    evil = {
        "question": "\x1b[2J[red]Which\x9b31m?\nsecond line",
        "header": "x",
        "options": [{"label": "\x1b[31m[bold]a[/]"}],
    }
    assert answers({"questions": [evil]}, "1") == [{evil["question"]: "[bold]a[/]"}]
