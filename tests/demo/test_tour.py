"""The steps of the tour: each only while it makes sense."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from textual.pilot import Pilot

from agentcli.agent.loop.wording import INTERRUPTED
from agentcli.assemble import Options
from agentcli.demo import words
from agentcli.demo.tour import LEAVE, Tour, TourStop
from agentcli.tui.app import AgentApp
from agentcli.tui.start import Start
from agentcli.tui.startup.preferences import load_preferences
from tests.support.scripts import call, provider_on, reply, transport_for


class Project:
    fixed = False


def ended_with(text: str) -> Any:
    return cast(Any, SimpleNamespace(messages=[SimpleNamespace(text=text)]))


def lines(tour: Tour, project: Project) -> list[str]:
    """What Enter sends, one after the other, where everything works."""
    sent = []
    while (stop := tour.next()) is not LEAVE and len(sent) < 20:
        sent.append(stop.line)
        tour.sent(stop.line)
        project.fixed = {"fix": True, "undo": False, "redo": True}.get(stop.name, project.fixed)
        tour.look(ended_with(INTERRUPTED if stop.name == "talk" else "fine"))
    return sent


def test_all_steps_come_in_order() -> None:
    project = Project()
    tour = Tour(lambda: project.fixed)
    commands = ["/effort high", "/compact", "/undo", "/redo"]
    assert lines(tour, project) == [words.FIX, words.TALK, words.STEER, *commands, words.GOODBYE]
    assert tour.next().line == "/exit"


def test_after_a_finished_answer_no_steering_is_suggested() -> None:
    tour = Tour(lambda: True)
    tour.sent(words.TALK)
    tour.look(ended_with("the end of a long answer"))
    assert tour.next().line == "/effort high"


def test_any_prompt_after_an_interruption_is_the_steering() -> None:
    tour = Tour(lambda: True)
    tour.sent(words.TALK)
    tour.look(ended_with(INTERRUPTED))
    assert tour.next().line == words.STEER
    tour.sent("shorter!")
    tour.look(ended_with("fine"))
    assert tour.next().line == "/effort high"


def test_a_fix_refused_twice_is_not_offered_again_and_there_is_nothing_to_undo() -> None:
    project = Project()
    tour = Tour(lambda: project.fixed)
    for line in (words.FIX, words.FIX_AGAIN):
        assert tour.next().line == line
        tour.sent(line)
    left = []
    while (stop := tour.next()) is not LEAVE:
        left.append(stop.line)
        tour.sent(stop.line)
    assert left == [words.TALK, "/effort high", "/compact", words.GOODBYE]


def test_completed_steps_are_skipped_and_other_lines_change_nothing() -> None:
    tour = Tour(lambda: True)
    for line in ("/effort low", "hello", "!ls", "/help", "/compact the tests", words.TALK):
        tour.sent(line)
    assert tour.next().line == "/undo"


def test_commands_without_anything_to_act_on_do_not_count() -> None:
    project = Project()
    tour = Tour(lambda: project.fixed)
    for line in ("/undo", "/redo", "/compact"):
        tour.sent(line)
    assert tour.next().line == words.FIX
    assert lines(tour, project)[4:7] == ["/compact", "/undo", "/redo"]


def test_when_redo_does_not_help_the_fix_is_made_again() -> None:
    project = Project()
    project.fixed = True
    tour = Tour(lambda: project.fixed)
    for line in (words.FIX, words.TALK, "/effort high", "/compact", "/undo"):
        tour.sent(line)
    project.fixed = False
    assert tour.next().line == "/redo"
    tour.sent("/redo")
    assert tour.next().line == words.FIX_AGAIN
    project.fixed = True
    assert tour.next().line == words.GOODBYE


Play = Callable[[Pilot[int], AgentApp], Awaitable[None]]


class ThreeStops:
    """Goes on to the next stop when one was sent, and to /exit after the last."""

    welcome = ("A tour of three",)

    def __init__(self) -> None:
        self.all: list[str] = []
        self.left = [TourStop("one", "first"), TourStop("two", "second", "now the second"), TourStop("three", "third")]

    def sent(self, text: str) -> None:
        self.all.append(text)
        self.left = [stop for stop in self.left if stop.line != text]

    def look(self, engine: object) -> None:
        pass

    def next(self) -> TourStop:
        return self.left[0] if self.left else TourStop("leave", "/exit")


def play(folder: Path, script: Play | None, *replies: Any, speed: float = 0.0) -> ThreeStops:
    """Without a script: until the app ends by itself."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    (folder / "file.txt").write_text("old\n")
    tour = ThreeStops()
    start = Start(
        make_options=lambda: Options(
            cwd=folder,
            environ=environ,
            interactive=True,
            provider=provider_on(transport_for(*replies)),
            model="claude-sonnet-5-5",
            settings='{"sandbox": {"mode": "off"}}',
        ),
        cwd=folder,
        environ=environ,
        tour=tour,
        playing=speed,
    )
    app = AgentApp(start, load_preferences(folder, environ, None, "dark"))

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            if script is None:
                await until(pilot, lambda: app._exit)
                return
            await until(pilot, lambda: app.chat.session.engine is not None)
            await script(pilot, app)
            await app.chat.session.close()

    asyncio.run(run())
    return tour


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    for _look in range(2_000):
        if holds():
            return
        await pilot.pause(0.01)
    raise AssertionError("\n".join(rows(pilot.app)))


def rows(app: Any) -> list[str]:
    strips = app.screen._compositor.render_strips(app.size)
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def stands(app: AgentApp, line: str) -> Callable[[], bool]:
    """Whether this stands ready in the box."""
    return lambda: f"❯ {line}  ↵ Enter" in rows(app)


def test_the_next_line_is_suggested_in_the_empty_box_and_enter_sends_it(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, stands(app, "first"))
        await until(pilot, lambda: "A tour of three" in "\n".join(rows(app)))
        assert app.chat.prompt.is_empty
        await pilot.press("enter")
        await until(pilot, stands(app, "second"))
        for text in ("❯ first", "one is done", "now the second"):
            await until(pilot, lambda text=text: text in "\n".join(rows(app)))  # type: ignore[misc]

    assert play(tmp_path, script, "one is done").all == ["first"]


def test_typed_text_replaces_the_suggestion_and_is_sent_alone(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, stands(app, "first"))
        await pilot.press("h", "i")
        assert app.chat.prompt.draft.text == "hi"
        await pilot.press("backspace", "backspace")
        await until(pilot, stands(app, "first"))
        await pilot.press("h", "i", "enter")
        await until(pilot, lambda: not app.chat.session.busy and stands(app, "first")())

    assert play(tmp_path, script, "hello").all == ["hi"]


def test_enter_during_work_does_not_send_the_suggestion(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, stands(app, "first"))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not app.chat)
        app.chat.prompt.act("send")
        assert app.chat.session.busy

    edit = call("Edit", file_path="file.txt", old_string="old", new_string="new")
    assert play(tmp_path, script, reply(call("Read", file_path="file.txt"), edit), "done").all == ["first"]


def test_in_play_mode_the_guide_types_answers_and_quits_automatically(tmp_path: Path) -> None:
    read, write = call("Read", file_path="file.txt"), call("Write", file_path="file.txt", content="new\n")
    tour = play(tmp_path, None, reply(read), reply(write), "changed", "two", "three", speed=50)
    assert tour.all == ["first", "second", "third", "/exit"]
    assert (tmp_path / "file.txt").read_text() == "new\n"
