"""Every block besides the answer: what it looks like, what folds, what copying gives, and hostile text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from agentcli.tui.blocks import rows
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import (
    BoundaryItem,
    EndItem,
    Item,
    NoticeItem,
    OutputItem,
    PromptItem,
    ThinkingItem,
    ToolItem,
    WelcomeItem,
)
from agentcli.tui.theme.palette import Palette
from tests.support.tables import each_row

PALETTE = Palette()
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ud800-\udfff]")


def screen(block: Block, width: int = 60) -> str:
    return "\n".join(line.strip.text.rstrip() for line in block.layout(width, PALETTE))


def shown(item: Item, width: int = 60, *, expanded: bool = False) -> str:
    block = make_block(item)
    block.expanded = expanded
    return screen(block, width)


def copied(lines: Sequence[BlockLine]) -> str:
    return "".join(line.text + line.joint for line in lines)


def tool(title: str, display: Any = None, *, name: str = "", status: str = "done", **values: Any) -> ToolItem:
    name = name or title.split(" ")[0]
    return ToolItem(id="t", name=name, title=title, status=status, display=display or {}, **values)  # type: ignore[arg-type]


def numbered(count: int, word: str = "line") -> str:
    return "\n".join(f"{word} {number}" for number in range(1, count + 1))


# ------------------------------------------------------------------------------------------------- what they look like


DENIED = tool("Bash make", status="denied", summary="denied by you", output="The user declined this call.")
DESCRIBED = tool(
    "Bash cd project && make all make check",
    {"kind": "text", "text": "ok"},
    input={"command": "cd project && make all\nmake check", "description": "Build and check it"},
)
MATCHES = [{"path": "a.py", "line": number, "text": f"match {number}", "match": True} for number in (8, 9, 10)]
MATCHES += [{"path": "b.py", "line": 1, "text": "around", "match": False}] * 7
ANSWERS = {"kind": "answers", "answers": [{"question": "Which?", "answer": "SQLite"}, {"question": "Why?"}]}
OPTIONS = [{"label": "SQLite", "description": "a file"}, {"label": "Postgres"}]
COMMAND = {"kind": "command", "command": "make\nmake install", "folder": "/src", "description": "Build"}
FETCH = {"kind": "fetch", "url": "http://10.0.0.1/", "private": True, "prompt": "What is there?"}
SEARCH = {"kind": "search", "results": [{"title": "Textual", "url": "https://a.b"}, {"url": "https://c.d"}]}
TITLED = OutputItem(id="o", text="body", title="Summary of what came before")
WELCOME = WelcomeItem(id="w", version="1.2", lines=("claude · high · ~/demo", "/ commands · ? keys"))
SAID = "The command is empty."


def failed(text: str, **values: Any) -> ToolItem:
    return tool("Bash x", status="failed", output=f"<tool_use_error>{text}</tool_use_error>", **values)


@each_row(
    ("item", "look"),
    [
        (PromptItem(id="p", text="look", images=2), "❯ look\n  + 2 pictures"),
        (PromptItem(id="p", text="[Image #1: a.png] look", images=1), "❯ [Image #1: a.png] look"),
        (PromptItem(id="p", text="", images=1), "❯ + 1 picture"),
        (ThinkingItem(id="t", seconds=0.2), "  Thought for 1 s"),
        (NoticeItem(id="n", text="529 overloaded", level="warning"), "! 529 overloaded"),
        (NoticeItem(id="n", text="disk full", level="error"), "✗ disk full"),
        (EndItem(id="e", text="12 s · 3 turns"), "✓ 12 s · 3 turns"),
        (EndItem(id="e", text="Interrupted.", level="warning"), "■ Interrupted."),
        (
            EndItem(id="e", text="Refused.", level="error", errors=("too long", "send less")),
            "✗ Refused.\n  │ too long\n  │ send less",
        ),
        (OutputItem(id="o", text="no such thing", failed=True), "✗ no such thing"),
        (OutputItem(id="o", text=""), "  (no output)"),
        (OutputItem(id="o", text="**bold** and `code`", kind="markdown"), "  bold and code"),
        (OutputItem(id="o", text="@@ -1 +1 @@\n-a\n+b", kind="diff"), "  1 - a\n  1 + b"),
        (NoticeItem(id="n", text=""), "·"),
        (TITLED, "▸ Summary of what came before"),
        (DENIED, "⊘ Bash make · denied by you\n  │ The user declined this call."),
        (replace(DENIED, denied_by="you"), "⊘ Bash make · denied by you"),
        (DESCRIBED, "✓ Bash Build and check it\n  │ $ cd project && make all …\n  │ ok"),
        (failed(SAID, summary=SAID), f"✗ Bash x · {SAID}"),
        (failed(f"{SAID}\nWrite one.", summary=SAID), f"✗ Bash x · failed\n  │ {SAID}\n  │ Write one."),
        (
            tool("Read a.py", status="failed", summary="not found", output="a.py does not exist.\nLook with Glob."),
            "✗ Read a.py · not found\n  │ a.py does not exist.\n  │ Look with Glob.",
        ),
        (
            tool("Bash serve", {"kind": "text", "text": ""}, background=True, summary="in the background as bash_1"),
            "& Bash serve · in the background as bash_1",
        ),
        (
            tool("Grep match", {"kind": "matches", "rows": MATCHES}, summary="10 matches"),
            (
                "✓ Grep match · 10 matches\n  │ a.py\n  │  8  match 8\n  │  9  match 9\n  │ 10  match 10\n"
                "  │ … 7 more lines · Ctrl+O"
            ),
        ),
        (
            tool("Glob *", {"kind": "matches", "rows": [{"path": "a"}, {"path": "b", "count": 3}]}),
            "✓ Glob *\n  │ a\n  │ b  3",
        ),
        (tool("Glob *", {"kind": "matches", "text": "No files.", "rows": []}, summary="none"), "✓ Glob * · none"),
        (
            tool("Question: Which? (and 1 more)", ANSWERS, name="AskUserQuestion", summary="1 of 2 answered"),
            (
                "✓ Question: Which? (and 1 more) · 1 of 2 answered\n"
                "  │ Which?\n  │ → SQLite\n  │ Why?\n  │ → (not answered)"
            ),
        ),
        (
            tool("Question: Which?", {"kind": "questions", "questions": [{"question": "Which?", "options": OPTIONS}]}),
            "✓ Question: Which?\n  │ Which?\n  │ 1. SQLite  a file\n  │ 2. Postgres",
        ),
        (tool("Bash make", COMMAND), "✓ Bash make\n  │ $ make\n  │   make install\n  │ Build\n  │ /src"),
        (
            tool("Fetch it", FETCH),
            "✓ Fetch it\n  │ http://10.0.0.1/\n  │ ! in your own network\n  │ What is there?",
        ),
        (tool("Search it", SEARCH), "✓ Search it\n  │ Textual  https://a.b\n  │ https://c.d"),
        (
            tool("Page x", {"kind": "markdown", "title": "T", "text": "# A\n\n" + "word\n\n" * 9}),
            "✓ Page x\n  │ T\n  │ A\n  │\n  │ word\n  │\n  │ word\n  │ … 14 more lines · Ctrl+O",
        ),
        (tool("New x", {"kind": "chart", "text": "a chart"}), "✓ New x\n  │ a chart"),
        (tool("New x", {"kind": "chart", "bars": 2}), '✓ New x\n  │ {\n  │   "bars": 2\n  │ }'),
    ],
)
def test_items_look_like_this(item: Item, look: str) -> None:
    assert shown(item) == look


@each_row(
    ("item", "width", "expanded", "look"),
    [
        (PromptItem(id="p", text="find the bug and fix it"), 20, False, "❯ find the bug and\n  fix it"),
        (NoticeItem(id="n", text="A hook told the model: go on"), 20, False, "· A hook told the\n  model: go on"),
        (TITLED, 60, True, "▾ Summary of what came before\n  body"),
        (
            tool("Search it", {**SEARCH, "text": "*said*"}),
            60,
            True,
            "✓ Search it\n  │ Textual  https://a.b\n  │ https://c.d\n  │\n  │ said",
        ),
        (DESCRIBED, 26, False, "✓ Bash Build and check it\n  │ $ cd project && make…\n  │ ok"),
        (DESCRIBED, 60, True, "✓ Bash Build and check it\n  │ $ cd project && make all\n  │   make check\n  │ ok"),
        (WELCOME, 40, False, "╭───╮  agentcli 1.2\n│ ❯ │  claude · high · ~/demo\n╰───╯  / commands · ? keys"),
        (WELCOME, 36, False, "╭───╮  agentcli 1.2\n│ ❯ │  claude · high · ~/demo\n╰───╯  / commands · ? keys"),
        (WELCOME, 30, False, "agentcli 1.2\nclaude · high · ~/demo\n/ commands · ? keys"),
        (
            replace(WELCOME, lines=("claude-sonnet · high · ~/work/demo/somewhere",)),
            40,
            False,
            "╭───╮  agentcli 1.2\n│ ❯ │  claude-sonnet · high\n╰───╯  ~/work/demo/somewhere",
        ),
        (replace(WELCOME, lines=()), 40, False, "╭───╮  agentcli 1.2\n│ ❯ │\n╰───╯"),
    ],
)
def test_items_fit_their_width_and_open(item: Item, width: int, expanded: bool, look: str) -> None:
    assert shown(item, width, expanded=expanded) == look


# --------------------------------------------------------------------------------------------------------- the user


def test_a_long_prompt_is_folded_and_opens() -> None:
    item = PromptItem(id="p", text=numbered(40))
    block = make_block(item)
    assert screen(block).split("\n")[-2:] == ["  line 12", "  … 28 more lines · Ctrl+O"]
    assert block.foldable
    block.expanded = True
    assert len(block.layout(60, PALETTE)) == 40
    assert block.foldable


def test_one_line_too_many_is_shown_and_not_folded() -> None:
    block = make_block(PromptItem(id="p", text=numbered(13)))
    assert len(block.layout(60, PALETTE)) == 13
    assert not block.foldable


@pytest.mark.parametrize(("text", "start"), [("/cost now", "/cost"), ("!ls -la", "!")])
def test_commands_and_shell_lines_are_distinguished_by_their_prefix(text: str, start: str) -> None:
    line = make_block(PromptItem(id="p", text=text)).layout(60, PALETTE)[0]
    assert line.text == text
    assert [segment.text for segment in line.strip][1] == start


# --------------------------------------------------------------------------------------------------------- thinking


def test_thinking_shows_its_end_while_streaming_and_one_line_afterwards() -> None:
    block = make_block(ThinkingItem(id="t", text="line 0\n"))
    block.grow(numbered(20))
    assert screen(block) == "▾ Thinking…\n" + "\n".join(f"  line {number}" for number in range(15, 21))
    block.replace(ThinkingItem(id="t", text="all of it", seconds=4.3))
    assert screen(block) == "▸ Thought for 4 s"
    block.expanded = True
    assert screen(block) == "▾ Thought for 4 s\n  all of it"


def test_interrupted_thinking_keeps_the_visible_text() -> None:
    block = make_block(ThinkingItem(id="t"))
    block.grow("half a thought")
    block.replace(ThinkingItem(id="t", seconds=130))
    block.expanded = True
    assert screen(block) == "▾ Thought for 2 min 10 s\n  half a thought"
    assert block.source == "half a thought"


# ------------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize(
    ("item", "header"),
    [
        (tool("Write", status="writing"), "◌ Write"),
        (tool("Bash", status="queued"), "◌ Bash"),
        (tool("Bash make", status="waiting"), "? Bash make · waits for your answer"),
        (tool("Bash make", status="running"), "● Bash make"),
        (tool("Bash make", summary="exit code 0", duration_ms=999), "✓ Bash make"),
        (
            tool("Bash make", summary="exit code 2", status="failed", duration_ms=1500),
            "✗ Bash make · exit code 2 · 1.5 s",
        ),
        (tool("Bash make", status="failed"), "✗ Bash make · failed"),
        (tool("Bash make", status="denied", summary="denied by a rule"), "⊘ Bash make · denied by a rule"),
        (tool("Bash make", status="denied"), "⊘ Bash make · denied"),
        (tool("Bash make", status="interrupted", duration_ms=61_000), "■ Bash make · interrupted · 1 min 1 s"),
        (tool("Bash make", status="interrupted", summary="stopped"), "■ Bash make · interrupted"),
        (tool("Todos: 1 of 3 done", name="TodoWrite", summary="1 of 3 done"), "✓ Todos: 1 of 3 done"),
    ],
)
def test_the_header_shows_the_outcome_by_sign_and_word(item: ToolItem, header: str) -> None:
    assert shown(item) == header


def test_the_time_of_a_running_call_advances_with_ticks() -> None:
    block = make_block(tool("Bash make", status="running", began=100.0))
    assert not block.tick(100.4)
    assert block.tick(101.2)
    assert not block.tick(101.9)
    assert screen(block) == "● Bash make · 1 s"
    assert block.tick(175.0)
    assert screen(block) == "● Bash make · 1 min 15 s"


def test_a_long_title_is_cut_so_that_the_rest_is_visible_and_can_be_opened() -> None:
    block = make_block(tool("Bash " + "echo long " * 20, summary="exit code 1", status="failed"))
    assert screen(block, 40) == "✗ Bash echo long echo long echo long\n  echo long echo long… · exit code 1"
    assert block.foldable
    block.expanded = True
    assert screen(block, 40).count("echo") == 20


def test_a_command_of_many_lines_opens_with_its_call() -> None:
    command = "cat <<EOF\none\nEOF"
    block = make_block(tool("Bash cat <<EOF one EOF", {"kind": "text", "text": "one"}, input={"command": command}))
    assert screen(block) == "✓ Bash cat <<EOF one EOF\n  │ one"
    assert block.foldable
    block.expanded = True
    assert screen(block) == "✓ Bash cat <<EOF one EOF\n  │ cat <<EOF\n  │ one\n  │ EOF\n  │ one"


def test_live_output_shows_its_end_and_how_much_is_above() -> None:
    block = make_block(tool("Bash make", status="running"))
    block.grow(numbered(30) + "\n")
    block.grow("line 31")
    above = "  │ … 23 more lines above · Ctrl+O\n"
    assert screen(block) == "● Bash make\n" + above + "\n".join(f"  │ line {number}" for number in range(24, 32))
    block.expanded = True
    assert len(block.layout(60, PALETTE)) == 32
    block.grow(" and more\nline 32")
    assert screen(block).split("\n")[-2:] == ["  │ line 31 and more", "  │ line 32"]


def test_endless_output_uses_bounded_memory() -> None:
    block = make_block(tool("Bash yes", status="running"))
    chunk = "y\n" * 50_000
    for _ in range(100):
        block.grow(chunk)
    assert len(block.source) < 3 * rows.MAX_KEPT
    assert "… 4,999,992 more lines above" in screen(block)


def test_a_progress_bar_overwrites_its_row_while_the_command_runs() -> None:
    block = make_block(tool("Bash fetch", status="running"))
    for piece in ("begun\nfetch 1%", "\rfetch 20%", "\rfetch 100%\nunpack 1%", "\runpack"):
        block.grow(piece)
    assert screen(block) == "● Bash fetch\n  │ begun\n  │ fetch 100%\n  │ unpack"
    block.expanded = True
    assert screen(block) == "● Bash fetch\n  │ begun\n  │ fetch 100%\n  │ unpack"
    block.grow("\r")
    assert screen(block) == "● Bash fetch\n  │ begun\n  │ fetch 100%"


def coloured_parts(block: Block, style: Style) -> list[str]:
    lines = block.layout(60, PALETTE)
    return [text for line in lines for text, look, _control in line.strip if look and look.color == style.color]


def test_live_output_keeps_its_colours_folded_and_opened() -> None:
    block = make_block(tool("Bash test", status="running"))
    block.grow(numbered(20) + "\n")
    block.grow("ok one\nbar", ((0, 2, "green"), (7, 10, "red")))
    block.grow("\rpassed two", ((0, 6, "bold green"),))
    for block.expanded in (False, True):
        assert coloured_parts(block, PALETTE.success) == ["ok", "passed"]
        assert coloured_parts(block, PALETTE.error) == []


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_command_that_has_ended_keeps_its_colours_folded_and_opened(status: str) -> None:
    text = numbered(30) + "\n\n3 failed, 2 passed"
    place = len(text)
    colours = [[0, 4, "blue"], [place - 18, place - 10, "red"], [place - 8, place, "green"], [9_999, 10_000, "x"]]
    block = make_block(tool("Bash test", {"kind": "text", "text": text, "colours": colours}, status=status))
    assert coloured_parts(block, PALETTE.success) == (["✓ "] if status == "done" else []) + ["2 passed"]
    assert "3 failed" in coloured_parts(block, PALETTE.error)
    assert "line" not in coloured_parts(block, PALETTE.link)
    block.expanded = True
    assert coloured_parts(block, PALETTE.link) == ["line"]


def test_a_running_command_counts_all_lines_above_also_those_that_were_never_shown() -> None:
    block = make_block(tool("Bash yes", status="running"))
    block.grow(numbered(10) + "\n")
    block.count_lines(10)
    assert "… 2 more lines above" in screen(block)
    block.grow("\r" + numbered(20) + "\n")
    block.count_lines(5_000)
    assert "… 4,992 more lines above" in screen(block)
    block.grow("the next\n")
    assert "… 4,993 more lines above" in screen(block)


def test_a_command_that_has_ended_says_how_many_lines_there_are_above_not_how_many_were_kept() -> None:
    kept = "\n".join(["y"] * 7_500 + ["", "[… 137,000 characters left out …]", ""] + ["y"] * 7_500)
    for status in ("done", "interrupted"):
        display = {"kind": "text", "text": kept, "lines": 76_000}
        item = ToolItem(id="t", name="Bash", title="Bash yes", status=status, display=display)  # type: ignore[arg-type]
        assert "… 75,992 more lines above" in shown(item, 80)
    whole = ToolItem(id="t", name="Bash", title="Bash yes", status="done", display={"kind": "text", "text": kept})
    assert "… 14,995 more lines above" in shown(whole, 80)


def test_an_interrupted_call_keeps_its_output() -> None:
    block = make_block(tool("Bash make", status="running"))
    block.grow("half\n")
    block.replace(tool("Bash make", status="interrupted", output="<tool_use_error>Interrupted.</tool_use_error>"))
    assert screen(block) == "■ Bash make · interrupted\n  │ half"


def test_a_call_that_ended_shows_its_result_in_place_of_the_live_output() -> None:
    block = make_block(tool("Bash make", status="running"))
    block.grow("half\n")
    block.replace(tool("Bash make", {"kind": "text", "text": "whole"}, output="whole, for the model"))
    assert screen(block) == "✓ Bash make\n  │ whole"


@pytest.mark.parametrize(("status", "count"), [("done", 8), ("failed", 16)])
def test_a_command_shows_the_end_of_its_output_and_more_of_it_when_it_failed(status: str, count: int) -> None:
    text = shown(tool("Bash make", {"kind": "text", "text": numbered(50)}, status=status, summary="exit code 1"))
    assert f"… {50 - count} more lines above" in text
    assert text.endswith("│ line 50")
    assert len(text.split("\n")) == count + 2


def test_a_read_shows_its_size_and_its_text_when_opened() -> None:
    display = {"kind": "code", "text": "import os\n\nx = 1", "start": 9, "path": "a.py", "language": "python"}
    item = tool("Read a.py", display, summary="3 lines")
    assert shown(item) == "✓ Read a.py · 3 lines"
    assert shown(item, expanded=True) == "✓ Read a.py · 3 lines\n  │  9  import os\n  │ 10\n  │ 11  x = 1"
    assert make_block(item).source == "Read a.py\n3 lines\nimport os\n\nx = 1"


def test_all_tasks_are_shown_with_a_sign_each() -> None:
    todos = [
        {"content": "Find", "status": "completed", "activeForm": "Finding"},
        {"content": "Fix", "status": "in_progress", "activeForm": "Fixing"},
        *({"content": f"Test {number}", "status": "pending"} for number in range(30)),
    ]
    text = shown(tool("Todos: 1 of 32 done", {"kind": "todos", "todos": todos}, name="TodoWrite"))
    assert text.split("\n")[:4] == ["✓ Todos: 1 of 32 done", "  │ ✓ Find", "  │ ● Fixing", "  │ ○ Test 0"]
    assert len(text.split("\n")) == 33


def test_a_change_is_shown_as_a_diff_in_one_column_or_two() -> None:
    item = tool(
        "Edit a.py", {"kind": "diff", "diff": "@@ -7,1 +7,1 @@\n-x = 1\n+x = 2", "path": "a.py"}, summary="+1 −1"
    )
    assert shown(item, 40) == "✓ Edit a.py · +1 −1\n  │ 7 - x = 1\n  │ 7 + x = 2"
    wide = shown(item, 120).split("\n")
    assert len(wide) == 2
    assert re.fullmatch(r"  │ 7 - x = 1 +│ 7 \+ x = 2", wide[1])


def test_a_long_change_is_folded_and_lines_beside_one_another_count_as_two() -> None:
    change = "@@ -1,40 +1,40 @@\n" + "\n".join(f"-old {n}" for n in range(40)) + "\n"
    change += "\n".join(f"+new {n}" for n in range(40))
    item = tool("Edit a", {"kind": "diff", "diff": change, "path": "a"})
    assert shown(item, 60).endswith("… 56 more lines · Ctrl+O")
    assert shown(item, 140).endswith("… 32 more lines · Ctrl+O")
    assert len(shown(item, 60, expanded=True).split("\n")) == 81


def test_folded_text_can_be_searched() -> None:
    found = [{"path": "a.py", "line": 1, "text": "needle"}]
    assert make_block(tool("Grep x", {"kind": "matches", "rows": found})).source == "Grep x\na.py\nneedle"
    both = {"kind": "matches", "rows": found, "text": "a.py:1:needle"}
    assert make_block(tool("Grep x", both)).source == "Grep x\na.py:1:needle"
    todos = {"kind": "todos", "todos": [{"content": "Fix", "status": "pending"}]}
    assert make_block(tool("Todos", todos)).source == "Todos\nFix"
    search = {"kind": "search", "text": "said", "results": [{"title": "A", "url": "https://a.b"}]}
    assert make_block(tool("Search", search)).source == "Search\nsaid\nA\nhttps://a.b"


# -------------------------------------------------------------------------------------------------------- quiet lines


def test_a_boundary_is_a_rule_across_the_width_around_its_text() -> None:
    item = BoundaryItem(id="b", text="compacted: 84k → 6k tokens")
    line = make_block(item).layout(40, PALETTE)[0]
    assert line.strip.text == "────── compacted: 84k → 6k tokens ──────"
    assert line.text == item.text
    assert line.strip.text[line.indent :].startswith(item.text)
    assert shown(item, 16) == "compacted: 84k →\n6k tokens"


def test_the_answer_of_a_command_shows_both_ends_when_it_is_long() -> None:
    text = shown(OutputItem(id="o", text=numbered(100)))
    assert text.split("\n")[29:32] == ["  line 30", "  … 58 more lines · Ctrl+O", "  line 89"]
    assert len(shown(OutputItem(id="o", text=numbered(100)), expanded=True).split("\n")) == 100
    assert shown(OutputItem(id="o", text="no such thing", failed=True)) == "✗ no such thing"
    assert shown(OutputItem(id="o", text="")) == "  (no output)"


# -------------------------------------------------------------------------------------------------------- hostile text


HOSTILE = (
    "\x1b]0;title\x07\x1b[31mred\x9b2J\u202eevil\u2066\ud800 日本語 👩‍👩‍👧‍👦 e\u0301\tx\r\n[bold]no markup[/] \x00"
)
text = st.one_of(
    st.text(max_size=120),
    st.text(st.sampled_from("ab \n\t日👩\u200d👧🏽\u0301\u202e\x1b[]0m"), max_size=200),
    st.integers(1, 60).map(lambda count: "\n".join(["line"] * count)),
    st.sampled_from([HOSTILE, "x" * 3_000, "日" * 500, "\u0301" * 900, " " * 300]),
)
KEYS = """text diff path rows todos questions answers plan results command start options title url prompt question
answer content status label line match count language activeForm description private folder"""
KINDS = "diff code text matches command fetch search todos questions answers mode image markdown plan unknown"
keys = st.sampled_from(KEYS.split())
values = st.recursive(
    st.one_of(text, st.integers(), st.none(), st.booleans(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
kinds = st.sampled_from(KINDS.split())
displays = st.dictionaries(keys, values, max_size=5).flatmap(lambda d: kinds.map(lambda kind: {"kind": kind, **d}))
names = st.sampled_from(["Bash", "Read", "Edit", "mcp__x", ""])
statuses = st.sampled_from(["writing", "waiting", "running", "done", "failed", "denied", "interrupted"])
levels = st.sampled_from(["info", "warning", "error"])
number = st.floats(0, 1e7)
items = st.one_of(
    st.builds(WelcomeItem, id=st.just("i"), version=text, lines=st.lists(text, max_size=5).map(tuple)),
    st.builds(PromptItem, id=st.just("i"), text=text, images=st.integers(0, 3)),
    st.builds(ThinkingItem, id=st.just("i"), text=text, seconds=st.none() | number),
    st.builds(
        ToolItem,
        id=st.just("i"),
        name=names,
        title=text,
        status=statuses,
        output=text,
        summary=text,
        input=st.dictionaries(keys, values, max_size=2),
        display=st.just({}) | displays,
        duration_ms=st.integers(0, 10**9),
        began=number,
    ),
    st.builds(NoticeItem, id=st.just("i"), text=text, level=levels),
    st.builds(
        OutputItem,
        id=st.just("i"),
        text=text,
        kind=st.sampled_from(["text", "diff", "markdown"]),
        failed=st.booleans(),
        title=st.just("") | text,
    ),
    st.builds(BoundaryItem, id=st.just("i"), text=text),
    st.builds(EndItem, id=st.just("i"), text=text, level=levels, errors=st.lists(text, max_size=3).map(tuple)),
)


@given(items, st.integers(1, 200), st.booleans(), text)
def test_no_item_breaks_its_block_at_any_width(item: Item, width: int, expanded: bool, grown: str) -> None:
    block = make_block(item)
    block.expanded = expanded
    block.tick(5.0)
    if isinstance(item, ThinkingItem | ToolItem):
        check(block.layout(width, PALETTE), width)
        block.grow(grown)
    check(block.layout(width, PALETTE), width)
    block.replace(item)
    block.forget()
    check(block.layout(max(1, width // 2), PALETTE), max(1, width // 2))
    assert isinstance(block.source, str)


def check(lines: Sequence[BlockLine], width: int) -> None:
    assert lines
    for line in lines:
        assert line.strip.cell_length <= width
        assert sum(segment.cell_length for segment in line.strip) == line.strip.cell_length
        assert not FORBIDDEN.search(line.strip.text)
        assert all(segment.control is None for segment in line.strip)


LONG = {
    "one line of 200 kB": "x" * 200_000,
    "20,000 lines": "word word\n" * 20_000,
    "200 kB without a width": "\u0301" * 200_000,
    "4,000 long lines": ("word " * 40 + "\n") * 4_000,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize(
    "make",
    [
        lambda text: PromptItem(id="i", text=text),
        lambda text: ThinkingItem(id="i", text=text),
        lambda text: NoticeItem(id="i", text=text),
        lambda text: OutputItem(id="i", text=text),
        lambda text: EndItem(id="i", text=text, errors=(text,), level="error"),
        lambda text: WelcomeItem(id="i", version=text, lines=(text,)),
        lambda text: BoundaryItem(id="i", text=text),
        lambda text: tool("Bash " + text, status="running", output=text),
        lambda text: tool("Bash x", {"kind": "text", "text": text}, summary=text[:200]),
        lambda text: tool("Read x", {"kind": "code", "text": text}),
        lambda text: tool("mcp__x", {"kind": "text", "text": text}),
        lambda text: tool("Edit x", {"kind": "diff", "diff": f"@@ -1,9 +1,9 @@\n+{text}", "path": "x.py"}),
        lambda text: tool("Grep x", {"kind": "matches", "rows": [{"path": "a", "line": 1, "text": text}] * 9}),
    ],
)
def test_folded_blocks_process_only_the_visible_part(make: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    real = rows.wrap

    def counting(runs: Any, *rest: Any) -> list[BlockLine]:
        nonlocal read
        read += sum(len(text) for text, _style in runs)
        return real(runs, *rest)

    for module in ("rows", "displays", "diff", "items", "tool"):
        monkeypatch.setattr(f"agentcli.tui.blocks.{module}.wrap", counting, raising=False)
    lines = make_block(make(LONG[name])).layout(100, PALETTE)
    assert 0 < len(lines) <= 60
    assert read < 60_000
