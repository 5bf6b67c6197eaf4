"""What every front end does with the same events: the app, plain mode, headless text and stream-json.

A promise is written once and runs on all of them. What only one front end does is tested beside it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.text.plaintext import plain_line
from agentcli.headless.encode import encode_line
from agentcli.headless.notices import is_shown
from agentcli.headless.output import Notices, TextOutput
from agentcli.headless.stream_json import Frames
from agentcli.interactive.wording import event_line
from agentcli.plain.printer import Printer
from agentcli.plain.writer import BareWriter
from agentcli.tui.presenter import Presenter
from agentcli.tui.progress import AgentItem
from tests.headless.fake_engine import failed, result, started
from tests.interactive.test_wording import EVENTS
from tests.support.agent_events import agent_end, agent_start, agent_work, task_call, task_end
from tests.support.reply_events import block, streamed
from tests.support.shown import Shown

Show = Callable[[Iterable[ev.Event]], str]


def app(events: Iterable[ev.Event]) -> str:
    shown, presenter = Shown(), Presenter()
    for number, event in enumerate(events):
        shown.apply(presenter.show(event, float(number)))
    return "\n".join([*(text for item in shown.items for text in texts_in(item)), *agent_titles(shown)])


def agent_titles(shown: Shown) -> list[str]:
    return [item.progress.title for item in shown.of(AgentItem)]


def plain(events: Iterable[ev.Event]) -> str:
    out: list[str] = []
    printer, writer = Printer(lambda name, _input: name), BareWriter(out.append)
    for number, event in enumerate(events):
        writer.write(printer.show(event, float(number)))
    return "".join(out)


class Lines(Notices):
    """Standard error and standard output in one list."""

    __slots__ = ("out",)

    def say(self, text: str) -> None:
        self.out.append(f"{plain_line(text, 2_000)}\n")

    async def write(self, data: bytes) -> None:
        self.out.append(data.decode())


def text(events: Iterable[ev.Event]) -> str:
    lines = Lines(2, verbose=True)
    object.__setattr__(lines, "out", [])
    output = TextOutput(lines, lines, to_terminal=True)  # type: ignore[arg-type]

    async def show() -> None:
        for event in events:
            await output.show(event)

    asyncio.run(show())
    return "".join(lines.out)


def stream_json(events: Iterable[ev.Event]) -> str:
    mapping = Frames(SequentialIds())
    lines = [encode_line(frame).decode() for event in (started(), *events) for frame in mapping.frames(event)]
    return "\n".join(text for line in lines[1:] for text in texts_in(json.loads(line))) if lines else ""


def texts_in(value: Any) -> list[str]:
    """All strings in a value, without names of fields."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, ToolResultBlock):
        return []  # the data that an item is made from, not a text on the screen
    if is_dataclass(value) and not isinstance(value, type):
        return [text for field in fields(value) for text in texts_in(getattr(value, field.name))]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for part in parts for text in texts_in(part)]


ALL: dict[str, Show] = {"app": app, "plain": plain, "text": text, "stream-json": stream_json}
PEOPLE = ("app", "plain", "text")
"""Front ends whose output people read; stream-json passes data on unchanged."""


def on(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("show", [ALL[name] for name in names or ALL], ids=names or tuple(ALL))


def run_of_tool(name: str = "Bash", words: str = "ok", title: str = "Bash make", **rest: Any) -> list[ev.Event]:
    done = ToolResultBlock("t1", (TextBlock(words),), bool(rest.pop("is_error", False)))
    return [
        block(ToolUseBlock("t1", name, {"command": "make"}), 1),
        ev.ToolStarted(tool_use_id="t1", name=name, input={}, title=title),
        ev.ToolFinished(tool_use_id="t1", name=name, result=done, **rest),
        ev.ToolResultAdded(tool_use_id="t1", name=name, result=done),
    ]


BAD = "x\x1b[2J\x9b1m\x1b]0;title\x07"


@on(*PEOPLE)
def test_no_control_sequence_of_untrusted_text_gets_through_not_even_in_pieces(show: Show) -> None:
    events: list[ev.Event] = [
        streamed("a\x1b"), streamed("]0;title\x07b\x1b[3"), streamed("1mc\x9b2Jd"), block(TextBlock("abcd")),
        ev.BlockStarted(message_id="m", index=0, kind="tool_use", name=BAD),
        *run_of_tool(words=f"out{BAD}\rput", title=BAD, summary=BAD, is_error=True),
        ev.ToolStarted(tool_use_id="t2", name=BAD, input={"x": BAD}, title=BAD),
        ev.ToolProgressed(tool_use_id="t2", text=BAD),
        *(replace(event, agent=BAD) for event in EVENTS if isinstance(event, ev.AgentStarted)),
        ev.NoticeRaised(text=BAD, level="error"),
        ev.ModelFellBack(from_model=BAD, to_model="b", reason=BAD),
        ev.PermissionDenied(tool_use_id="t", name=BAD, input={}, reason=BAD),
        ev.ContextEdited(edits=[], step="user", text=BAD), ev.NoticeRaised(text=BAD, code="command"),
        ev.RetryScheduled(attempt=1, max_attempts=10, wait_seconds=1, kind="overloaded", text=BAD),
        ev.BackgroundChanged(task_id="b", status="failed", command=BAD, summary=BAD),
        *(ev.MessageAppended(message=user_message(BAD, origin.value, origin))
          for origin in (Origin.PROMPT, Origin.QUEUED, Origin.ATTACHMENT, Origin.HOOK, Origin.SUMMARY)),
        *task_call("a"), agent_start("explore-1", "a"), *agent_work("explore-1", text=BAD),
        agent_end("explore-1", "a", "failed", text=BAD), task_end("a"),
        failed(f"Not {BAD}"),
    ]  # fmt: skip
    seen = show(events)
    assert seen
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", seen)


@on(*PEOPLE)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_the_line_about_an_event_is_the_same_everywhere(show: Show, event: ev.Event) -> None:
    """Some show less: the app has blocks for agents and hides what repeats, headless text has the policy's choice."""
    line, _level = event_line(event)
    seen = show([event])
    known = not seen or line.rstrip(".") in seen.replace("\n", " ") or isinstance(event, ev.SubmissionInterrupted)
    assert known or (show is app and isinstance(event, ev.AgentStarted | ev.RetryScheduled | ev.CompactionStarted))


@on()
def test_an_answer_is_shown_once(show: Show) -> None:
    words = "Three callers."
    events = [streamed("Three "), streamed("callers."), block(TextBlock(words))]
    ended = [*events, result(text=words)] if show in (text, stream_json) else events
    assert show(ended).count(words) == (2 if show is stream_json else 1), "a result frame repeats the answer"


@on()
def test_a_failure_is_shown_with_its_reason(show: Show) -> None:
    assert "API error 400: no." in show([failed("API error 400: no.")])


@on("app", "plain")
def test_a_failure_that_was_reported_is_not_shown_again(show: Show) -> None:
    events = [ev.NoticeRaised(text="No key.", level="error"), failed("No key.")]
    assert show(events).count("No key.") == 1


@on()
def test_the_text_of_a_command_is_shown_verbatim(show: Show) -> None:
    if show is text:
        assert show([ev.NoticeRaised(text="a\nb", code="command"), result(text="a\nb")]) == "a\nb\n"
    else:
        assert "a\nb" in show([ev.NoticeRaised(text="a\nb", code="command")])


@on()
def test_a_hook_is_shown_only_if_it_stopped_something_or_failed(show: Show) -> None:
    about = {"hook_id": "h", "event_name": "PreToolUse", "name": "check", "source": "settings.json"}
    seen = show(
        [
            ev.HookFinished(**about, outcome="success"),
            ev.HookFinished(**about, outcome="denied", text="No \x1b[31mrm."),
            ev.HookFinished(**about, outcome="failed", text="exit code 1"),
        ]
    )
    assert seen.count("PreToolUse hook check") == 2
    assert "PreToolUse hook check (settings.json) denied the call: No rm." in seen


@pytest.mark.parametrize("event", [event for event in EVENTS if isinstance(event, ev.ContextEdited | ev.PrefixBroken)])
def test_changes_of_the_context_are_lines_on_standard_error_only_with_verbose(event: ev.Event) -> None:
    assert [is_shown(event, verbosity) for verbosity in ("verbose", "terminal", "always")] == [True, False, False]


@on("app", "plain")
def test_an_undone_compaction_is_reported_by_its_notice_only(show: Show) -> None:
    edits = [{"kind": "undo_compaction", "target": "b"}]
    undone = ev.ContextEdited(edits=edits, step="compact", freed_tokens=-900, text="undone")
    assert show([undone]) == ""
    assert show([ev.ContextEdited(edits=[{"kind": "hide"}], step="snip", freed_tokens=900)]) != ""


@on()
def test_a_call_is_shown_with_its_title_and_outcome(show: Show) -> None:
    seen = show(run_of_tool(words="oops\n\nExit code 2", is_error=True, summary="exit code 2"))
    shown = "" if show is text else "Bash make"
    assert shown in seen
    assert ("exit code 2" in seen) == (show is not text), "headless text has only the answer"


@on()
def test_the_work_of_an_agent_is_not_part_of_the_answer(show: Show) -> None:
    events = [
        *task_call("a"), agent_start("explore-1", "a"), *agent_work("explore-1", text="My own words."),
        agent_end("explore-1", "a"), task_end("a"), streamed("The end."), block(TextBlock("The end.")),
        result(text="The end."),
    ]  # fmt: skip
    seen = show(events)
    assert "The end." in seen
    assert "Find the callers" in seen
    assert ("My own words." in seen) == (show is stream_json), "its frames name the call that it works for"


@on(*PEOPLE)
def test_lines_of_an_agent_name_it(show: Show) -> None:
    events = [*task_call("a"), agent_start("explore-1", "a")]
    warned = ev.NoticeRaised(agent="explore-1", text="Half read.", level="warning")
    assert "explore-1: Half read." in show([*events, warned]) or show is app
    assert "As usual." not in show([*events, ev.NoticeRaised(agent="explore-1", text="As usual.")]) or show is text


@on("plain", "stream-json")
def test_a_void_reply_is_reported_if_part_of_it_was_shown(show: Show) -> None:
    gone = ev.ReplyTombstoned(message_id="m1", reason="overloaded")
    assert show([streamed("Half a sen"), gone])


@on(*PEOPLE)
@pytest.mark.parametrize(
    "display",
    [
        {"kind": 3},
        {"kind": "todos", "todos": "x"},
        {"kind": "todos", "todos": [3, {"content": 4}]},
        {"kind": "diff", "diff": None},
        {"kind": "search", "results": [{}]},
        {"kind": "answers"},
        {"kind": "plan", "plan": 7},
        {"kind": "new in another version", "text": ["x"]},
    ],
    ids=str,
)
def test_displays_of_any_form_break_nothing(show: Show, display: Any) -> None:
    show(run_of_tool(words="result", display=display))
