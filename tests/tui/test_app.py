"""The whole app with a real engine on a script, headless: the screen at every size, and what keys do."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual._context import visible_screen_stack
from textual.pilot import Pilot

from agentcli.assemble import Options
from agentcli.commands import status
from agentcli.core.permission import PermissionMode
from agentcli.doctor.finding import Finding
from agentcli.interactive.drafts import Draft
from agentcli.tui import resume
from agentcli.tui.app import AgentApp
from agentcli.tui.model import Item, PromptItem
from agentcli.tui.screens.hunks import HunkReview
from agentcli.tui.screens.permission import PermissionDialog
from agentcli.tui.start import Start
from agentcli.tui.startup.preferences import load_preferences
from tests.support.scripts import call, pause, provider_on, reply, say, think, transport_for

pytestmark = pytest.mark.anyio

Play = Callable[[Pilot[int], AgentApp], Awaitable[None]]

PARSER = "def head(text, end):\n    return text[0 : end - 1]\n"
EDIT = {"file_path": "parser.py", "old_string": "end - 1", "new_string": "end"}


class Desk:
    """A project, a script, and the app on both."""

    def __init__(self, folder: Path, *replies: Any, **options: Any) -> None:
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        (self.project / "parser.py").write_text(PARSER)
        self.transport = transport_for(*replies)
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environ |= options.pop("variables", {})
        theme = options.pop("theme", "dark")
        given = {
            "cwd": self.project,
            "environ": environ,
            "interactive": True,
            "provider": provider_on(self.transport),
            "permission_mode": PermissionMode.DEFAULT,
            "model": "claude-sonnet-5-5",
            "settings": '{"sandbox": {"mode": "off"}}',
        }
        start = Start(
            make_options=lambda: Options(**{**given, **options}),  # type: ignore[arg-type]
            cwd=self.project,
            environ=environ,
            prompt=options.pop("prompt", ""),
        )
        self.app = AgentApp(start, load_preferences(self.project, environ, None, theme))

    def play(self, script: Play, size: tuple[int, int] = (80, 24)) -> AgentApp:
        async def run() -> None:
            async with self.app.run_test(size=size) as pilot:
                await until(pilot, lambda: self.app.chat.session.engine is not None)
                await script(pilot, self.app)
                await self.app.chat.session.close()

        asyncio.run(run())
        return self.app


MAX_WAIT_SECONDS = 120.0
"""For what takes one second on an idle machine: a new theme parses all style sheets beside the imports of a start."""


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not holds() and time.monotonic() < deadline:
        await pilot.pause(0.01)
    assert holds(), "\n".join(rows(pilot.app))
    await pilot.pause()


async def idle(pilot: Pilot[int], app: AgentApp) -> None:
    await until(pilot, lambda: not app.chat.session.busy)
    app.chat.transcript.frame()
    await pilot.pause()


async def sends(pilot: Pilot[int], app: AgentApp, text: str) -> None:
    app.chat.prompt.insert(text)
    await pilot.press("enter")


def rows(app: Any) -> list[str]:
    """The screen as the user reads it."""
    size = app.size
    visible_screen_stack.set(app._background_screens)  # Textual does so before each frame: what is behind a dialog
    strips = app.screen._compositor.render_strips(size)
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def shown(app: AgentApp) -> str:
    return "\n".join(rows(app)).replace(str(app.preferences.cwd), "~/project")


def test_a_conversation_reads_like_this_and_is_on_the_screen_at_every_size(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for size in ((80, 24), (120, 40), (40, 10)):
            await pilot.resize_terminal(*size)
            await sends(pilot, app, "look around")
            await idle(pilot, app)
            text = shown(app)
            assert f"All is well in {size[0]} columns" in text
            assert rows(app)[-1].strip().startswith("sonnet-5-5"), size
            assert "❯" in text, size
            assert not app._exception
            if size == (80, 24):
                reads_like_this(rows(app))

    def reads_like_this(whole: list[str]) -> None:
        begin = whole.index("❯ look around")
        assert whole[begin : begin + 7] == [
            "❯ look around",
            "",
            "▸ Thought for 1 s",
            "",
            "◆ I look.",
            "",
            "✓ Glob * · 1 file",
        ]
        assert "◆ All is well in 80 columns, __init__.py too." in whole
        rule = "─" * 80
        assert whole[-4] == rule
        assert whole[-3].startswith("❯ Ask anything")
        assert whole[-2] == rule

    look = reply(think("hm"), "I look.", call("Glob", pattern="*"))
    answers = [f"All is **well** in {width} columns, __init__.py too." for width in (80, 120, 40)]
    Desk(tmp_path, look, answers[0], look, answers[1], look, answers[2]).play(script)


def test_a_closed_search_is_made_again_and_esc_folds_what_it_opened_unless_enter_chose_it(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "look around")
        await idle(pilot, app)
        await pilot.press("ctrl+f", *"well")
        await until(pilot, lambda: "1 of 1" in shown(app))
        await pilot.press("escape", "ctrl+f")
        await until(pilot, lambda: "Find well" in shown(app))
        assert "1 of 1" not in shown(app), "nothing is searched yet"
        await pilot.press("enter")
        await until(pilot, lambda: "1 of 1" in shown(app))
        assert "wrapped" not in shown(app)
        assert "Enter next · ↑ previous · Esc close" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: "wrapped · 1 of 1" in shown(app))
        await pilot.press("escape")
        app.chat.finder.open("well")
        await until(pilot, lambda: "1 of 1" in shown(app))
        await pilot.press("escape")
        for keys, stays in (((), False), (("down",), False), (("enter",), True)):
            await pilot.press("ctrl+f", "ctrl+u", *"needle")
            await until(pilot, lambda: "a needle" in shown(app))
            await pilot.press(*keys, "escape")
            await until(pilot, lambda: "Find" not in shown(app))
            app.chat.transcript.frame()
            await pilot.pause()
            assert ("a needle" in shown(app)) is stays, keys

    Desk(tmp_path, reply(think("first this\nthen a needle"), "All is well.")).play(script)


def test_earlier_prompts_are_searched_in_a_list_and_the_chosen_one_can_be_edited(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for text in ("run the tests again", "other", "tests?"):
            app.chat.prompt.history.add(Draft(text))
        app.chat.prompt.insert("half a")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.screen is not app.chat)
        await pilot.press(*"tes", "down", "enter")
        await until(pilot, lambda: app.chat.prompt.draft.text == "run the tests again")
        await pilot.press("ctrl+underscore")
        assert app.chat.prompt.draft.text == "half a"

    Desk(tmp_path).play(script)


def test_a_window_that_loses_its_focus_writes_the_draft_but_not_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(app.drafts, "_write", lambda _version, _draft: threads.append(threading.get_ident()))
            app.chat.prompt.insert("half a")
            app.post_message(events.AppBlur())
            await until(pilot, lambda: bool(threads))
        assert threading.get_ident() not in threads

    Desk(tmp_path).play(script)


def test_the_hint_of_the_key_that_quits_ends_with_a_paste(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        app.chat._leave("ctrl+c", "Ctrl+C")
        await until(pilot, lambda: "Ctrl+C again quits" in shown(app))
        app.chat.prompt.pasted("some text")
        assert app.chat.activity._hint == ""
        await until(pilot, lambda: "again quits" not in shown(app))

    Desk(tmp_path).play(script)


def test_a_digit_typed_too_early_at_a_question_neither_answers_nor_reaches_the_prompt(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "fix it")
        await until(pilot, lambda: len(app.screen_stack) > 2)
        guard = app.screen.guard  # type: ignore[attr-defined]
        guard.pause, guard._open = 1e9, False
        await pilot.press("3", "enter")
        assert app.chat.prompt.is_empty
        assert "press the key again" in shown(app)
        await pilot.press("o", "k")
        await until(pilot, lambda: " ❯ ok" in shown(app))
        assert app.chat.prompt.draft.text == "ok"
        await pilot.press("backspace", "backspace")
        await until(pilot, lambda: app.chat.prompt.is_empty)
        guard.pause = 0
        await pilot.press("3")
        await idle(pilot, app)
        assert app.chat.prompt.is_empty
        assert "denied by you" in shown(app)

    Desk(tmp_path, reply(call("Read", file_path="parser.py"), call("Edit", **EDIT)), "Well.").play(script, (40, 10))


def test_an_edit_is_asked_about_shown_and_made(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "fix it")
        await until(pilot, lambda: len(app.screen_stack) > 2)
        assert "Make this change?" in shown(app)
        await until(pilot, lambda: app.screen.guard._is_over())  # type: ignore[attr-defined]
        await pilot.press("1")
        await idle(pilot, app)
        assert "✓ Edit parser.py · +1 −1" in shown(app)

    desk = Desk(tmp_path, reply(call("Read", file_path="parser.py"), call("Edit", **EDIT)), "Fixed.")
    desk.play(script)
    assert "text[0 : end]" in (desk.project / "parser.py").read_text()


def test_esc_in_a_question_interrupts_gives_its_room_back_at_every_size_and_the_next_prompt_works(
    tmp_path: Path,
) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        for size in ((40, 10), (120, 40)):
            await pilot.resize_terminal(80, 24)
            await sends(pilot, app, "fix it")
            await until(pilot, lambda: app.chat.transcript.styles.padding.bottom > 0)
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.screen.size == size)
            await pilot.press("escape")
            assert "Interrupted" in shown(app), size
            await idle(pilot, app)
            assert app.chat.transcript.styles.padding.bottom == 0, size
            assert "Interrupted" in shown(app), size
        await sends(pilot, app, "never mind")
        await idle(pilot, app)
        assert "Fine." in shown(app)

    edit = call("Edit", **EDIT)
    desk = Desk(tmp_path, reply(call("Read", file_path="parser.py"), edit), reply(edit), "Fine.")
    desk.play(script)
    assert (desk.project / "parser.py").read_text() == PARSER


def test_during_a_stream_prompts_queue_above_the_box_up_withdraws_one_and_esc_is_confirmed_at_once(
    tmp_path: Path,
) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go")
        await until(pilot, lambda: "on and" in app.chat.transcript.source_text())
        assert app.chat.session.busy
        await sends(pilot, app, "and this")
        assert "and this" in shown(app)
        await pilot.press("up")
        assert app.chat.prompt.draft.text == "and this"
        await pilot.press("escape")
        assert "Interrupted" in shown(app), "before the next frame"
        await idle(pilot, app)

    Desk(tmp_path, reply(say("on and on and on", chunk=3), pause(30))).play(script)


def test_a_theme_is_applied_and_saved_and_esc_in_the_list_of_themes_returns_to_it(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "/theme nord")
        await until(pilot, lambda: app.theme == "nord")
        await until(pilot, lambda: "saved in" in shown(app))
        assert '"nord"' in settings.read_text()
        await sends(pilot, app, "/theme auto")
        await until(pilot, lambda: app.themes.active.setting == "auto")
        await until(pilot, lambda: shown(app).count("saved in") == 2)
        await sends(pilot, app, "/theme")
        await until(pilot, lambda: "● auto" in shown(app))
        await pilot.press("down")
        await until(pilot, lambda: app.themes.active.setting != "auto")
        await pilot.press("escape")
        await until(pilot, lambda: app.themes.active.setting == "auto")

    settings = tmp_path / ".config/agentcli/settings.json"
    Desk(tmp_path).play(script)


def test_open_questions_take_the_colours_of_another_theme(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        def colours() -> set[str]:
            """Those of the question, from its rule on."""
            visible_screen_stack.set(app._background_screens)
            strips = app.screen._compositor.render_strips(app.size)
            start = next(place for place, strip in enumerate(strips) if strip.text.startswith("───"))
            segments = [segment for strip in strips[start:] for segment in strip if segment.text.strip()]
            return {str(segment.style.color) for segment in segments if segment.style is not None}

        async def compare() -> None:
            app.themes.try_out("dark")
            await pilot.pause()
            dark = colours()
            app.themes.try_out("light")
            await pilot.pause()
            assert not dark & colours()

        await sends(pilot, app, "fix it")
        await until(pilot, lambda: isinstance(app.screen, PermissionDialog))
        await compare()
        app.screen.clock = lambda: math.inf  # type: ignore[attr-defined]
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, HunkReview) and bool(app.screen.hunks))
        await compare()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PermissionDialog))
        await pilot.press("escape")
        await idle(pilot, app)

    edit = call("Edit", file_path="long.py", old_string="end", new_string="stop", replace_all=True)
    desk = Desk(tmp_path, reply(call("Read", file_path="long.py")), reply(edit), "Done.")
    (desk.project / "long.py").write_text("end\n" + "pass\n" * 20 + "end\n")
    desk.play(script)


def test_clear_starts_a_new_session_and_resume_finds_the_old_one_which_is_continued_by_its_name(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "first words")
        await idle(pilot, app)
        session = app.chat.session
        old = session.engine.session_id if session.engine else ""
        await sends(pilot, app, "/clear")
        await until(pilot, lambda: session.engine is not None and session.engine.session_id != old)
        assert "first words" not in shown(app)
        await sends(pilot, app, f"/resume {old}")
        await until(pilot, lambda: session.engine is not None and session.engine.session_id == old)
        await until(pilot, lambda: "first words" in shown(app))
        await sends(pilot, app, "/rename parser")
        await until(pilot, lambda: "is now called parser" in shown(app))
        await sends(pilot, app, "/rename")
        await until(pilot, lambda: "This session is called parser" in shown(app) and not app.chat.prompt.draft.text)
        app.leave()
        await until(pilot, lambda: app.farewell.endswith("To continue this session: agentcli -r parser"))

    Desk(tmp_path, "An answer.").play(script)


def read_earlier_late(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A resumed session shows only its last prompt until this event is set."""
    may_finish, make_items = threading.Event(), resume.earlier_items

    def made_late(*arguments: Any) -> list[Item]:
        may_finish.wait(20)
        return make_items(*arguments)

    monkeypatch.setattr(resume, "RECENT_EVENTS", 1)
    monkeypatch.setattr(resume, "earlier_items", made_late)
    return may_finish


def test_a_long_session_is_shown_searched_and_left_on_the_terminal_whole_although_its_beginning_is_read_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_finish = read_earlier_late(monkeypatch)

    async def resume_with_its_end(pilot: Pilot[int], app: AgentApp) -> None:
        session = app.chat.session
        old = session.engine.session_id if session.engine else ""
        may_finish.clear()
        await sends(pilot, app, "/clear")
        await until(pilot, lambda: session.engine is not None and session.engine.session_id != old)
        await sends(pilot, app, f"/resume {old}")
        await until(pilot, lambda: "third words" in shown(app))
        assert "first words" not in shown(app)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        app.preferences = replace(app.preferences, exit_transcript="all")
        for words in ("first words", "second words", "third words"):
            await sends(pilot, app, words)
            await idle(pilot, app)
        await resume_with_its_end(pilot, app)
        await pilot.press("ctrl+f", *"fourth")
        await until(pilot, lambda: any(row.startswith(" Find fourth") and row.endswith("…") for row in rows(app)))
        may_finish.set()
        await until(
            pilot, lambda: any(row.startswith(" Find fourth") and row.endswith("no match") for row in rows(app))
        )
        prompts = [item.text for item in app.chat.transcript.items() if isinstance(item, PromptItem)]
        assert prompts == ["first words", "second words", "third words"]
        await pilot.press("escape")
        await until(pilot, lambda: "first words" in shown(app))
        await resume_with_its_end(pilot, app)
        app.leave()
        await pilot.pause()
        may_finish.set()
        while "third words" not in app.farewell:
            await asyncio.sleep(0)
        assert app.farewell.index("first words") < app.farewell.index("third words")

    Desk(tmp_path, "One.", "Two.", "Three.").play(script)


async def test_commands_work_while_the_app_is_still_starting(tmp_path: Path) -> None:
    desk, checked = Desk(tmp_path, "Done."), threading.Event()
    make_options = desk.app._start_with.make_options

    def make_late() -> Options:
        checked.wait(20)
        return make_options()

    desk.app._start_with = replace(desk.app._start_with, make_options=make_late)

    app = desk.app
    async with app.run_test(size=(80, 24)) as pilot:
        try:
            await sends(pilot, app, "/help")
            await until(pilot, lambda: "type to search" in shown(app))
            await pilot.press("escape")
            await sends(pilot, app, "/resume")
            await until(pilot, lambda: app.screen is not app.chat and "Resume" in shown(app))
            await pilot.press("escape")
            await sends(pilot, app, "/clear")
            await sends(pilot, app, "/config")
        finally:
            checked.set()
        await until(pilot, lambda: "sandbox.mode" in shown(app) and app.chat.session.engine is not None)
        await pilot.press("escape")
        await until(pilot, lambda: "New session." in shown(app))
        assert "✗" not in shown(app)
        await app.chat.session.close()


def test_a_terminal_below_the_minimum_size_is_reported_and_recovers(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await pilot.resize_terminal(19, 4)
        await pilot.pause()
        assert "too small" in shown(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "too small" not in shown(app)
        assert "❯" in shown(app)

    Desk(tmp_path).play(script)


def test_the_end_of_the_conversation_is_above_a_question_again_after_the_window_was_small(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "fix it")
        await until(pilot, lambda: app.screen.is_modal and "waits for your answer" in shown(app))
        for size in ((60, 16), (110, 34)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.screen.size == size)  # type: ignore[misc]
        await until(pilot, lambda: "waits for your answer" in shown(app))
        await pilot.press("escape")
        await idle(pilot, app)

    text = "\n\n".join(f"Paragraph {number}" for number in range(30))
    Desk(tmp_path, reply(say(text), call("Read", file_path="parser.py"), call("Edit", **EDIT))).play(script)


def test_the_rule_says_that_there_is_more_below_and_commands_go_there(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "hello")
        await idle(pilot, app)
        await pilot.press("ctrl+home")
        await until(pilot, lambda: not app.chat.transcript.following and "── ↓ end ──" in shown(app))
        await pilot.click("PromptRule", offset=(4, 0))
        await until(pilot, lambda: app.chat.transcript.following and "↓" not in shown(app))
        await pilot.press("ctrl+home")
        await until(pilot, lambda: not app.chat.transcript.following)
        await sends(pilot, app, "/theme nope")
        await until(pilot, lambda: "no nope.toml" in shown(app))

    Desk(tmp_path, reply(say("\n\n".join(f"Paragraph {number}" for number in range(40))))).play(script)


def test_the_active_task_is_in_the_activity_line_also_after_a_resume(tmp_path: Path) -> None:
    todos = [{"content": "Fix it", "activeForm": "Fixing the parser", "status": "in_progress"}]
    answer = reply("Wait", pause(3_600))

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go")
        await until(pilot, lambda: "Fixing the parser · Writing" in shown(app))
        await pilot.press("escape")
        await idle(pilot, app)
        assert "Fixing the parser · Writing" not in shown(app)

    async def again(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go on")
        await until(pilot, lambda: "Fixing the parser · Writing" in shown(app))
        await pilot.press("escape")
        await idle(pilot, app)

    Desk(tmp_path, reply(call("TodoWrite", todos=todos)), answer).play(script)
    Desk(tmp_path, answer, continue_latest=True).play(again)


def test_the_text_of_doctor_fits_the_window_also_after_it_was_resized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = " ".join(f"word{number}" for number in range(30))
    monkeypatch.setattr(status, "run_checks", lambda *_given, **_rest: [Finding("warn", "Terminal", words, words)])

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "/doctor")
        await idle(pilot, app)
        for width in (120, 60, 100):
            await pilot.resize_terminal(width, 40)
            await until(pilot, lambda: app.chat.transcript.size.width == width)  # noqa: B023
            app.chat.transcript.frame()
            await pilot.pause()
            begin = next(number for number, row in enumerate(rows(app)) if row.startswith("  warn  Terminal"))
            shown_rows = [row for row in rows(app)[begin : begin + 20] if "word" in row]
            assert {len(row) - len(row.lstrip()) for row in shown_rows[1:]} == {22, 24}, "below their column"
            assert all(len(row) > width - 12 for row in shown_rows[:1]), width
            assert " ".join(" ".join(shown_rows).split()).count(words.removeprefix("word0")) == 2

    Desk(tmp_path).play(script, (80, 40))
