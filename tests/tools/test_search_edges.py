"""Edge cases of Glob and Grep: long lines, line breaks in names and patterns, ignored files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.tools.base import ToolContext
from agentcli.tools.search.glob import Glob
from agentcli.tools.search.grep import Grep
from tests.tools.running import context_in, hits_of, run

pytestmark = pytest.mark.anyio


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path)


def first_of(text: str) -> str:
    return text.partition("\n\n")[0]


@pytest.mark.parametrize("filler", ["x", "ä"])
async def test_a_long_line_is_shown_around_its_match(filler: str, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "long.js").write_text(f"first\n{filler * 100_000}NEEDLE{'y' * 10_000}\nlast\n")
    text = hits_of(await run(Grep(), context, pattern="NEEDLE", output_mode="content", dash_C=1))
    before, line, after = first_of(text).splitlines()
    assert (before, after) == ("long.js-1-first", "long.js-3-last")
    column = len((filler * 100_000).encode()) + 1
    assert line.startswith(f"long.js:2:[at column {column:,}] …{filler}")
    assert f"{filler}NEEDLEyyy" in line
    assert "\ufffd" not in line
    assert line.endswith("y…")
    assert len(line) < 600


async def test_a_match_at_the_very_end_of_a_long_line_ends_with_it(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "long.js").write_text(f"{'x' * 700}NEEDLE\nother\n")
    text = hits_of(await run(Grep(), context, pattern="NEEDLE", output_mode="content"))
    assert first_of(text) == f"long.js:1:[at column 701] …{'x' * 100}NEEDLE"


async def test_a_long_line_that_matches_early_is_shown_from_its_beginning(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "long.js").write_text(f"NEEDLE{'x' * 900}\n")
    text = hits_of(await run(Grep(), context, pattern="NEEDLE", output_mode="content"))
    assert text.startswith("long.js:1:NEEDLExxx")
    assert "omitted end of long line" in text


@pytest.mark.parametrize("pattern", ["one\\ntwo", "one\ntwo", r"one\\?\ntwo"])
async def test_a_line_break_in_a_pattern_enables_multiline(pattern: str, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    text = hits_of(await run(Grep(), context, pattern=pattern))
    assert first_of(text) == "a.txt"
    assert "[The pattern has a line break in it, so multiline was switched on.]" in text


@pytest.mark.parametrize("pattern", [r"one[^\n]*", r"C:\\new", "one"])
async def test_other_patterns_do_not_enable_multiline(pattern: str, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one C:\\new\ntwo\n")
    text = hits_of(await run(Grep(), context, pattern=pattern))
    assert first_of(text) == "a.txt"
    assert "switched on" not in text


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("files_with_matches", "a␊b.txt"), ("content", "a␊b.txt:1:hit"), ("count", "a␊b.txt:1")],
)
async def test_a_name_with_a_line_break_is_one_row(
    mode: str, expected: str, context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "a\nb.txt").write_text("hit\n")
    output = await run(Grep(), context, pattern="hit", output_mode=mode)
    assert first_of(hits_of(output)) == expected
    assert len(output.display["rows"]) == 1
    assert first_of(hits_of(await run(Glob(), context, pattern="*.txt"))) == "a␊b.txt"


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
async def test_a_hidden_name_with_a_line_break_stays_hidden(mode: str, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a\nb.txt").write_text("hit\n")
    hiding = context_in(tmp_path, hides=lambda path: path.endswith("/a\nb.txt"))
    assert first_of(hits_of(await run(Grep(), hiding, pattern="hit", output_mode=mode))) == "No matches."


async def test_a_note_about_ignored_files_is_shown_where_there_are_ignore_files(
    context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").touch()
    assert first_of(hits_of(await run(Grep(), context, pattern="hit", path="sub"))) == "No matches."
    assert first_of(hits_of(await run(Glob(), context, pattern="*.none", path="sub"))) == "No files match **/*.none."
    (tmp_path / ".gitignore").write_text("build/\n")
    note = " (Files that .gitignore excludes were not looked at.)"
    assert first_of(hits_of(await run(Grep(), context, pattern="hit", path="sub"))) == f"No matches.{note}"
    assert first_of(hits_of(await run(Glob(), context, pattern="*.none"))) == f"No files match **/*.none.{note}"
    assert first_of(hits_of(await run(Grep(), context, pattern="hit", path="sub/a.txt"))) == "No matches."


async def test_files_beyond_the_first_hundred_can_be_paged_to(context: ToolContext, tmp_path: Path) -> None:
    for number in range(230):
        (tmp_path / f"{number:03}.txt").touch()
    seen: list[str] = []
    for offset in (0, 100, 200):
        text = hits_of(await run(Glob(), context, pattern="*.txt", offset=offset))
        seen += first_of(text).splitlines()
        assert (f"[{130 - offset} more files match. Continue with offset {offset + 100}," in text) == (offset < 200)
    assert len(seen) == len(set(seen)) == 230
    past = hits_of(await run(Glob(), context, pattern="*.txt", offset=500))
    assert first_of(past) == "No files past offset 500; 230 match."
