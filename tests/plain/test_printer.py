"""What plain mode prints for each event, with and without styles."""

from __future__ import annotations

from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import (
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from agentcli.interactive import wording
from agentcli.plain.printer import Printer, replay_history
from agentcli.plain.results import diff_output
from agentcli.plain.writer import BareWriter
from agentcli.session.base import history_of
from tests.headless.fake_engine import result
from tests.support.agent_events import agent_end, agent_start, agent_work, task_call, task_end
from tests.support.reply_events import block, call, finished, started, streamed


class Printed:
    """A printer with a bare writer behind it; the clock goes one second with each event."""

    def __init__(self, **options: Any) -> None:
        self.printer = Printer(lambda name, given: f"{name} {next(iter(given.values()), '')}".strip(), **options)
        self._out: list[str] = []
        self._writer = BareWriter(self._out.append)
        self._now = 0.0

    def show(self, *events: ev.Event) -> str:
        before = len(self.text)
        for event in events:
            self._now += 1
            self._writer.write(self.printer.show(event, self._now))
        return self.text[before:]

    def also(self, pieces: Any) -> str:
        before = len(self.text)
        self._writer.write(pieces)
        return self.text[before:]

    @property
    def text(self) -> str:
        return "".join(self._out)


MINE = {"agent": "user", "tool_use_id": "s"}
SHELL = ev.ToolStarted(**MINE, name="!", input={}, title="! make")
ROWS = "\n".join(map(str, range(20)))
LONG_DIFF = "1 file:\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- old\n-a\n+b"
THINKING = (
    ev.ThinkingStreamed(message_id="m1", index=0, text="first\nsec"),
    ev.ThinkingStreamed(message_id="m1", index=0, text="ond"),
    block(ThinkingBlock("first\nsecond", "s")),
)
TODOS = [{"content": name, "status": name} for name in ("completed", "in_progress", "pending")]
TABBED = "@@ -1,2 +1,2 @@\n key\tvalue\n-longkey\told\n+longkey\tnew"


def progressed(text: str, **data: Any) -> ev.ToolProgressed:
    return ev.ToolProgressed(tool_use_id="t1", text=text, data=data)


def typed(text: str) -> ev.ToolProgressed:
    return ev.ToolProgressed(**MINE, text=text)


def step(number: int) -> ev.ToolProgressed:
    return progressed(f"step {number}", done=number, total=10)


def ended(shown: str = "", **rest: Any) -> ev.ToolFinished:
    return finished(display={"kind": "text", "text": shown} | rest.pop("display", {}), **rest)


PRINTED: dict[str, tuple[list[ev.Event], str]] = {
    "text ends its line": (
        [streamed("\n\n"), streamed("Hel"), streamed("lo."), block(TextBlock("\n\nHello."))], "Hello.\n\n",
    ),
    "thinking is one line": ([*THINKING], "· thought for 2.0 s\n"),
    "a call and its result": (
        [call(), started(), finished(text="ok", summary="exit code 0")], "* Bash make\n  exit code 0\n  ok\n",
    ),
    "the description of a command is above it": (
        [ev.ToolStarted(tool_use_id="c", name="Bash", input={"description": "Run it"}, title="Bash make")],
        "* Run it\n  Bash make\n",
    ),
    "the exit code of a command is printed once": (
        [call(), started(), finished(text="oops\n\nExit code 2", is_error=True, summary="exit code 2")],
        "* Bash make\n  failed · exit code 2\n  oops\n",
    ),
    "so it is without output": (
        [call(), started(), ended(summary="exit code 0")], "* Bash make\n  exit code 0\n",
    ),
    "but output that only looks like it is kept": (
        [call(), started(), ended("exit code 0\nok", summary="exit code 0")],
        "* Bash make\n  exit code 0\n  exit code 0\n  ok\n",
    ),
    "of the user's command too": (
        [SHELL, finished("s", name="!", text="oops\n\nExit code 2", is_error=True, summary="exit code 2")],
        "oops\n! failed · exit code 2\n",
    ),
    "a read file is not printed": (
        [call(name="Read"), finished(text="secret", name="Read", summary="1 line")], "* Read make\n  1 line\n",
    ),
    "but the reason why it was not read": (
        [call(name="Read"), finished(text="No such file.", name="Read", is_error=True)],
        "* Read make\n  failed\n  No such file.\n",
    ),
    "results of parallel calls name their call": (
        [call("t1"), call("t2"), started("t1", title="Bash one"), started("t2", title="Bash two"),
         finished("t1", summary="exit code 0"), finished("t2", summary="exit code 1")],
        "* Bash one\n* Bash two\n  Bash one: exit code 0\n  Bash two: exit code 1\n",
    ),
    "a refused call is named": (
        [call(), finished(text="no", is_error=True, summary="denied: by a rule", outcome="denied")],
        "* Bash make\n  denied: by a rule\n",
    ),
    "progress now and then": (
        [call(name="mcp__notes__slow"), started(name="mcp__notes__slow", title="slow"), *map(step, range(1, 7))],
        "* slow\n  step 1\n  step 6\n",
    ),
    "a diff": (
        [call(name="Edit"), finished(name="Edit", summary="+1 -1", display={"kind": "diff", "diff": "-a\n+b"})],
        "* Edit make\n  +1 -1\n  -a\n  +b\n",
    ),
    "tab stops are eight apart behind the indent": (
        [call(), finished(text="key\tvalue\nlongkey\tvalue")],
        "* Bash make\n  done\n  key     value\n  longkey value\n",
    ),
    "and behind the signs of a diff": (
        [call(), finished(display={"kind": "diff", "diff": TABBED})],
        "* Bash make\n  done\n  @@ -1,2 +1,2 @@\n   key     value\n  -longkey old\n  +longkey new\n",
    ),
    "output of 78 columns is indented": (
        [call(), finished(text=f"x\n{'x' * 78}")], f"* Bash make\n  done\n  x\n  {'x' * 78}\n",
    ),
    "wider output is not": ([call(), finished(text=f"x\n{'x' * 79}")], f"* Bash make\n  done\nx\n{'x' * 79}\n"),
    "a diff of a command": ([ev.NoticeRaised(text=LONG_DIFF, code="command")], f"{LONG_DIFF}\n"),
    "todos": (
        [call(name="TodoWrite"), finished(display={"kind": "todos", "todos": TODOS})],
        "* TodoWrite make\n  done\n  [x] completed\n  [>] in_progress\n  [ ] pending\n",
    ),
    "a user's command is printed live and not twice": (
        [SHELL, typed("one\ntw"), typed("o"), finished("s", text="one\ntwo", name="!", summary="exit code 0")],
        "one\ntwo\n",
    ),
    "a progress bar of a user's command in its last state": (
        [SHELL, typed("fetch 1%"), typed("\rfetch 20%"), typed("\rfetch 100%\n"),
         finished("s", text="fetch 100%", name="!", summary="exit code 0")],
        "fetch 100%\n",
    ),
    "a failing user's command": (
        [SHELL, finished("s", name="!", is_error=True, summary="exit code 2")], "! failed · exit code 2\n",
    ),
    "a prompt just typed": ([ev.MessageAppended(message=user_message("typed", "p", Origin.PROMPT))], ""),
    "a queued prompt": (
        [ev.MessageAppended(message=user_message("one\ntwo", "q", Origin.QUEUED))], "> one\n  two\n\n",
    ),
    "a mode change is printed once": (
        [ev.ModeChanged(mode="plan", reason="asked")] * 2, "· Permission mode: plan (asked)\n",
    ),
    "a notice in an answer begins a line": ([streamed("Half a"), ev.NoticeRaised(text="x")], "Half a\n· x\n"),
    "calls that did not start are interrupted too": (
        [call(), call("t2", command="ls"), started(), ev.SubmissionInterrupted(steering=True)],
        "* Bash make\n  interrupted · 1.0 s\n* Bash ls\n  interrupted\n",
    ),
    "an interrupted command of a resumed session without the text for the model": (
        [call(), started(), ended("1\n2", text="1\n2\n\nThe user stopped it.", is_error=True,
                                  outcome="interrupted", duration_ms=3_000)],
        "* Bash make\n  interrupted · 3.0 s\n  1\n  2\n",
    ),
    "a command in the background without it": (
        [call(), started(), ended("serving", text="serving\n\nIt runs as sh_1.", display={"background": "sh_1"},
                                  summary="in the background as sh_1")],
        "* Bash make\n  in the background as sh_1 · /tasks shows it\n  serving\n",
    ),
    "a silent one": (
        [call(), started(), ended("", text="It runs as sh_1.", display={"background": "sh_1"}, summary="as sh_1")],
        "* Bash make\n  as sh_1 · /tasks shows it\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), PRINTED.values(), ids=PRINTED)
def test_events_are_printed(events: list[ev.Event], expected: str) -> None:
    assert Printed().show(*events).lstrip("\n") == expected


def test_verbose_prints_thinking_and_long_output_whole() -> None:
    assert Printed(verbose=True).show(*THINKING) == "| first\n| second\n· thought for 2.0 s\n"
    assert Printed(verbose=True).show(call(), started(), finished(text=ROWS)).count("\n") == 22


def test_long_output_shows_the_end_for_commands_and_the_beginning_otherwise() -> None:
    shell = Printed().show(call(), started(), finished(text=ROWS))
    assert "… 12 more lines above\n  12\n" in shell
    assert shell.endswith("  19\n")
    other = Printed().show(call(name="Grep"), started(name="Grep"), finished(text=ROWS, name="Grep"))
    assert "  5\n  … 14 more lines\n" in other


def test_a_diff_that_the_question_showed_is_not_printed() -> None:
    printed = Printed()
    printed.show(call(name="Edit"))
    printed.printer.seen("t1")
    assert "+b" not in printed.show(finished(name="Edit", display={"kind": "diff", "diff": "-a\n+b"}))


def test_a_diff_in_an_answer_or_output_is_coloured_by_line() -> None:
    looks = {row: look for one in diff_output(LONG_DIFF) for row, look in one.runs}
    assert (looks["1 file:"], looks["--- a/x"], looks["--- old"], looks["+b"]) == ("text", "strong", "removed", "added")
    assert looks["@@ -1,2 +1,1 @@"] == "quiet"
    assert "  -a\n  +b\n" in Printed().show(call(), ended(LONG_DIFF))


# ------------------------------------------------------------------------------------------------------------- the end


def test_the_last_line_has_time_turns_and_cost() -> None:
    printed = Printed(aside=lambda: "3% of the context")
    first = printed.show(result(turns=2, duration_ms=3_200, total_cost_usd=0.5))
    assert first == "= 3.2 s · 2 turns · $0.50 · 3% of the context\n"
    assert "$0.25 ($0.75 so far)" in printed.show(result(total_cost_usd=0.75))
    assert printed.show(result(turns=0)) == ""


def test_after_an_interruption_nothing_more_is_printed_until_it_has_settled() -> None:
    printed = Printed()
    printed.show(streamed("Half a"))
    assert printed.also(printed.printer.interrupted(9.0)).startswith("\n! Interrupted.")
    assert printed.show(streamed(" sentence"), finished(text="x"), result(terminal="aborted_streaming")) == ""
    printed.printer.settled()
    assert "New" in printed.show(streamed("New"))


def test_an_interrupted_command_shows_the_end_of_its_output_and_how_long_it_ran() -> None:
    printed = Printed()
    printed.show(call(), started(), *(progressed(f"step {number}\n", lines=number) for number in range(1, 13)))
    shown = printed.show(ev.SubmissionInterrupted())
    rows = "".join(f"  step {number}\n" for number in range(5, 13))
    assert shown == f"  interrupted · 13 s\n  … 4 more lines above\n{rows}! {wording.INTERRUPTED}\n"
    assert printed.show(finished(text="step 1", outcome="interrupted"), result(terminal="aborted_tools")) == ""


# -------------------------------------------------------------------------------------------------------------- replay


def test_the_end_of_an_old_conversation_is_printed_and_the_rest_counted() -> None:
    messages = []
    for number in range(3):
        messages.append(user_message(f"question {number}", f"p{number}", Origin.PROMPT))
        reply = (TextBlock(f"answer {number}"), ToolUseBlock(f"t{number}", "Bash", {"command": "ls"}))
        messages.append(Message("assistant", reply, f"r{number}", Origin.REPLY))
        result = ToolResultBlock(f"t{number}", (TextBlock("parser.py"),))
        messages.append(Message("user", (result,), f"t{number}", Origin.TOOL_RESULTS))
    messages.append(Message("user", (TextBlock("x"),), "i", Origin.INTERRUPTION))
    printed = Printed()
    printed.also(replay_history(history_of(messages), lambda name, given: f"{name} {given['command']}"))
    assert printed.text.startswith("… 2 messages before\n")
    assert "question 0" not in printed.text
    assert "> question 1\n\nanswer 1\n\n* Bash ls\n  done\n  parser.py\n" in printed.text
    assert printed.text.endswith("What should be done instead?\n\n")


def test_an_empty_conversation_prints_nothing() -> None:
    assert replay_history([], lambda name, _input: name) == []


# ---------------------------------------------------------------------------------------------------------- sub-agents


def test_an_agent_has_a_line_at_its_start_and_at_its_end_and_its_text_is_not_part_of_the_answer() -> None:
    shown = Printed()
    shown.show(*task_call("a"), *task_call("b"))
    shown.show(agent_start("explore-1", "a"), agent_start("explore-2", "b", background=True))
    shown.show(*agent_work("explore-1"), *agent_work("explore-2"))
    shown.show(agent_end("explore-1", "a"), task_end("a"), task_end("b", display={"background": True}))
    shown.show(streamed("Three callers."), agent_end("explore-2", "b", "failed", background=True, text="No answer."))
    assert shown.text == (
        "· Agent explore-1 started: Find the callers\n"
        "· Agent explore-2 started in the background: Find the callers\n"
        "· Agent explore-1 completed: Find the callers (2 turns, 24k tokens, $0.05, 14 s)\n"
        "\n"
        "Three callers.\n"
        "! Agent explore-2 failed: Find the callers (2 turns, 24k tokens, $0.05, 14 s). No answer.\n"
    )


def test_verbose_prints_the_calls_of_an_agent_behind_its_name() -> None:
    shown = Printed(verbose=True)
    shown.show(*task_call("a"), agent_start("explore-1", "a"))
    assert shown.show(*agent_work("explore-1")) == (
        "[explore-1] * Grep head\n[explore-1]   2 matches\n[explore-1]   a.py:1\n[explore-1]   b.py:2\n"
    )


def test_an_agent_inside_of_another_has_its_own_lines_instead_of_those_of_its_call() -> None:
    shown = Printed(verbose=True)
    shown.show(*task_call("a"), agent_start("general-1", "a"))
    shown.show(*task_call("b", agent="general-1"), agent_start("explore-1", "b", parent="general-1"))
    shown.show(agent_end("explore-1", "b"))
    assert shown.show(task_end("b", agent="general-1")) == ""


def test_a_task_that_fails_before_its_agent_starts_is_printed_like_any_call() -> None:
    shown = Printed()
    shown.show(*task_call("a"), task_end("a", text="No such agent.", outcome="failed"))
    assert shown.text.startswith("* explore: Find the callers\n  failed\n")


def test_after_an_interruption_only_background_agents_are_printed() -> None:
    shown = Printed()
    shown.show(*task_call("a"), *task_call("b"))
    shown.show(agent_start("explore-1", "a"), agent_start("explore-2", "b", background=True))
    shown.also(shown.printer.interrupted(9.0))
    assert shown.show(agent_end("explore-1", "a", "stopped")) == ""
    assert shown.show(agent_end("explore-2", "b", background=True)).startswith("· Agent explore-2 completed")
