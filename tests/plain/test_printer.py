"""What plain mode prints for each event, with and without styles."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
from agentcli.plain.pieces import AnswerEnd, AnswerText, Gap, line, prose
from agentcli.plain.printer import Printer, replayed
from agentcli.plain.results import diff_output
from agentcli.plain.writer import BareWriter, ColourWriter
from agentcli.session.history import history_of
from tests.headless.fake_engine import result
from tests.support.agent_events import agent_end, agent_start, agent_work, task_call, task_end
from tests.support.tables import each_row


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


def streamed(text: str, index: int = 0) -> ev.TextStreamed:
    return ev.TextStreamed(message_id="m1", index=index, text=text)


def block(found: Any, index: int = 0) -> ev.BlockFinished:
    return ev.BlockFinished(message_id="m1", api_id="a", model="x", index=index, block=found)


def call(id: str = "t1", name: str = "Bash", **input: Any) -> ev.BlockFinished:
    return block(ToolUseBlock(id, name, input or {"command": "make"}))


def started(id: str = "t1", name: str = "Bash", title: str = "Bash make") -> ev.ToolStarted:
    return ev.ToolStarted(tool_use_id=id, name=name, input={}, title=title)


def finished(
    id: str = "t1", text: str = "", name: str = "Bash", is_error: bool = False, **rest: Any
) -> ev.ToolFinished:
    content = (TextBlock(text),)
    return ev.ToolFinished(tool_use_id=id, name=name, result=ToolResultBlock(id, content, is_error), **rest)


# ------------------------------------------------------------------------------------------------------------- replies


def test_text_is_written_as_it_comes_and_its_end_ends_the_line() -> None:
    printed = Printed()
    assert printed.show(streamed("\n\n")) == ""
    assert printed.show(streamed("Hel")) == "Hel"
    assert printed.show(streamed("lo.")) == "lo."
    assert printed.show(block(TextBlock("\n\nHello."))) == "\n\n"
    assert printed.text == "Hello.\n\n"


def test_thinking_is_one_line_unless_details_are_requested() -> None:
    thinking = (
        ev.ThinkingStreamed(message_id="m1", index=0, text="first\nsec"),
        ev.ThinkingStreamed(message_id="m1", index=0, text="ond"),
        block(ThinkingBlock("first\nsecond", "s")),
    )
    assert Printed().show(*thinking) == "· thought for 2.0 s\n"
    assert Printed(verbose=True).show(*thinking) == "| first\n| second\n· thought for 2.0 s\n"


# --------------------------------------------------------------------------------------------------------------- tools


def test_a_call_is_a_line_at_its_start_with_the_result_below() -> None:
    printed = Printed()
    assert printed.show(call()) == ""
    assert printed.show(started()) == "* Bash make\n"
    assert printed.show(finished(text="ok", summary="exit code 0")) == "  exit code 0\n  ok\n"


def test_the_exit_code_of_a_command_is_printed_once() -> None:
    failed = finished(text="oops\n\nExit code 2", is_error=True, summary="exit code 2")
    assert Printed().show(call(), started(), failed) == "* Bash make\n  failed · exit code 2\n  oops\n"
    silent = finished(text="(no output, exit code 0)", summary="exit code 0", display={"kind": "text", "text": ""})
    assert Printed().show(call(), started(), silent) == "* Bash make\n  exit code 0\n"
    own = finished(text="", summary="exit code 0", display={"kind": "text", "text": "exit code 0\nok"})
    assert Printed().show(call(), started(), own) == "* Bash make\n  exit code 0\n  exit code 0\n  ok\n"
    printed = Printed()
    printed.show(ev.ToolStarted(tool_use_id="s", name="!", input={}, title="! x"))
    mine = finished("s", name="!", text="oops\n\nExit code 2", is_error=True, summary="exit code 2")
    assert printed.show(mine) == "oops\n! failed · exit code 2\n"


def test_long_output_shows_the_end_for_commands_and_the_beginning_otherwise() -> None:
    rows = "\n".join(map(str, range(20)))
    shell = Printed().show(call(), started(), finished(text=rows))
    assert "… 12 more lines above\n  12\n" in shell
    assert shell.endswith("  19\n")
    other = Printed().show(call(name="Grep"), started(name="Grep"), finished(text=rows, name="Grep"))
    assert "  5\n  … 14 more lines\n" in other
    assert Printed(verbose=True).show(call(), started(), finished(text=rows)).count("\n") == 22


def test_a_read_file_is_not_printed_but_a_failure_reason_is() -> None:
    assert "secret" not in Printed().show(call(name="Read"), finished(text="secret", name="Read", summary="1 line"))
    refused = Printed().show(
        call(name="Read"), started(name="Read"), finished(text="No such file.", name="Read", is_error=True)
    )
    assert "  failed\n  No such file.\n" in refused


def test_results_of_parallel_calls_name_their_call() -> None:
    printed = Printed()
    printed.show(call("t1"), call("t2"), started("t1", title="Bash one"), started("t2", title="Bash two"))
    assert printed.show(finished("t1", summary="exit code 0")) == "  Bash one: exit code 0\n"
    assert printed.show(finished("t2", summary="exit code 1")) == "  Bash two: exit code 1\n"


def test_a_call_that_never_started_is_named_with_its_refusal() -> None:
    printed = Printed()
    told = printed.show(call(), finished(text="no", is_error=True, summary="denied: by a rule", outcome="denied"))
    assert told == "* Bash make\n  denied: by a rule\n"


def test_progress_of_a_call_is_a_line_now_and_then() -> None:
    printed = Printed()
    printed.show(call(name="mcp__notes__slow"), started(name="mcp__notes__slow", title="notes: slow"))

    def step(number: int) -> str:
        text = f"step {number} ({number} of 10)"
        return printed.show(ev.ToolProgressed(tool_use_id="t1", text=text, data={"done": number, "total": 10}))

    assert [step(number) for number in range(1, 7)] == ["  step 1 (1 of 10)\n", "", "", "", "", "  step 6 (6 of 10)\n"]


def test_a_diff_is_printed_unless_the_question_showed_it() -> None:
    edit = finished(name="Edit", summary="+1 -1", display={"kind": "diff", "diff": "@@ -1 +1 @@\n-a\n+b"})
    assert "  -a\n  +b\n" in Printed().show(call(name="Edit"), edit)
    printed = Printed()
    printed.show(call(name="Edit"))
    printed.printer.seen("t1")
    assert "+b" not in printed.show(edit)


def test_tab_stops_are_eight_apart_behind_the_indent_and_behind_the_signs_of_a_diff() -> None:
    table = Printed().show(call(), finished(text="key\tvalue\nlongkey\tvalue"))
    assert table.endswith("\n  key     value\n  longkey value\n")
    display = {"kind": "diff", "diff": "@@ -1,2 +1,2 @@\n key\tvalue\n-longkey\told\n+longkey\tnew"}
    changed = Printed().show(call(), finished(display=display))
    assert changed.endswith("\n   key     value\n  -longkey old\n  +longkey new\n")


def test_output_that_fills_eighty_columns_is_not_indented() -> None:
    for width, indent in ((78, "  "), (79, ""), (80, "")):
        shown = Printed().show(call(), finished(text=f"short\n{'x' * width}"))
        assert shown.endswith(f"\n{indent}short\n{indent}{'x' * width}\n")


def test_a_diff_in_an_answer_or_output_is_coloured_by_line() -> None:
    text = "1 file:\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- old\n-a\n+b"
    looks = {row: look for one in diff_output(text) for row, look in one.runs}
    assert (looks["1 file:"], looks["--- a/x"], looks["--- old"], looks["+b"]) == ("text", "strong", "removed", "added")
    assert looks["@@ -1,2 +1,1 @@"] == "quiet"
    assert text in Printed().show(ev.NoticeRaised(text=text, code="command"))
    output = finished(name="Bash", display={"kind": "text", "text": text})
    assert "  -a\n  +b\n" in Printed().show(call(), output)


def test_the_task_list_is_printed_whole() -> None:
    todos = [
        {"content": "one", "status": "completed"},
        {"content": "two", "status": "in_progress"},
        {"content": "three", "status": "pending"},
    ]
    display = {"kind": "todos", "todos": todos}
    assert "  [x] one\n  [>] two\n  [ ] three\n" in Printed().show(call(name="TodoWrite"), finished(display=display))


def test_a_user_command_is_printed_live_and_not_twice() -> None:
    printed = Printed()
    mine = {"agent": "user", "tool_use_id": "s"}
    assert printed.show(ev.ToolStarted(**mine, name="!", input={}, title="! ls")) == ""
    assert printed.show(ev.ToolProgressed(**mine, text="one\ntw")) == "one\n"
    assert printed.show(ev.ToolProgressed(**mine, text="o")) == ""
    assert printed.show(finished("s", text="one\ntwo", name="!", summary="exit code 0")) == "two\n"


def test_a_progress_bar_of_a_user_command_is_printed_in_its_last_state() -> None:
    printed = Printed()
    mine = {"agent": "user", "tool_use_id": "s"}
    printed.show(ev.ToolStarted(**mine, name="!", input={}, title="! fetch"))
    assert printed.show(ev.ToolProgressed(**mine, text="fetch 1%")) == ""
    assert printed.show(ev.ToolProgressed(**mine, text="\rfetch 20%")) == ""
    assert printed.show(ev.ToolProgressed(**mine, text="\rfetch 100%\n")) == "fetch 100%\n"
    assert printed.show(finished("s", text="fetch 100%", name="!", summary="exit code 0")) == ""


def test_a_failing_user_command_shows_its_exit_code() -> None:
    printed = Printed()
    printed.show(ev.ToolStarted(tool_use_id="s", name="!", input={}, title="! x"))
    assert printed.show(finished("s", name="!", is_error=True, summary="exit code 2")) == "! failed · exit code 2\n"


# ------------------------------------------------------------------------------------------------------------- notices


def test_a_just_typed_prompt_is_not_printed_and_a_queued_one_is() -> None:
    printed = Printed()
    assert printed.show(ev.MessageAppended(message=user_message("typed", "p", Origin.PROMPT))) == ""
    queued = ev.MessageAppended(message=user_message("one\ntwo", "q", Origin.QUEUED))
    assert "> one\n  two\n" in printed.show(queued)


def test_a_mode_change_is_printed_once() -> None:
    printed = Printed()
    changed = ev.ModeChanged(mode="plan", reason="asked")
    assert printed.show(changed) == "· Permission mode: plan (asked)\n"
    assert printed.show(changed) == ""


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
    printed.show(call(), started())
    for number in range(1, 13):
        printed.show(ev.ToolProgressed(tool_use_id="t1", text=f"step {number}\n", data={"lines": number}))
    shown = printed.show(ev.SubmissionInterrupted())
    rows = "".join(f"  step {number}\n" for number in range(5, 13))
    assert shown == f"  interrupted · 13 s\n  … 4 more lines above\n{rows}! {wording.INTERRUPTED_WITH_OUTPUT}\n"
    assert printed.show(finished(text="step 1", outcome="interrupted"), result(terminal="aborted_tools")) == ""


@each_row("output", ["", "serving on 8000"])
def test_a_command_in_the_background_is_shown_without_the_text_for_the_model(output: str) -> None:
    text = f"{output}\n\nIt runs as sh_1. Read its output with BashOutput, stop it with KillShell."
    display = {"kind": "text", "text": output, "background": "sh_1"}
    shown = Printed().show(call(), started(), finished(text=text, display=display, summary="in the background as sh_1"))
    rows = f"  {output}\n" if output else ""
    assert shown == f"* Bash make\n  in the background as sh_1 · /tasks shows it\n{rows}"


def test_calls_that_did_not_start_are_named_as_interrupted() -> None:
    printed = Printed()
    printed.show(call(), call("t2", command="ls"), started())
    shown = printed.show(ev.SubmissionInterrupted(steering=True))
    assert shown == "  interrupted · 1.0 s\n* Bash ls\n  interrupted\n"


def test_an_interrupted_command_of_a_resumed_session_shows_its_output_without_the_text_for_the_model() -> None:
    display = {"kind": "text", "text": "step 1\nstep 2"}
    text = "step 1\nstep 2\n\nThe user stopped this command; its output so far is above."
    ended = finished(text=text, is_error=True, outcome="interrupted", display=display, duration_ms=3_000)
    assert Printed().show(call(), started(), ended) == "* Bash make\n  interrupted · 3.0 s\n  step 1\n  step 2\n"


# ------------------------------------------------------------------------------------------------------------- writers


def test_notices_in_the_midst_of_an_answer_begin_a_line_of_their_own() -> None:
    printed = Printed()
    printed.show(streamed("Half a"))
    assert printed.show(ev.NoticeRaised(text="note")) == "\n· note\n"


def test_there_is_never_more_than_one_empty_line() -> None:
    printed = Printed()
    printed.also([Gap(), line("a"), Gap(), Gap(), line("b"), Gap(), AnswerText("c\n\n"), AnswerEnd(), Gap(), line("d")])
    assert printed.text == "a\n\nb\n\nc\n\nd\n"


def coloured(*pieces: Any, width: int = 60, colours: bool = True) -> str:
    out: list[str] = []
    ColourWriter(out.append, lambda: width, colours=colours).write(pieces)
    return "".join(out)


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize(
    ("before", "after", "rest"),
    [
        ("Look:\n\n```python\ndef f():\n    re", "turn 1\n# *done*\n```\n", ["return 1", "# *done*", "```"]),
        ("| a | b |\n|---|---|\n| 1 |", " 2 |\n\nEnd.\n", ["1  2", "End."]),
    ],
)
def test_a_notice_does_not_end_the_code_block_or_table_that_streams(before: str, after: str, rest: list[str]) -> None:
    notice = prose("Queued: next thing", "quiet", "· ")
    rows = bare(coloured(AnswerText(before), Gap(), notice, AnswerText(after), AnswerEnd())).splitlines()
    shown = [row.strip() for row in rows if row.strip()]
    assert shown[-len(rest) :] == rest
    assert "· Queued: next thing" in shown


def test_markdown_is_rendered_with_style_codes_only() -> None:
    text = "# Head\n\n**b** `c` [l](http://u)\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n> q\n\n```sh\nls\n```\n"
    shown = coloured(AnswerText(text), AnswerEnd())
    assert "\x1b" not in bare(shown)
    assert "b c l (http://u)" in bare(shown)
    assert all(row == row.rstrip() for row in bare(shown).split("\n")), "no blanks at the ends of lines"


def test_text_that_looks_like_renderer_markup_stays_text() -> None:
    assert "[bold red]x[/] :smile: [link=http://x]y[/link]" in bare(
        coloured(AnswerText("[bold red]x[/] :smile: [link=http://x]y[/link]"), AnswerEnd(), width=100)
    )


def test_a_long_paragraph_is_printed_row_by_row_while_it_is_being_written() -> None:
    out: list[str] = []
    writer = ColourWriter(out.append, lambda: 30)
    text = "some words that come in one by one and make a rather **long** paragraph with `code` in it"
    words = text.split()
    for word in words:
        writer.write([AnswerText(f"{word} ")])
    assert len(out) >= 2, "rows came before the end"
    writer.write([AnswerEnd()])
    assert "".join(out) == coloured(AnswerText(text), AnswerEnd(), width=30)


@given(
    st.lists(
        st.sampled_from(
            [
                "word",
                "**b**",
                "`c d`",
                "*i",
                "j*",
                "a_b",
                "2 * 3",
                "\n",
                "\n\n",
                "- x",
                "1. y",
                "\n```\n",
                "[l](u)",
                "#",
            ]
        ),
        max_size=60,
    ),
    st.integers(1, 9),
)
@example([*["word"] * 14, "*i", "*i", "j*"], 1)
def test_rows_printed_early_equal_the_final_rows(pieces: list[str], step: int) -> None:
    text = " ".join(pieces)
    out: list[str] = []
    writer = ColourWriter(out.append, lambda: 24)
    writer.write(AnswerText(text[place : place + step]) for place in range(0, len(text), step))
    writer.write([AnswerEnd()])
    assert "".join(out) == coloured(AnswerText(text), AnswerEnd(), width=24)


def test_html_is_shown_as_the_text_that_it_is() -> None:
    text = "<div>\nhidden\n</div>\n\nand <b>this</b> <!-- too -->"
    shown = bare(coloured(AnswerText(text), AnswerEnd()))
    for word in ("<div>", "hidden", "</div>", "and <b>this</b> <!-- too -->"):
        assert word in shown


def test_every_styled_line_resets_its_style() -> None:
    shown = coloured(line("one\ntwo", "error"))
    assert shown == "\x1b[31mone\x1b[0m\n\x1b[31mtwo\x1b[0m\n"
    assert coloured(line("x", "error"), colours=False) == "\x1b[1mx\x1b[0m\n"


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
    printed.also(replayed(history_of(messages), lambda name, given: f"{name} {given['command']}"))
    assert printed.text.startswith("… 2 messages before\n")
    assert "question 0" not in printed.text
    assert "> question 1\n\nanswer 1\n\n* Bash ls\n  done\n  parser.py\n" in printed.text
    assert printed.text.endswith("What should be done instead?\n\n")


def test_an_empty_conversation_prints_nothing() -> None:
    assert replayed([], lambda name, _input: name) == []


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


def test_the_description_of_a_command_is_above_it() -> None:
    given = {"command": "pytest -q", "description": "Run the tests"}
    started = ev.ToolStarted(tool_use_id="c", name="Bash", input=given, title="Bash pytest -q")
    assert Printed().show(started) == "* Run the tests\n  Bash pytest -q\n"
