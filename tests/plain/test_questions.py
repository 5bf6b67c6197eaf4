"""Questions in plain mode, and what each answer means."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.questions.kinds import EXIT, RESTRICTED, TRUSTED, ask_for_trust
from agentcli.plain.questions import answer_question, answer_to
from tests.plain.asked import ESC, Paper
from tests.support.tables import each_row


def requested(**changes: Any) -> ev.PermissionRequested:
    fields: dict[str, Any] = {
        "request_id": "q",
        "tool_use_id": "t",
        "name": "Bash",
        "input": {"command": "make all"},
        "title": "Bash make all",
        "reason": "Needs approval: make may change files or run code",
        "cause": "make may change files or run code",
        "suggestions": ["Bash(make all)"],
        "display": {"kind": "command", "command": "make all", "folder": "/w", "description": "build it"},
    }
    return ev.PermissionRequested(**fields | changes)


def answered(event: Any, *answers: str, **rest: Any) -> tuple[Answer | None, str]:
    paper = Paper(*answers, **rest)
    return asyncio.run(answer_to(event, paper)), paper.text


# ---------------------------------------------------------------------------------------------------------- permissions


@each_row(
    ("typed", "answer"),
    [
        ("y", Answer("allow")),
        ("1", Answer("allow")),
        ("YES", Answer("allow")),
        ("a", Answer("allow", rules=("Bash(make all)",), save_to="session")),
        ("p", Answer("allow", rules=("Bash(make all)",), save_to="local")),
        ("7", Answer("allow", rules=("Bash(make all)",), save_to="user")),
        ("n", Answer("deny")),
        ("n use ninja", Answer("deny", message="use ninja")),
        ("e because of that", Answer("deny", message="because of that")),
    ],
)
def test_a_letter_a_number_or_a_word_is_an_answer(typed: str, answer: Answer) -> None:
    assert answered(requested(), typed)[0] == answer


@each_row(
    "event",
    [
        requested(),
        requested(suggestions=[]),
        requested(name="Edit", suggestions=["Edit"]),
        requested(name="Edit", suggestions=[]),
    ],
)
def test_choices_are_numbered_without_gaps_and_no_digit_both_allows_and_denies(event: ev.PermissionRequested) -> None:
    answer, text = answered(event, "3 use ninja")
    assert answer == Answer("deny", message="use ninja")
    shown = re.findall(r"^  (\d) (\w)  ", text, re.MULTILINE)
    assert [int(digit) for digit, _letter in shown] == list(range(1, len(shown) + 1))
    behaviors = [answered(event, digit, "words")[0].behavior for digit in ("1", "2", "3", "4")]
    assert behaviors == ["allow", "allow", "deny", "deny"]
    for digit, letter in shown[:5]:
        assert answered(event, digit, "words")[0] == answered(event, letter, "words")[0]


def test_the_digit_of_no_is_its_place_in_questions_about_plans_and_confirmations() -> None:
    plan = requested(name="ExitPlanMode", input={"plan": "1. Build"}, display={"kind": "plan"})
    assert answered(plan, "4 smaller")[0] == Answer("deny", message="smaller")
    assert answered(requested(display={"kind": "confirm", "text": "Sure?"}), "2")[0] == Answer("deny")


def test_the_whole_command_and_all_rules_to_save_are_shown() -> None:
    command = "echo " + "x" * 5_000 + " \u200b\u202e;rm\x1b[2J -rf ~"
    _answer, text = answered(requested(input={"command": command}), "n")
    assert "x" * 5_000 in text
    assert "<U+200B><U+202E>;rm␛[2J -rf ~" in text
    assert "in: /w" in text
    assert "to: build it" in text
    assert "Needs approval: make may change files or run code" in text
    assert "settings.local.json" in text
    assert "rule for always: Bash(make all)\n" in text


CHOICES = [
    {"rules": ["Bash(pytest -q)"], "covers": "exactly this command", "note": ""},
    {"rules": ["Bash(pytest *)"], "covers": "pytest with any arguments", "note": "Also python -m pytest."},
]


def test_a_call_of_an_mcp_tool_shows_its_server_arguments_and_claims() -> None:
    display = {"kind": "mcp", "server": "notes", "tool": "wipe", "description": "Wipe", "claims": ["destructive"]}
    event = requested(name="mcp__notes__wipe", input={"where": "all"}, display=display)
    _answer, text = answered(event, "n")
    assert "Use wipe of the MCP server notes?" in text
    assert "  where: all\n  description: Wipe\n" in text
    assert "The server says that this tool may delete or overwrite data. agentcli cannot check it." in text


def test_a_broader_rule_is_chosen_by_its_number_and_shown_before_it_is_saved() -> None:
    event = requested(suggestions=["Bash(pytest -q)"], rule_choices=CHOICES)
    answer, text = answered(event, "r", "2", "p")
    assert answer == Answer("allow", rules=("Bash(pytest *)",), save_to="local")
    assert text.index("rule for always: Bash(pytest -q)") < text.index("covers: exactly this command")
    assert text.index("covers: exactly this command") < text.index("yes, once")
    shown = text.rindex("rule for always: Bash(pytest *)")
    assert shown < text.index("note: Also python -m pytest.") < text.rindex("yes, once")
    assert answered(event, "r", "7", "", "a")[0] == Answer("allow", rules=("Bash(pytest -q)",))


def test_a_rule_is_edited_checked_and_described_again() -> None:
    event = requested(suggestions=["Bash(pytest -q)"], rule_choices=CHOICES)
    answer, text = answered(event, "r", "e", "Bash(pytest", "Bash(pytest -q *)", "a")
    assert answer == Answer("allow", rules=("Bash(pytest -q *)",))
    assert "Not a permission rule" in text
    assert "covers: pytest -q with any arguments" in text
    assert "invisible" in answered(event, "r", "e", "Bash(l\u200bs)", "", "n")[1]


@pytest.mark.parametrize("rule", ["Bash", "Bash(python3 *)", "Bash(bash -c *)", "Bash(* --help)", "Edit"])
def test_a_rule_that_allows_anything_is_confirmed_by_a_word(rule: str) -> None:
    event = requested(suggestions=["Bash(pytest -q)"], rule_choices=CHOICES)
    answer, text = answered(event, "r", "e", rule, "a", "no", "a", "yes")
    assert answer == Answer("allow", rules=(rule,))
    assert f"! {rule} allows" in text


def test_lines_of_a_command_have_marks_and_blanks_at_their_ends_are_seen() -> None:
    _answer, text = answered(requested(input={"command": "one  \ntwo"}), "n")
    assert "  | one··\n  | two\n" in text


@pytest.mark.parametrize("typed", ["", "x", "yes but", "1 2", "0", "9", "a little", "ye"])
def test_any_other_input_is_asked_again(typed: str) -> None:
    answer, text = answered(requested(), typed, "n")
    assert answer == Answer("deny")
    assert "Type one of y, a, n, e, t, p, u, r, or its digit, and Enter." in text


def test_esc_gives_no_answer_even_while_the_reason_is_requested() -> None:
    assert answered(requested(), ESC)[0] is None
    assert answered(requested(), "e", ESC)[0] is None


def test_a_diff_is_shown_whole_and_edits_can_be_allowed_from_now_on() -> None:
    diff = "@@ -1,2 +1,300 @@\n" + "\n".join(f"+line {number} " for number in range(300))
    display = {"kind": "diff", "path": "a.py", "diff": diff, "added": 300, "removed": 1}
    answer, text = answered(requested(name="Edit", display=display, cause="", self_evident=True), "d")
    assert answer == Answer("allow", mode=PermissionMode.ACCEPT_EDITS)
    assert "do all edits" in text
    assert "do all edits" not in answered(requested(name="Edit", display=display, cause="it matches a rule"), "n")[1]
    assert "Make this change?" in text
    assert all(f"+line {number}·\n" in text for number in (0, 150, 299))
    assert "a.py  +300 −1\n" in text


def test_after_a_truncated_diff_the_whole_input_is_shown() -> None:
    display = {"kind": "diff", "path": "a.py", "diff": "@@ -0,0 +1 @@\n+a", "truncated": True}
    text = answered(requested(name="Write", display=display, input={"content": "a\nb\nthe end"}), "n")[1]
    assert "Create this file?" in text
    assert "  | the end\n" in text


def test_a_private_network_address_has_a_warning() -> None:
    display = {"kind": "fetch", "url": "http://10.0.0.1/", "host": "10.0.0.1", "private": True, "prompt": "see"}
    text = answered(requested(name="WebFetch", display=display), "n")[1]
    assert "Fetch this address?" in text
    assert "! This address is in your own network." in text


def test_a_tool_without_a_display_shows_all_of_its_input() -> None:
    text = answered(requested(name="Other", display={}, input={"a": "x\ny", "b": [1, {"c": "d"}]}), "n")[1]
    assert "Use Other?" in text
    assert "  a:\n  | x\n  | y\n" in text
    assert 'b: [1, {"c": "d"}]' in text


# ------------------------------------------------------------------------------------------------------ other questions


def asked(*questions: dict[str, Any]) -> ev.PermissionRequested:
    shown = [{"header": "H", "options": [{"label": "red"}, {"label": "blue", "description": "as the sky"}]} | one
             for one in questions]  # fmt: skip
    return requested(
        name="AskUserQuestion", input={"questions": shown}, display={"kind": "questions", "questions": shown}
    )


def answers_in(answer: Answer | None) -> Any:
    assert answer is not None
    assert answer.updated_input is not None
    return answer.updated_input["answers"]


def test_questions_are_answered_by_number_in_own_words_or_not_at_all() -> None:
    event = asked({"question": "One?"}, {"question": "Two?"}, {"question": "Three?"})
    answer, text = answered(event, "2", "a dark green", "")
    assert answers_in(answer) == {"One?": "blue", "Two?": "a dark green"}
    assert "Question 2 of 3: Two?" in text
    assert "blue: as the sky" in text


def test_numbers_and_own_words_can_be_given_together() -> None:
    event = asked({"question": "Which?", "multiSelect": True})
    assert answers_in(answered(event, "2, green")[0]) == {"Which?": ["blue", "green"]}
    assert answers_in(answered(event, "none, please")[0]) == {"Which?": ["none, please"]}


def test_one_letter_is_no_answer_before_it_is_repeated() -> None:
    answer, text = answered(asked({"question": "Which?"}), "y", "n", "n")
    assert answers_in(answer) == {"Which?": "n"}
    assert text.count("One letter: type it again") == 2


def test_a_plan_is_shown_as_written_and_can_be_edited_before_the_yes() -> None:
    event = requested(name="ExitPlanMode", input={"plan": "# Do\n<!-- x -->"}, display={"kind": "plan", "plan": "# Do"})
    answer, text = answered(event, "e", "a", edited="# Do less")
    assert answer == Answer("allow", updated_input={"plan": "# Do less"}, mode=PermissionMode.ACCEPT_EDITS)
    assert "  | <!-- x -->\n" in text
    assert "  | # Do less\n" in text
    assert answered(event, "y")[0] == Answer("allow")
    assert answered(event, "n", "think again")[0] == Answer("deny", message="think again")


def test_a_failing_editor_keeps_the_text_and_reports_the_reason() -> None:
    event = requested(name="ExitPlanMode", input={"plan": "Do"}, display={"kind": "plan", "plan": "Do"})
    answer, text = answered(event, "e", "y", edited=AgentError("No editor was found."))
    assert answer == Answer("allow")
    assert "! No editor was found." in text


def proposed() -> ev.CompactionProposed:
    return ev.CompactionProposed(
        request_id="q",
        summary="All that mattered.",
        tokens_before=90_000,
        tokens_after=9_000,
        cost_usd=0.02,
        kept=[f"file {number}" for number in range(20)],
        dropped=["40 messages"],
    )


def test_a_summary_is_accepted_edited_or_refused_and_esc_refuses_it() -> None:
    answer, text = answered(proposed(), "y")
    assert answer == Answer("allow")
    for shown in ("All that mattered.", "90,000 become 9,000", "$0.02", "goes: 40 messages", "and 8 more"):
        assert shown in text
    assert answered(proposed(), "e", "y", edited="Less.")[0] == Answer("allow", updated_input={"summary": "Less."})
    assert answered(proposed(), "n")[0] == Answer("deny")
    assert answered(proposed(), ESC)[0] == Answer("deny"), "nothing has happened yet that could be stopped"


def test_an_empty_summary_is_not_accepted() -> None:
    answer, text = answered(proposed(), "e", "y", "n", edited=" ")
    assert answer == Answer("deny")
    assert "The summary is empty." in text


# ---------------------------------------------------------------------------------------------------------------- trust


def trust_state(*further: TrustedContent) -> TrustState:
    parts = (TrustedContent(".agentcli/settings.json", "abc", '{"hooks": "rm\u202e"}\r\nend'), *further)
    return TrustState(Path("/w"), False, parts, tuple(part.name for part in parts))


@pytest.mark.parametrize(("typed", "answer"), [("t", TRUSTED), ("r", RESTRICTED), ("x", EXIT), (ESC, EXIT)])
def test_a_folder_is_trusted_only_by_typing_the_word(typed: str, answer: Answer) -> None:
    paper = Paper(typed)
    assert asyncio.run(answer_question(ask_for_trust(trust_state(), can_exit=True), paper)) == answer
    assert '  | {"hooks": "rm<U+202E>"}\n  | end\n' in paper.text


def test_a_folder_with_a_file_that_cannot_be_shown_cannot_be_trusted() -> None:
    paper = Paper("t", "r")
    state = trust_state(TrustedContent(".mcp\n? Trust this folder?\x1b[2J.json", UNREADABLE))
    assert asyncio.run(answer_question(ask_for_trust(state, can_exit=True), paper)) == RESTRICTED
    assert "cannot be shown" in paper.text
    assert "\x1b" not in paper.text
    assert paper.text.count("\n? Trust this folder?") == 0, "a name stays on its line"


# ------------------------------------------------------------------------------------------------------------- undo


def test_an_undo_shows_both_versions() -> None:
    display = {
        "kind": "undo",
        "text": "Both you and the prompt changed these lines.",
        "now_label": "as it is now",
        "other_label": "before “go”",
        "clashes": [{"line": 3, "now": "mine\x1b[2J\n", "other": ""}],
        "exists": True,
    }
    title = "Undo: you changed notes.txt too"
    _answer, text = answered(requested(name="agentcli", title=title, reason=display["text"], display=display), "k")
    assert title in text
    assert "Line 3, as it is now:" in text
    assert "(none)" in text
    assert "\x1b[2J" not in text


def test_each_line_of_a_question_of_our_own_is_indented() -> None:
    text = "These files changed while `make` ran:\n  a.txt\nRestoring loses edits …"
    display = {"kind": "confirm", "text": text, "yes": "Restore", "no": "Leave as is"}
    answer, shown = answered(requested(title="Undo: restore 1 file that you may have edited?", display=display), "n")
    assert answer == Answer("deny")
    assert "\n  These files changed while `make` ran:\n    a.txt\n  Restoring loses" in shown
