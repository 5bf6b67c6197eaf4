"""Quiet calls in one line: which ones fold, what the line says, and how it opens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from agentcli.core.permission import PermissionMode
from agentcli.tui.app import AgentApp
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import Above, Add, AnswerItem, Item, NoticeItem, Remove, Replace, ThinkingItem, ToolItem
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.items import TranscriptItems, is_quiet, role_of, summary
from tests.support.scripts import call, reply, think
from tests.support.tables import each_row
from tests.tui.test_app import Desk, idle, rows, sends, shown, until


def tool(id: str, name: str = "Read", **values: Any) -> ToolItem:
    values.setdefault("status", "done")
    return ToolItem(id=id, name=name, title=f"{name} {id}", **values)


def bash(id: str, text: str = "ok", **values: Any) -> ToolItem:
    return tool(id, "Bash", display={"kind": "text", "text": text}, **values)


@each_row(
    ("item", "expected"),
    [
        (tool("a"), True),
        (tool("a", "Grep"), True),
        (bash("a"), True),
        (bash("a", "\n".join("12345678")), True),
        (bash("a", "\n".join("123456789")), False),
        (bash("a", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b"), False),
        (bash("a", has_changes=True), False),
        (bash("a", background=True), False),
        (bash("a", learned="Bash(ls *) is allowed"), False),
        (tool("a", status="failed"), False),
        (tool("a", status="running"), False),
        (tool("a", "Edit"), False),
        (tool("a", "Write"), False),
        (tool("a", "TodoWrite"), False),
        (tool("a", "!"), False),
        (tool("a", "mcp__server__tool"), False),
        (AnswerItem(id="a", text="x"), False),
    ],
)
def test_only_calls_that_the_user_need_not_see_are_quiet(item: Item, expected: bool) -> None:
    assert is_quiet(item) is expected


def test_the_line_counts_files_once_and_names_everything_in_its_order() -> None:
    items = [
        tool("a", input={"file_path": "x.py"}),
        bash("b"),
        tool("c", input={"file_path": "x.py"}),
        ThinkingItem(id="d", text="hm", seconds=12),
        tool("e", input={"file_path": "y.py"}),
        tool("f", "Grep"),
        bash("g"),
    ]
    assert summary(items) == "Read 2 files, ran 2 commands, searched for 1 pattern, thought for 12 s"


def conversation() -> TranscriptItems:
    made = TranscriptItems(make_block, Palette())
    made.set_width(60)
    return made


def screen(made: TranscriptItems) -> list[str]:
    return [line.strip.text.rstrip() for entry in made.stack for line in made.lines(entry)]


KINDS = {
    "quiet": lambda name: tool(name),
    "loud": lambda name: tool(name, "Edit"),
    "running": lambda name: tool(name, status="running"),
    "thought": lambda name: ThinkingItem(id=name, text="hm", seconds=1),
    "text": lambda name: NoticeItem(id=name, text="x"),
}
CHANGES = st.tuples(st.integers(0, 9), st.sampled_from([*KINDS, "gone"]))


def runs_of(items: Sequence[Item]) -> list[list[str]]:
    """The runs by their definition: quiet calls with only thoughts between them, at least two."""
    found: list[list[Item]] = [[]]
    for item in items:
        if role_of(item):
            found[-1].append(item)
        else:
            found.append([])
    runs = []
    for run in found:
        quiet = [place for place, item in enumerate(run) if is_quiet(item)]
        if len(quiet) > 1:
            runs.append([item.id for item in run[quiet[0] : quiet[-1] + 1]])
    return runs


@given(st.lists(CHANGES, max_size=40), st.lists(st.sampled_from([*KINDS]), max_size=8))
def test_runs_are_right_after_any_changes(changes: list[tuple[int, str]], above: list[str]) -> None:
    made = conversation()
    for number, kind in changes:
        known = made.stack.get(str(number))
        if kind == "gone":
            made.apply([Remove(str(number))])
        elif known is None or type(known.block.item) is type(item := KINDS[kind](str(number))):
            made.apply([Add(KINDS[kind](str(number)))])
        else:
            made.apply([Replace(item)])
    made.apply([Above(tuple(KINDS[kind](f"above-{number}") for number, kind in enumerate(above)))])
    found: list[list[str]] = []
    for entry in made.stack:
        if (fold := entry.fold) is not None and fold.entries[0] is entry:
            found.append([one.block.item.id for one in fold.entries])
            assert all(one.fold is fold for one in fold.entries)
    assert found == runs_of([entry.block.item for entry in made.stack])
    hidden = {id for run in found for id in run[1:]}
    for entry in made.stack:
        assert bool(made.lines(entry)) == (entry.block.item.id not in hidden)


def test_a_call_that_turns_out_loud_leaves_its_run() -> None:
    made = conversation()
    made.apply(Add(tool(id)) for id in "abcde")
    assert screen(made) == ["▸ Read 5 files · Ctrl+O"]
    made.apply([Replace(tool("c", status="failed", summary="gone"))])
    assert screen(made) == ["▸ Read 2 files · Ctrl+O", "✗ Read c · gone", "▸ Read 2 files · Ctrl+O"]


def test_details_open_every_run_and_close_it_again() -> None:
    made = conversation()
    made.apply([Add(tool("a")), Add(bash("b", "output")), Add(bash("c"))])
    assert screen(made) == ["▸ Read 1 file, ran 2 commands · Ctrl+O"]
    made.toggle_details()
    assert screen(made)[:3] == ["▾ Read 1 file, ran 2 commands", "✓ Read a", "✓ Bash b"]
    assert "  │ output" in screen(made)
    made.apply([Add(tool("d"))])
    assert "✓ Read d" in screen(made)
    made.toggle_details()
    assert screen(made) == ["▸ Read 2 files, ran 2 commands · Ctrl+O"]


LOOKS = (call("Read", file_path="parser.py"), call("Bash", command="echo quiet", description="Say it"))


def test_quiet_calls_are_one_line_that_opens_with_a_click_or_a_key_and_looks_the_same_after_a_resume(
    tmp_path: Path,
) -> None:
    line = "▸ Read 1 file, ran 2 commands · Ctrl+O"

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "look")
        await idle(pilot, app)
        seen(app)
        await pilot.click(type(app.chat.transcript), offset=(4, rows(app).index(line)))
        await until(pilot, lambda: "▾ Read 1 file, ran 2 commands" in shown(app))
        assert "✓ Bash Say it\n  │ $ echo quiet\n  │ quiet" in shown(app)
        await pilot.click(type(app.chat.transcript), offset=(4, rows(app).index("▾ Read 1 file, ran 2 commands")))
        await until(pilot, lambda: line in shown(app))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "$ echo quiet" in shown(app))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: line in shown(app))
        await pilot.press("ctrl+f", *"quiet")
        await until(pilot, lambda: "$ echo quiet" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: line in shown(app))
        assert "echo quiet" in app.chat.transcript.source_text(), "nothing is lost"

    def seen(app: AgentApp) -> None:
        marked = [row for row in rows(app) if row.startswith(("▸", "✓", "✗", "◆"))]
        assert [row for row in marked if not row.endswith("turns")] == [
            "◆ I look.",
            line,
            "✗ Bash false · exit code 1",
            "✓ Bash touch it · changed 1 file",
            "◆ Done.",
        ]

    async def again(pilot: Pilot[int], app: AgentApp) -> None:
        await idle(pilot, app)
        seen(app)

    quiet = reply("I look.", *LOOKS), reply(think("hm"), call("Bash", command="true"))
    loud = reply(call("Bash", command="false"), call("Bash", command="touch it"))
    Desk(tmp_path, *quiet, loud, "Done.", permission_mode=PermissionMode.BYPASS).play(script, (80, 40))
    Desk(tmp_path, permission_mode=PermissionMode.BYPASS, continue_latest=True).play(again, (80, 40))


def test_the_running_call_is_live_below_the_line_of_those_before(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "look")
        await until(pilot, lambda: "● Bash echo live" in shown(app) and "  │ live" in shown(app))
        assert "▸ Read 1 file, ran 1 command · Ctrl+O" in rows(app)
        (tmp_path / "go").touch()
        await idle(pilot, app)
        assert "▸ Read 1 file, ran 2 commands · Ctrl+O" in rows(app)

    wait = call("Bash", command="echo live; until [ -e ../go ]; do sleep 0.05; done")
    desk = Desk(tmp_path, reply(*LOOKS, wait), "Done.", permission_mode=PermissionMode.BYPASS)
    desk.play(script)
