"""The permission dialog: shows everything, answers by keyboard, and never by accident."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer, PartFinding, PermissionMode, SaveTo
from agentcli.interactive.questions.permission import ask_permission
from agentcli.tui.screens.hunks import HunkReview
from agentcli.tui.screens.page import Scroller
from agentcli.tui.screens.permission import PermissionDialog
from agentcli.tui.screens.text import more_row
from agentcli.tui.theme.palette import Palette
from tests.tui.screen_host import OPEN, Clock, Host, asked, calm, look, play, press, replies, settled, shown, timed

COMMAND = asked(
    "Bash",
    {"command": "npm run build && rm -rf dist"},
    reason="Two parts need a rule",
    findings=[
        PartFinding("npm run build", "no rule allows it", allowed=False).record(),
        PartFinding("rm -rf dist", "it removes files", allowed=False).record(),
    ],
    suggestions=["Bash(npm run build)", "Bash(rm -rf dist)"],
    display={
        "kind": "command",
        "command": "npm run build && rm -rf dist",
        "folder": "/srv/app",
        "description": "Build",
    },
)
DIFF = "@@ -1,3 +1,3 @@\n def head(text):\n-    return text[:1]\n+    return text[0]\n # end"
EDIT = asked(
    "Edit",
    {"file_path": "src/a.py", "old_string": "    return text[:1]\n", "new_string": "    return text[0]\n"},
    suggestions=["Edit(/src/**)"],
    display={"kind": "diff", "path": "src/a.py", "diff": DIFF, "added": 1, "removed": 1},
    self_evident=True,
)
TWO_HUNKS = replace(EDIT, display={**EDIT.display, "diff": f"{DIFF}\n@@ -9,1 +9,1 @@\n-old\n+new"})

SIGNS = (("-", "old"), ("+", "new"))
LONG_DIFF = "@@ -1,40 +1,40 @@\n" + "\n".join(f"{sign}{name} {number}" for number in range(40) for sign, name in SIGNS)


def dialog(event: PermissionRequested = COMMAND, waiting: int = 0, cwd: Path = Path("/")) -> PermissionDialog:
    return calm(PermissionDialog(ask_permission(event), waiting, cwd))


def answers(*scripts: str, event: PermissionRequested = COMMAND) -> list[Answer | str | None]:
    return replies(lambda: dialog(event), *scripts)


# -------------------------------------------------------------------------------------------------------- looks


def test_a_loop_question_has_its_own_wording() -> None:
    text = "Bash make: the same result 3 times in a row."
    event = asked("Loop guard", {}, reason="Yes lets it go on, no ends it.", display={"kind": "loop", "text": text})
    seen = look(dialog(event))
    assert text in seen
    assert " ❯ 1 Yes, continue\n   2 No, stop this task\n   3 No, and say what to do instead\n" in seen
    assert "Always" not in seen
    assert answers("y", "n", event=event) == [Answer("allow"), Answer("deny")]


def test_a_command_is_shown_with_its_folder_its_parts_and_the_rules_that_always_would_save() -> None:
    assert look(dialog(waiting=2)) == (
        "─── Run this command? ──────────────────────────── 2 more questions after this ─\n"
        " $ npm run build && rm -rf dist\n"
        "\n"
        " in /srv/app\n"
        " to Build\n"
        "\n"
        " Two parts need a rule\n"
        "   · npm run build: needs approval because no rule allows it\n"
        "   · rm -rf dist: needs approval because it removes files\n"
        "\n"
        " “Always” would save, until agentcli is closed:\n"
        "   + Bash(npm run build)\n"
        "   + Bash(rm -rf dist)\n"
        "     covers exactly these 2 commands\n"
        "\n"
        " ❯ 1 Allow once\n"
        "   2 Always allow these 2 rules  ‹\u00a0this\u00a0session\u00a0›\n"
        "   3 Deny\n"
        "   4 Deny and say what to do instead\n"
        "   5 Allow once and say what to do next\n"
        " ↑↓ choose · r edit rule · Tab where to save · Enter confirm · Esc stop"
    )


def test_nothing_is_repeated_for_a_command_of_one_part() -> None:
    event = asked(
        "Bash",
        {"command": "git push"},
        reason="Needs approval: git push may change files or run code",
        cause="git push may change files or run code",
        cause_listed=True,
        findings=[PartFinding("git push", "git push may change files or run code", allowed=False).record()],
        suggestions=["Bash(git push:*)"],
        display={"kind": "command", "command": "git push", "folder": "/srv/app"},
    )
    seen = look(dialog(event))
    assert seen.count("may change files") == 1
    assert (
        " ❯ 1 Allow once\n"
        "   2 Always allow Bash(git push:*)  ‹\u00a0this\u00a0session\u00a0›\n"
        "     covers git push with any arguments, until agentcli is closed\n"
        "   3 Deny\n"
    ) in seen
    elsewhere = look(dialog(event), "tab")
    assert "saved in .agentcli/settings.local.json of this project, for you only" in " ".join(elsewhere.split())
    small = look(dialog(event), "end down", size=(40, 10))
    assert "2 Always allow  ‹" in small
    assert "+ Bash(git push:*)" in small


def test_a_long_part_is_not_shown_in_full_again_where_it_is_judged() -> None:
    script = "python - <<'EOF'\nfirst()\nlast()\nEOF"
    echo = f"echo {'x' * 200}"
    event = asked(
        "Bash",
        {"command": f"{echo}\n{script}"},
        reason="Needs approval: the here-document cannot be checked (in `python`)",
        cause="the here-document cannot be checked (in `python`)",
        cause_listed=True,
        findings=[
            PartFinding(echo, "it is read-only", allowed=True).record(),
            PartFinding(script, "the here-document cannot be checked", allowed=False).record(),
            PartFinding(
                "printf ': needs approval because\nno'\nrm -rf /", "it removes: allowed because x", allowed=False
            ).record(),
        ],
        display={"kind": "command"},
    )
    text = look(dialog(event), size=(110, 40))
    assert text.count("first()") == text.count("last()") == 1
    assert " Parts of the command:\n" in text
    assert f"   · echo {'x' * 55} …: allowed because it is read-only\n" in text
    assert "   · python - <<'EOF' …: needs approval because the here-document cannot be checked\n" in text
    # The parts that need approval come first.
    assert text.index("· python") < text.index("· printf") < text.index("· echo")
    # Whatever a part looks like: what was found about it stays whole.
    assert "   · printf ': needs approval because …: needs approval because it removes: allowed because x\n" in text


def test_an_edit_shows_no_needs_approval_line() -> None:
    for reason, evident in (
        ("writing /srv/app/a.py needs approval", True),
        ("/etc/x is outside the working directories", False),
        ("a hook wants to know", False),
    ):
        event = asked("Edit", EDIT.input, display=EDIT.display, reason=reason, self_evident=evident)
        assert (reason not in look(dialog(event))) is evident


@pytest.mark.parametrize(
    ("above", "width", "locked", "text"),
    [
        (76, 80, False, " ↑ 76 above · ↓ 110 more lines · PgUp PgDn "),
        (76, 41, False, " ↑ 76 above · ↓ 110 more · PgUp PgDn "),
        (76, 30, False, " ↑ 76 above · ↓ 110 more "),
        (0, 80, True, " ↓ 110 more lines: scroll to the end to allow "),
        (0, 40, True, " ↓ 110 more: PgDn or End to allow "),
        (0, 30, True, " ↓ 110 more: PgDn, End "),
        (0, 20, True, " ↓ 110 · End "),
    ],
)
def test_the_row_below_a_long_body_names_the_keys_as_far_as_there_is_room(
    above: int, width: int, locked: bool, text: str
) -> None:
    row = more_row(above, 110, width, Palette(), locked=locked)
    assert "".join(part for part, _style in row).strip("─") == text


def test_on_a_small_screen_the_change_gets_the_rows_and_the_choices_fold_into_one() -> None:
    event = replace(TWO_HUNKS, display={**TWO_HUNKS.display, "diff": LONG_DIFF})
    small = look(dialog(event, waiting=1), size=(40, 10)).split("\n")
    assert small[0] == "─── Make this change? ───────────── +1 ─"
    assert [row.strip(" ▁▂▃▄▅▆▇█") for row in small[1:7]] == [
        "src/a.py  +1 −1",
        *(f"{place} {sign} {name} {number}" for number, place in ((0, 1), (1, 2)) for sign, name in SIGNS),
        "3 - old 2",
    ]
    assert small[7:] == [
        "─── ↓ 79 more: PgDn or End to allow ────",
        " ❯ y Allow once · n Deny · … 4 more",
        " n deny · End go to the end · Esc stop",
    ]
    usual = look(dialog(event), size=(80, 24)).split("\n")
    assert sum(" old " in row or " new " in row for row in usual) == 19
    assert usual[-2] == " ❯ y Allow once · a Always allow · n Deny · w Deny and say why · … 2 more"
    assert "   6 Allow all edits from now on" in look(dialog(event), size=(120, 40)), "on a large screen as a list"


def test_folded_choices_unfold_to_choose_and_fold_again_to_read() -> None:
    event = replace(TWO_HUNKS, display={**TWO_HUNKS.display, "diff": LONG_DIFF})

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "end")
        assert shown(host)[-2] == " ❯ y Allow once · n Deny · ↑↓ 4 more"
        await press(pilot, "down")
        assert " ❯ 2 Always allow  ‹\u00a0this\u00a0session\u00a0›" in shown(host)
        assert "   3 Deny" in shown(host)
        assert shown(host)[-1].endswith("Esc stop")
        await press(pilot, "pageup")
        assert shown(host)[-2] == " ❯ a Always allow · n Deny · ↑↓ 4 more"
        row = host.screen.query_one("#foot").region.y + 1
        await pilot.click(offset=(32, row))
        await settled(pilot)
        assert "   3 Deny" in shown(host)
        await press(pilot, "home w n o enter")
        assert host.answer == Answer("deny", message="no")

    play(dialog(event), script, (40, 10))


def test_the_question_covers_only_the_rows_it_needs_and_the_transcript_stays_above() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        rows = [strip.text for strip in host.screen._compositor.render_strips()]
        assert len(rows) == 40
        assert not any("above" in row for row in rows[-19:])
        sheet = host.screen.query_one("#sheet").region
        assert (sheet.x, sheet.width, sheet.bottom) == (0, 100, 40)
        assert host.screen.styles.background.a == 0

    play(dialog(), script, (100, 40))


@pytest.mark.parametrize("event", [COMMAND, TWO_HUNKS], ids=["command", "edit"])
def test_all_choices_are_numbered_without_gaps_at_every_size(event: PermissionRequested) -> None:
    digits = "1234567" if event is TWO_HUNKS else "12345"

    async def script(pilot: Pilot[None], host: Host) -> None:
        for width, height in ((120, 40), (80, 24), (40, 10)):
            await pilot.resize_terminal(width, height)
            await settled(pilot)
            await press(pilot, "end down")
            numbers = re.findall(r"^ [ ❯] (\d) ", "\n".join(shown(host)), re.MULTILINE)
            assert "".join(numbers) == digits
            await press(pilot, "home")

    play(dialog(event), script)


def test_below_the_minimum_size_the_marked_choice_is_visible() -> None:
    for size in ((30, 8), (20, 5), (10, 3), (3, 2), (1, 1)):
        seen = look(dialog(EDIT), "down down down down", size=size)
        assert "❯" in seen or size[0] < 10


def test_all_of_a_long_command_can_be_read() -> None:
    words = [f"word{number}" for number in range(400)]
    event = asked("Bash", {"command": "echo " + " ".join(words)}, display={"kind": "command"})
    seen: set[str] = set()

    async def script(pilot: Pilot[None], host: Host) -> None:
        for _page in range(18):
            seen.update(" ".join(shown(host)).split())
            await press(pilot, "pagedown")
        assert "↑" in " ".join(shown(host))
        await press(pilot, "home")
        assert any("$ echo word0" in row for row in shown(host))
        await press(pilot, "end")
        assert any("No rule allows it" in row for row in shown(host))

    play(dialog(event), script)
    assert set(words) <= seen


def test_a_line_break_in_a_command_does_not_look_like_a_wrapped_line() -> None:
    command = "echo one two three four five six seven eight nine ten eleven twelve\nrm x  "
    text = look(dialog(asked("Bash", {"command": command}, display={"kind": "command"})), size=(60, 20))
    assert " 1 echo one two three four five six seven eight nine ten\n" in text
    assert "\n   eleven twelve\n 2 rm x··\n" in text


def test_a_tool_without_a_preview_shows_its_whole_input() -> None:
    event = asked("mcp__x__y", {"title": "日本語 🎉", "body": "one\ntwo", "many": [1, {"a": None}], "n": 3})
    text = look(dialog(event))
    assert "Use mcp__x__y?" in text
    same = asked("Write", {"file_path": "a", "content": "x"}, display={"kind": "diff", "path": "a", "diff": ""})
    assert "Only line endings would change" in look(dialog(same))
    for row in (" title: 日本語 🎉\n", " body:\n 1 one\n 2 two\n", ' many: [1, {"a": null}]\n', " n: 3\n"):
        assert row in text


def test_an_address_is_shown_with_its_host_and_a_private_network_warning() -> None:
    display = {"kind": "fetch", "url": "http://10.0.0.1/a", "host": "10.0.0.1", "private": True, "prompt": "the title"}
    text = look(dialog(asked("WebFetch", {"url": "x", "prompt": "y"}, display=display)))
    assert "Fetch this address?" in text
    assert "http://10.0.0.1/a" in text
    assert "! This address is in your own network." in text
    assert "to find out the title" in text


def test_a_very_long_text_is_laid_out_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcli.tui.screens.page.LONG", 4_000)
    event = asked("mcp__x__y", {"text": "\n".join(f"row {number}" for number in range(600))})

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "end")
        assert any("row 599" in row for row in shown(host))

    play(dialog(event), script)


def test_copying_gives_the_command_without_wrapping() -> None:
    command = "echo " + "word " * 30 + "日本語 end"
    event = asked("Bash", {"command": command}, display={"kind": "command"})

    async def script(pilot: Pilot[None], host: Host) -> None:
        body = host.screen.query_one(Scroller)
        rows = next(place for place, row in enumerate(shown(host)) if "end" in row)
        copied = body.get_selection(Selection(Offset(0, 0), Offset(200, rows - 1)))
        assert copied is not None
        assert copied[0] == command
        part = body.get_selection(Selection(Offset(2, 0), Offset(6, 0)))
        assert part is not None
        assert part[0] == "echo"

    play(dialog(event), script, (50, 24))


# ------------------------------------------------------------------------------------------------------ answers


def test_marking_always_scrolls_to_the_rules() -> None:
    event = asked("Bash", {"command": "x\n" * 100}, suggestions=["Bash(one)", "Bash(two)"], display={"kind": "command"})
    text = look(dialog(event), "end home down")
    assert "+ Bash(one)" in text
    assert "+ Bash(two)" in text


def test_always_is_not_offered_without_rules_and_the_reason_is_shown() -> None:
    event = asked("Bash", {"command": "x"}, display={"kind": "command"})
    text = look(dialog(event))
    assert " ❯ 1 Allow once\n     no rule can cover this call; you are asked each time\n   2 Allow once and say" in text
    assert "   3 Deny\n   4 Deny and say what to do instead\n" in text
    assert answers("a", "2 o k enter", "3", event=event) == [OPEN, Answer("allow", message="ok"), Answer("deny")]


def test_all_edits_can_be_allowed_from_now_on() -> None:
    assert "6 Allow all edits from now on (switches to accept edits mode)" in look(dialog(EDIT))
    assert answers("6", event=EDIT) == [Answer("allow", mode=PermissionMode.ACCEPT_EDITS)]
    by_rule = replace(EDIT, cause="it matches a rule", self_evident=False)
    assert "accept edits" not in look(dialog(by_rule)), "the rule asks in that mode too"
    assert answers("6", "e", event=by_rule) == [OPEN, OPEN]


def test_the_wheel_scrolls_and_the_number_of_waiting_questions_may_change() -> None:
    event = asked("Bash", {"command": "x\n" * 200}, display={"kind": "command"})

    async def script(pilot: Pilot[None], host: Host) -> None:
        body = host.screen.query_one(Scroller)
        assert body.hidden[0] == 0
        for _turn in range(3):
            body.post_message(events.MouseScrollDown(body, 5, 5, 0, 1, 0, False, False, False))
        await settled(pilot)
        assert body.hidden[0] > 0
        assert any("more lines: scroll to the end to allow" in row for row in shown(host))
        assert isinstance(host.screen, PermissionDialog)
        host.screen.show_waiting(3)
        await settled(pilot)
        assert shown(host)[0].endswith(" 3 more questions after this ─")

    play(dialog(event), script)


def test_text_in_the_body_can_be_found() -> None:
    event = asked(
        "Bash", {"command": "\n".join(f"echo {number}" for number in range(200))}, display={"kind": "command"}
    )

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "/ e c h o space 1 9")
        assert any("1 of 11" in row for row in shown(host))
        await press(pilot, "enter down up")
        assert any("2 of 11" in row for row in shown(host))
        assert any("echo 190" in row for row in shown(host))
        await press(pilot, "escape")
        assert any("❯ y Allow once" in row for row in shown(host))
        await press(pilot, "escape")

    assert play(dialog(event), script).answers == [None]


@pytest.mark.parametrize("first", ["/", "ctrl+f", "-", "?", "9", "+"])
def test_letters_after_a_character_that_selects_nothing_do_not_answer(first: str) -> None:
    texts = (f"{first} =yaml enter", f"{first} =add-dir space x enter")
    assert answers(*texts, event=EDIT) == [OPEN, OPEN]


def test_punctuation_that_selects_nothing_begins_the_prompt() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "=-yes")
        assert host.prompt == "-yes"

    assert play(dialog(EDIT), script).answers == []


RULES = ("Bash(npm run build)", "Bash(rm -rf dist)")


def always(place: SaveTo) -> Answer:
    return Answer("allow", rules=RULES, save_to=place)


def test_keys_give_the_answers_that_are_shown() -> None:
    expected: dict[str, Answer | str | None] = {
        **dict.fromkeys(("enter", "1", "y", "down up enter", "5 enter"), Answer("allow")),
        **dict.fromkeys(("n", "3", "up up up enter", "4 enter"), Answer("deny")),
        **dict.fromkeys(("2", "a", "tab tab tab 2", "right 2", "down left enter"), always("session")),
        "tab 2": always("local"),
        **dict.fromkeys(("down tab tab enter", "shift+tab 2"), always("user")),
        "4 =use space =make enter": Answer("deny", message="use make"),
        "t =use enter": Answer("allow", message="use"),
        "t a escape | t b enter": Answer("allow", message="ab"),
        "4 a b escape | 4 c enter": Answer("deny", message="abc"),
        "4 escape": OPEN,
        "escape": None,
    }
    assert dict(zip(expected, answers(*expected), strict=True)) == expected


# --------------------------------------------------------------------------------------- unintended answers


SPELL = [(0.3, key, OPEN, "yes 1"[: number + 1], "") for number, key in enumerate(("y", "e", "s", "space"))]
ALLOW, DENY = Answer("allow"), Answer("deny")


@pytest.mark.parametrize(
    ("typed", "draft", "steps"),
    [
        (
            0.0,
            "",
            [
                *SPELL,
                (0.3, "1", OPEN, "yes 1", " (paused while you type)"),
                (0.39, "enter", OPEN, "yes 1\n", ""),
                (0.5, "down", OPEN, "yes 1\n", "Enter confirm · Esc stop"),
                (0.0, "n", DENY, "yes 1\n", ""),
            ],
        ),
        (99.5, "", [(0.5, "y", OPEN, "y", ""), (0.9, "y", ALLOW, "y", "")]),
        (99.9, "use line ", [(0.0, "3", OPEN, "3", "")]),
        (
            99.9,
            "",
            [(0.0, "3 enter space 3", OPEN, "", " Too early: press the key again"), (0.9, "3", DENY, "", "")],
        ),
        (
            0.0,
            "text",
            [
                (
                    5.0,
                    "",
                    OPEN,
                    "",
                    " Tab where to save · typing goes to your prompt · Enter confirm · Esc stop\n ❯ text",
                ),
                (0.0, "y e s enter", OPEN, "yes\n", " To your prompt · ↑↓ and Enter answer\n ❯ text"),
                (5.0, "3 enter", OPEN, "yes\n3\n", ""),
                (5.0, "enter", ALLOW, "yes\n3\n", ""),
            ],
        ),
    ],
    ids=["typing as it opens", "typed just before", "a digit in a sentence", "an early answer", "an unfinished prompt"],
)
def test_what_is_typed_for_the_prompt_neither_answers_nor_gets_lost(
    typed: float, draft: str, steps: list[tuple[float, str, Any, str, str]]
) -> None:
    clock = Clock()
    dialog = timed(PermissionDialog(ask_permission(COMMAND)), clock)
    dialog.typed, dialog.draft = lambda: typed, lambda: draft

    async def script(pilot: Pilot[None], host: Host) -> None:
        for seconds, keys, answer, prompt, last in steps:
            clock.now += seconds
            await press(pilot, keys)
            assert (host.answers[0] if host.answers else OPEN, host.prompt) == (answer, prompt)
            assert "\n".join(shown(host)).endswith(last), keys

    play(dialog, script)


def test_pasted_text_goes_to_the_prompt() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        host.post_message(events.Paste("1\nyes"))
        await settled(pilot)
        await settled(pilot)
        assert host.answers == []
        assert host.prompt == "1\nyes"

    play(dialog(), script)


# -------------------------------------------------------------------------------------------------- hunk review


def test_hunks_can_be_reviewed_and_esc_comes_back_without_effect(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("def head(text):\n    return text[:1]\n# end\n")

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "h")
        assert isinstance(host.screen, HunkReview)
        screen = "\n".join(strip.text for strip in host.screen._compositor.render_strips())
        assert "Which of these hunks?" in screen
        assert "Make this change?" not in screen
        assert screen.count("❯") == 1
        await press(pilot, "n escape")
        assert isinstance(host.screen, PermissionDialog)
        assert shown(host)[0].startswith("─── Make this change?")
        assert any("❯ 7 Review hunk by hunk" in row for row in shown(host))
        assert host.answers == []
        await press(pilot, "h")
        await press(pilot, "n enter")
        assert host.answer.behavior == "deny"
        assert "rejected it" in host.answer.message

    play(dialog(TWO_HUNKS, cwd=tmp_path), script)


def test_a_change_of_one_hunk_is_not_offered_for_review() -> None:
    assert "hunk" not in look(dialog(EDIT))
    new_file = {"kind": "diff", "path": "a", "diff": "@@ -0,0 +1,2 @@\n+one\n+two"}
    assert "hunk" not in look(dialog(asked("Write", {"file_path": "a", "content": "one\ntwo\n"}, display=new_file)))
    cut = {**EDIT.display, "truncated": True}
    assert "7 Review hunk by hunk" in look(dialog(replace(EDIT, display=cut)), "end")


def test_keys_pressed_right_after_the_answer_close_nothing_else() -> None:
    clock = Clock()
    opened = timed(PermissionDialog(ask_permission(COMMAND)), clock)

    async def script(pilot: Pilot[None], host: Host) -> None:
        clock.now += 5
        for key in ("1", "1", "a", "b"):
            opened.post_message(events.Key(key, key))
        await settled(pilot)
        assert len(host.screen_stack) == 1

    assert play(opened, script).answer == Answer("allow")


def test_a_letter_that_selects_nothing_begins_a_prompt_and_the_next_ones_continue_it() -> None:
    dialog = calm(PermissionDialog(ask_permission(COMMAND)))

    async def script(pilot: Pilot[None], host: Host) -> None:
        dialog.draft = lambda: host.prompt
        await press(pilot, "p l e a s e")
        assert (host.answers, host.prompt) == ([], "please")
        dialog.settle()
        await settled(pilot)
        assert shown(host)[-1] == " ❯ please"

    play(dialog, script)


def test_a_second_question_may_come_before_the_dialog_of_the_first_is_composed() -> None:
    first, second = (timed(PermissionDialog(ask_permission(COMMAND)), Clock()) for _ in range(2))

    async def script(pilot: Pilot[None], host: Host) -> None:
        host.push_screen(second, host.answers.append)
        second.show_waiting(1)
        await settled(pilot)
        assert "1 more question after this" in shown(host)[0]

    play(first, script, size=(100, 30))
