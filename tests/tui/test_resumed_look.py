"""A resumed session looks as it did: one of everything in the app, and then what a new process shows of the file.

Truly of the moment, and therefore not in the comparison: the welcome at the top of a new session, the activity line,
the prompt box, the status line, dialogs, and live durations of what still runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from agentcli.core.events import Event, ToolFinished
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.drafts import Draft, PastedPiece
from agentcli.interactive.view import Question
from agentcli.session.load import load_session
from agentcli.tui.app import AgentApp
from agentcli.tui.model import WELCOME, ToolItem
from tests.support.scripts import call, fails, pause, reply, say, think
from tests.tui.test_app import PARSER, Desk, idle, until

SIZE = (100, 200)
PLAN = "# Plan\n\n1. Look\n2. Change"
QUESTIONS = [
    {
        "question": "Which way?",
        "header": "Way",
        "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
        "multiSelect": False,
    }
]
TODOS = [
    {"content": "Look", "status": "completed", "activeForm": "Looking"},
    {"content": "Change", "status": "in_progress", "activeForm": "Changing"},
]
REPLIES: list[Any] = [
    reply(
        think("First I look at the parser."),
        "I look.",
        call("Read", file_path="parser.py"),
        call("Glob", pattern="*"),
        call("Edit", file_path="parser.py", old_string="end - 1", new_string="end"),
        call("Write", file_path="new.py", content="one = 1\ntwo = 2\n"),
        call("Nothing", what="x"),
        call("Bash", command="echo out; exit 3"),
        call("Bash", command="mkdir fine"),
        call("TodoWrite", todos=TODOS),
        call("AskUserQuestion", questions=QUESTIONS),
    ),
    "A table:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nand `code`.",
    reply(call("ExitPlanMode", plan=PLAN)),
    "You do not want it.",
    fails(529, "busy", "overloaded_error", headers={"retry-after": "0"}),
    "It went well in the end.",
    reply(say("on and on and on", chunk=3), pause(30)),
    reply("I run it.", call("Bash", command="echo started; sleep 30")),
    fails(400, "no such thing", "invalid_request_error"),
    reply(say("old work goes on", chunk=3), pause(30)),
    "Something else then.",
]


def answer_for(event: Question) -> Answer:
    """Denies a file and a plan, answers a question, allows everything else."""
    if event.name == "Write":  # type: ignore[union-attr]
        return Answer("deny", message="not now")
    if event.name == "ExitPlanMode":  # type: ignore[union-attr]
        return Answer("deny", message="shorter")
    if event.name == "AskUserQuestion":  # type: ignore[union-attr]
        return Answer("allow", updated_input={"questions": QUESTIONS, "answers": {"Which way?": "Left"}})
    if event.name == "Edit":  # type: ignore[union-attr]
        return Answer("allow", accepted_hunks=(1, 2))
    if event.input.get("command") == "mkdir fine":  # type: ignore[union-attr]
        return Answer("allow", rules=("Bash(mkdir fine)",), message="as you like")
    return Answer("allow")


async def work(pilot: Pilot[int], app: AgentApp) -> None:
    """One of everything."""
    session = app.chat.session
    app.chat.ask = lambda event, waiting: pilot.app.call_later(  # type: ignore[method-assign]
        session.answer, event.request_id, answer_for(event)
    )

    async def send(text: str) -> None:
        app.chat.send(Draft(text))
        await idle(pilot, app)

    async def stopped(text: str, when: Callable[[], bool]) -> None:
        app.chat.send(Draft(text))
        await until(pilot, when)
        await pilot.press("escape")
        await idle(pilot, app)

    def text() -> str:
        return app.chat.transcript.source_text()

    await send("/status")
    await send("!echo before")
    chip = "[Pasted #1: 3 lines]"
    app.chat.send(Draft(f"look at {chip}", {chip: PastedPiece("one\ntwo\nthree\n")}))
    await idle(pilot, app)
    await send("!echo mine; exit 4")
    await send("/effort high")
    await send("/nonsense")
    await send("/undo")
    await send("/mode plan")
    await send("plan it")
    await send("/mode default")
    await send("try again")
    await stopped("talk", lambda: "on and" in text())
    await stopped("run it", lambda: any(_runs(item) for item in app.chat.transcript.items()))
    await stopped("!echo shell; sleep 30", lambda: "shell" in _last_output(app))
    await send("break")
    session.note("A file was changed by another program.")
    app.chat.send(Draft("old work"))
    await until(pilot, lambda: "old work goes" in text())
    app.chat.send(Draft("do something else"), at_once=True)
    await idle(pilot, app)


def _runs(item: object) -> bool:
    return isinstance(item, ToolItem) and item.name == "Bash" and item.status == "running"


def _last_output(app: AgentApp) -> str:
    blocks = [block for block in app.chat.transcript.blocks() if isinstance(block.item, ToolItem)]
    return blocks[-1].source


async def transcript_text(pilot: Pilot[int], app: AgentApp) -> str:
    """All rows of the transcript, without the welcome."""
    widget = app.chat.transcript
    for _round in range(3):
        widget.frame()
        await pilot.pause()
    lines = ["".join(segment.text for segment in strip).rstrip() for strip in widget.render_lines(widget.size.region)]
    first = next(number for number, line in enumerate(lines) if line.startswith("❯"))
    return "\n".join(lines[first:]).strip("\n")


async def looks(pilot: Pilot[int], app: AgentApp) -> list[str]:
    """Folded, and with the details that Ctrl+O opens."""
    folded = await transcript_text(pilot, app)
    await pilot.press("ctrl+o")
    return [folded, await transcript_text(pilot, app)]


LOST_RIGHTS = "· Not restored from the earlier session: session rule Bash(mkdir fine). The mode is now default."


def test_a_resumed_session_looks_as_it_did_and_outcomes_are_typed_fields_of_its_file(tmp_path: Path) -> None:
    before: list[str] = []
    after: list[str] = []
    ids: list[str] = []
    paths: list[Path] = []

    async def live(pilot: Pilot[int], app: AgentApp) -> None:
        await work(pilot, app)
        before.extend(await looks(pilot, app))
        engine = app.chat.session.engine
        assert engine is not None
        assert engine.session.store.path is not None
        ids.append(engine.session_id)
        paths.append(engine.session.store.path)

    async def again(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: not any(item.id == WELCOME for item in app.chat.transcript.items()))
        after.extend(await looks(pilot, app))

    desk = Desk(tmp_path, *REPLIES)
    desk.play(live, SIZE)
    check_outcomes_are_typed(paths[0])
    (desk.project / "parser.py").write_text(PARSER)
    Desk(tmp_path, resume=ids[0]).play(again, SIZE)
    for shown, expected in zip(after, before, strict=True):
        assert shown.removesuffix(LOST_RIGHTS).rstrip() == expected.rstrip()
        assert shown.endswith(LOST_RIGHTS)
    folded, details = before
    for words in (
        "[Pasted #1: 3 lines]",
        "Thought for",
        "you accepted 1 of 2 hunks",
        "exit code 3",
        "! echo mine; exit 4",
        "Question: Which way? · 1 answer",
        "→ Left",
        "⊘ Plan for approval · denied",
        "2. Change",
        "⊘ Write new.py · denied",
        "return text[0 : end]",
        "The prompt cache broke at the effort",
        "The mode is plan: ",
        "There is no command /nonsense",
        "529 overloaded, attempt 1",
        "Interrupted.",
        "Allowed from now on (for this session): Bash(mkdir fine)",
        "A file was changed by another program.",
        "no such thing",
        "Something else then.",
        "The effort is high.",
    ):
        assert words in folded, (words, folded)
    for words in ("First I look at the parser.", "│ 1  def head(text, end):"):
        assert words in details, (words, details)


def test_shell_lines_beside_a_submission_are_shown_again(tmp_path: Path) -> None:
    """One that ends while the model works, and one that continues after an interruption."""
    before: list[str] = []
    after: list[str] = []
    ids: list[str] = []

    def outputs(app: AgentApp) -> str:
        return "".join(block.source for block in app.chat.transcript.blocks() if isinstance(block.item, ToolItem))

    async def live(pilot: Pilot[int], app: AgentApp) -> None:
        app.chat.send(Draft("run it"))
        items = app.chat.transcript.items
        await until(pilot, lambda: any(_runs(item) for item in items()))
        app.chat.send(Draft("!echo quick; exit 5"))
        await until(pilot, lambda: any(isinstance(item, ToolItem) and item.status == "failed" for item in items()))
        app.chat.send(Draft("!echo waiting; while ! [ -e go ]; do sleep 0.02; done; echo gone"))
        await until(pilot, lambda: "waiting" in outputs(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.session.busy)
        (desk.project / "go").touch()
        await until(pilot, lambda: not any(isinstance(item, ToolItem) and item.status == "running" for item in items()))
        await idle(pilot, app)
        before.extend(await looks(pilot, app))
        assert app.chat.session.engine is not None
        ids.append(app.chat.session.engine.session_id)

    async def again(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: not any(item.id == WELCOME for item in app.chat.transcript.items()))
        after.extend(await looks(pilot, app))

    work = reply("I run it.", call("Bash", command="echo started; sleep 30"))
    desk = Desk(tmp_path, work, permission_mode=PermissionMode.BYPASS)
    desk.play(live, SIZE)
    Desk(tmp_path, resume=ids[0], permission_mode=PermissionMode.BYPASS).play(again, SIZE)
    for words in ("! echo quick; exit 5", "exit code 5", "gone"):
        assert words in before[0], (words, before[0])
    assert after == before


def check_outcomes_are_typed(path: Path) -> None:
    history = load_session(path).history
    assert [one.accepted_hunks for one in history if isinstance(one, ToolFinished) and one.accepted_hunks] == [[1, 2]]
    found = outcomes(history)
    assert {("Read", "done"), ("Write", "denied"), ("Nothing", "failed"), ("ExitPlanMode", "denied")} <= found
    assert {("Bash", "failed"), ("Bash", "done"), ("Bash", "interrupted"), ("!", "failed"), ("!", "done")} <= found


def outcomes(history: list[Event]) -> set[tuple[str, str]]:
    return {(event.name, event.outcome) for event in history if isinstance(event, ToolFinished)}
