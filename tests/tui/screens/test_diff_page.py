"""`/diff` in the app: the page at every size, its keys, and diffs in the output of commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.commands.diff import Changes, sort_changes
from agentcli.core.permission import PermissionMode
from agentcli.tui.app import AgentApp
from agentcli.tui.blocks.diff import MAX_FILE_LINES, FileView, page_rows
from agentcli.tui.screens.diff import DiffPage
from agentcli.tui.screens.page import LONG
from agentcli.tui.theme.palette import Palette
from agentcli.workspace.base import DiffScope, FileChange, FolderDiff, WorkspaceDiff
from tests.support.scripts import call, reply
from tests.tui.screen_host import Host, look, play, press, through_all_sizes
from tests.tui.test_app import Desk, idle, rows, sends, until
from tests.workspace.test_diff import committed, git

PATCH = """\
diff --git a/parser.py b/parser.py
index 1..2 100644
--- a/parser.py
+++ b/parser.py
@@ -1,3 +1,4 @@
 def head(text, end):
-    return text[0 : end - 1]
+    # The end is exclusive.
+    return text[0:end]
\x20
@@ -40,2 +41,1 @@ class Parser:
-    gone()
     kept()
diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
diff --git a/data.bin b/data.bin
index 1..2 100644
Binary files a/data.bin and b/data.bin differ
diff --git a/made.txt b/made.txt
new file mode 100644
--- /dev/null
+++ b/made.txt
@@ -0,0 +1,2 @@
+one
+two
"""
HUGE = FileChange("/p/huge.iso", "modified", "too large, no copy kept")


def changes_of(text: str, *notes: FileChange) -> Changes:
    return sort_changes(WorkspaceDiff((FolderDiff("/p", text, notes),)), Path("/p"))


class Source:
    """Where the page has its changes from, and the clipboard."""

    def __init__(self, **texts: str) -> None:
        self.changes = {name: changes_of(text, *([HUGE] if text == PATCH else [])) for name, text in texts.items()}
        self.asked: list[str] = []
        self.copied: list[str] = []

    async def load(self, scope: DiffScope) -> Changes:
        self.asked.append(scope)
        return self.changes.get(scope, Changes())

    async def copy(self, text: str) -> str:
        self.copied.append(text)
        return "copied"

    def page(self, scope: DiffScope = "session", palette: Palette | None = None) -> DiffPage:
        page = DiffPage(self.load, self.copy, scope)
        page.palette = palette or page.palette
        return page


def page(text: str = PATCH) -> DiffPage:
    return Source(session=text).page()


def test_the_page_reads_like_this() -> None:
    assert without_bar(look(page(), "|", size=(80, 24))) == """\
─── Changes of this session ────────────────────────────────────────────────────
 5 files changed in this session, +4 −2
 M +2 −2  parser.py
 R        new.txt  renamed from old.txt
 M        data.bin  binary
 A +2 −0  made.txt  new file
 M        huge.iso  changed, too large, no copy kept

 M parser.py  +2 −2 ──────────────────────────────────────────────────────────
  1   def head(text, end):
  2 -     return text[0 : end - 1]
  2 +     # The end is exclusive.
  3 +     return text[0:end]
  4
 ⋯ class Parser:
 40 -     gone()
 41       kept()

 R new.txt  renamed from old.txt ─────────────────────────────────────────────
   no lines to show

 M data.bin  binary ──────────────────────────────────────────────────────────
   no lines to show
 v side by side · / search · a since HEAD · h H hunk · f F file · Esc close"""  # fmt: skip


def without_bar(seen: str) -> str:
    """Without the ends of the scrollbar, which are glyphs."""
    return "\n".join(line.rstrip("▁▂▃▄▅▆▇ ") for line in seen.splitlines())


def test_on_a_small_screen_everything_can_be_reached() -> None:
    assert (
        without_bar(look(page(), "|", "f", size=(40, 10)))
        == """\
─── Changes of this session ────────────
 M parser.py                file 1 of 5
 M parser.py  +2 −2 ──────────────────
  1   def head(text, end):
  2 -     return text[0 : end - 1]
  2 +     # The end is exclusive.
  3 +     return text[0:end]
  4
 ⋯ class Parser:
 h H hunk · f F file · Esc close"""
    )


@pytest.mark.parametrize(
    ("keys", "width", "shown"),
    [
        ("|", 120, r" 2 -     return text\[0 : end - 1\] +│  3 \+     return text\[0:end\]"),
        ("|", 120, "side by side ─"),
        ("|", 120, r" 1 \+ one\n"),
        ("| v", 120, "v side by side"),
        ("| v", 80, "│"),
        ("| o | =made | enter |", 80, "\n A made.txt .*file 4 of 5"),
        ("| / =return enter n", 120, "^.* 2 of 2 "),
        ("| / =nowhere", 80, "not found"),
    ],
)
def test_the_page_shows_both_layouts_chosen_files_and_matches(keys: str, width: int, shown: str) -> None:
    seen = look(page(), keys, size=(width, 30))
    assert re.search(shown, seen)
    assert ("│" in seen) is ((width == 120 and "v" not in keys) or (keys == "| v" and width == 80))


def test_f_and_h_step_through_files_and_hunks_both_ways() -> None:
    where = []

    async def steps(pilot: Pilot[None], host: Host) -> None:
        for key in ("", *"fhhfffffFFHHHH"):
            await press(pilot, key)
            name, _gap, place = host.shown.splitlines()[1].strip().partition("  ")
            where.append(f"{key} {name} {place.strip()}")

    play(page(), steps, (80, 12))
    assert where == [
        " 5 files changed in this session, +4 −2 ",
        "f M parser.py file 1 of 5 · hunk 1 of 2",
        "h M parser.py file 1 of 5 · hunk 2 of 2",
        "h A made.txt file 4 of 5 · hunk 1 of 1",
        "f M huge.iso file 5 of 5",
        *["f M huge.iso file 5 of 5"] * 4,
        "F A made.txt file 4 of 5 · hunk 1 of 1",
        "F M data.bin file 3 of 5",
        "H M parser.py file 1 of 5 · hunk 2 of 2",
        "H M parser.py file 1 of 5 · hunk 1 of 2",
        *["H 5 files changed in this session, +4 −2 "] * 2,
    ]


def test_a_shows_all_changes_since_head_and_l_the_last_prompt_and_both_come_back() -> None:
    source = Source(session=PATCH, all=PATCH[PATCH.index("diff --git a/made.txt") :])
    seen = look(source.page(), "|", "a", "|")
    assert "─── All changes since HEAD ─" in seen
    assert "1 file changed since HEAD, +2 −0" in seen
    assert "a session" in seen
    seen = look(source.page(), "|", "l", "|")
    assert "The last prompt has not changed any files." in seen
    assert "l session · a since HEAD · Esc close" in seen
    seen = look(source.page("all"), "|", "a", "|")
    assert "5 files changed in this session" in seen


def test_a_match_far_below_is_scrolled_to() -> None:
    long = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -0,0 +1,900 @@\n" + "".join(f"+line {n}\n" for n in range(900))
    assert " 701 + line 700" in look(page(long), "|", "/", *"line 700", "enter", size=(80, 12))


def test_c_copies_the_diff_of_the_file_and_capital_c_everything_as_git_wrote_it() -> None:
    source = Source(session=PATCH)
    seen = look(source.page(), "|", "f", "c", "|", size=(80, 12))
    assert "parser.py: copied" in seen
    look(source.page(), "|", "C", "|")
    assert source.copied == [PATCH[: PATCH.index("diff --git a/old.txt")], PATCH]


def test_untrusted_text_is_neither_interpreted_nor_treated_as_markup() -> None:
    text = (
        'diff --git "a/\\033[31mred.py" "b/\\033[31mred.py"\n--- "a/\\033[31mred.py"\n+++ "b/\\033[31mred.py"\n'
        "@@ -1 +1,2 @@\n-[bold]a[/bold]\n+\x1b]52;c;AAAA\x07b\u202e\n+\x9b2J[@click=app.quit]x[/]\n"
    )
    seen = look(page(text), "|")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", seen)
    assert "[bold]a[/bold]" in seen
    assert "[@click=app.quit]x[/]" in seen
    assert "<U+202E>" in seen
    assert "␛[31mred.py" in seen


def test_every_size_works_and_escape_closes_it() -> None:
    play(page(), through_all_sizes)


def test_long_diffs_are_laid_out_in_a_thread() -> None:
    count = 2_000
    old = "".join(f"-old line {number}\n" for number in range(count))
    new = "".join(f"+new line {number}\n" for number in range(count))
    text = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,{count} +1,{count} @@\n{old}{new}"

    async def steps(pilot: Pilot[None], host: Host) -> None:
        sheet = host.sheet
        assert isinstance(sheet, DiffPage)
        assert sheet.size_of_body > LONG
        for _step in range(500):
            if sheet.scroller.row_count > count:
                break
            await pilot.pause(0.01)
        assert sheet.scroller.row_count == 2 * count + 3
        await press(pilot, "end", "|")
        assert "2000 + new line 1999" in host.shown

    play(page(text), steps, (80, 24))


def test_a_very_long_file_is_cut_and_the_next_one_still_shown() -> None:
    count = MAX_FILE_LINES + 7
    header = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1,{1} @@\n"
    text = header.format("long", count) + "+x\n" * count + header.format("next", 1) + "+" + "y" * 9_000 + "\n"
    views = [FileView(file.name, file.diff) for file in changes_of(text).files]
    rows = page_rows(views, 80, Palette(), two_columns=False)
    seen = [line.strip.text for line in rows.lines]
    assert "  … 7 more lines: too long for this page" in seen
    assert seen[-1].endswith("… (1,000 more characters)")
    assert len(rows.places) == len(rows.lines)


def test_the_file_that_was_jumped_to_stays_on_the_screen_when_the_window_gets_smaller() -> None:
    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "f", "f", "f", "f")
        assert " 2 + two" in host.shown
        for height in (14, 10):
            await pilot.resize_terminal(80, height)
            await pilot.pause()
            assert " 2 + two" in host.shown, host.shown
            assert " A made.txt " in host.shown.splitlines()[1]

    play(page(), steps)


# ------------------------------------------------------------------------------------------------ the assembled program

EDIT = "sed -i 's/end - 1/end/' parser.py; echo new > made.txt"


def test_the_app_shows_the_agents_changes_and_with_a_those_since_head(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "change it")
        await idle(pilot, app)
        (desk.project / "mine.txt").write_text("mine\n")
        await sends(pilot, app, "/diff")
        await until(pilot, lambda: "2 files changed in this session" in "\n".join(rows(app)))
        assert "mine.txt" not in "\n".join(rows(app))
        await pilot.press("f", "f")
        await until(pilot, lambda: "end - 1]" in "\n".join(rows(app)))
        await pilot.press("a")
        await until(pilot, lambda: "3 files changed since HEAD" in "\n".join(rows(app)))
        assert "mine.txt" in "\n".join(rows(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await sends(pilot, app, "/diff last")
        await until(pilot, lambda: "2 files changed by the last prompt" in "\n".join(rows(app)))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)

    desk = Desk(
        tmp_path, reply(call("Bash", command=EDIT)), "Done.", permission_mode=PermissionMode.BYPASS
    )  # fmt: skip
    committed(desk.project)
    desk.play(script)


def test_diffs_in_the_output_of_commands_and_shell_lines_are_rendered_and_open_whole(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "look")
        await idle(pilot, app)
        seen = "\n".join(rows(app))
        assert re.search(r"│ M parser.py  \+1 −1 ─+", seen)
        assert "│ 2 -     return text[0 : end - 1]" in seen
        assert "index " not in seen
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "index " in "\n".join(rows(app)))
        opened = "\n".join(rows(app))
        for line in git(desk.project, "diff").splitlines()[:4]:
            assert line in opened
        await pilot.press("ctrl+o")
        await sends(pilot, app, "!cp parser.py old.py; echo more >> parser.py; diff -u old.py parser.py")
        await until(pilot, lambda: "3 + more" in "\n".join(rows(app)))

    desk = Desk(tmp_path, reply(call("Bash", command="git diff")), "Done.", permission_mode=PermissionMode.BYPASS)
    committed(desk.project)
    path = desk.project / "parser.py"
    path.write_text(path.read_text().replace("end - 1", "end"))
    desk.play(script, (100, 40))
