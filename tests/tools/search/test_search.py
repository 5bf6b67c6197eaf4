"""Glob and Grep with the real ripgrep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController
from agentcli.core.messages import Json
from agentcli.tools.base import ToolContext
from agentcli.tools.search import ripgrep
from agentcli.tools.search.grep import Grep
from agentcli.tools.search.ripgrep import Glob
from tests.tools.running import context_in, hits_of, run

pytestmark = pytest.mark.anyio
IGNORED = " (Files that .gitignore excludes were not looked at.)"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "build").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\nignored.py\n")
    for age, name in enumerate(
        ["src/new.py", "src/deep/old.py", "build/out.py", "ignored.py", ".git/x.py", ".hidden.py", "a b.py"]
    ):
        path = tmp_path / name
        path.write_text(f"import os\n# needle {name}\nlast = 1\n")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return context_in(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.py", ["src/new.py", "src/deep/old.py", ".hidden.py", "a b.py"]),
        ("*.py", ["src/new.py", "src/deep/old.py", ".hidden.py", "a b.py"]),
        ("src/*.py", ["src/new.py"]),
        ("src/**", ["src/new.py", "src/deep/old.py"]),
        ("src/deep/old.py", ["src/deep/old.py"]),
        ("./src/*.py", ["src/new.py"]),
        ("src/{new,deep/old}.py", ["src/new.py", "src/deep/old.py"]),
    ],
)
async def test_files_are_listed_newest_first_without_ignored_ones(
    pattern: str, expected: list[str], context: ToolContext
) -> None:
    assert hits_of(await run(Glob(), context, pattern=pattern)).splitlines() == expected


async def test_an_absolute_pattern_and_a_path_are_understood(context: ToolContext) -> None:
    assert hits_of(await run(Glob(), context, pattern=f"{context.cwd}/src/*.py")) == "src/new.py"
    assert hits_of(await run(Glob(), context, pattern="*.py", path="src/deep")) == "src/deep/old.py"
    (need,) = Glob().needs({"pattern": "/etc/*.conf"}, context)
    assert (need.kind, need.target) == ("read", "/etc")
    (need,) = Glob().needs({"pattern": "../../x/*.conf"}, context)
    assert need.target == str(context.cwd.parent.parent / "x")


async def test_missing_files_and_folders_are_reported(context: ToolContext) -> None:
    assert hits_of(await run(Glob(), context, pattern="*.nothing")) == f"No files match **/*.nothing.{IGNORED}"
    assert (await run(Glob(), context, pattern="*", path="missing")).is_error


async def test_odd_file_names_are_harmless(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "we\x1b[31mird\n.odd").touch()
    (tmp_path / os.fsdecode(b"bad\xff.odd")).touch()
    text = hits_of(await run(Glob(), context, pattern="*.odd"))
    assert "\x1b" not in text
    assert "\ufffd" in text


async def test_circular_links_are_not_followed(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "src/loop").symlink_to(tmp_path)
    assert "loop/" not in hits_of(await run(Glob(), context, pattern="**/*.py"))


MATCHES = [
    ({}, [".hidden.py", "a b.py", "src/deep/old.py", "src/new.py"]),
    ({"pattern": "needle(?= src/new)"}, ["src/new.py"]),
    ({"pattern": "--pre=sh"}, [f"No matches.{IGNORED}"]),
    ({"path": "src/new.py", "output_mode": "content", "-C": 1},
        ["src/new.py:", "1-import os", "2:# needle src/new.py", "3-last = 1"]),
    ({"pattern": "NEEDLE", "path": "src/new.py", "output_mode": "content", "-i": True, "-n": False},
        ["src/new.py:", "# needle src/new.py"]),
    ({"pattern": "os.*last", "path": "src/new.py"}, ["No matches."]),
    ({"pattern": "os.*last", "path": "src/new.py", "multiline": True}, ["src/new.py"]),
    ({"pattern": r"os\n# needle src/new"}, ["src/new.py"]),
    ({"pattern": r"new[^\n]*py"}, ["src/new.py"]),
    ({"glob": "*.py"}, [".hidden.py", "a b.py", "src/deep/old.py", "src/new.py"]),
    ({"glob": "new.py"}, ["src/new.py"]),
    ({"glob": "new.* old.*"}, ["src/deep/old.py", "src/new.py"]),
    ({"glob": "{new,old}.py"}, ["src/deep/old.py", "src/new.py"]),
    ({"glob": "*.py,*.md !old.py"}, [".hidden.py", "a b.py", "src/new.py"]),
    ({"glob": "src/deep/*.py"}, ["src/deep/old.py"]),
    ({"glob": "**/deep/**"}, ["src/deep/old.py"]),
    ({"glob": "*.[pq]y !src/**"}, [".hidden.py", "a b.py"]),
    ({"glob": "new.*", "type": "py"}, ["src/new.py"]),
    ({"type": "js"}, [f"No matches.{IGNORED}"]),
    ({"head_limit": 3, "offset": 3}, ["src/new.py"]),
    ({"offset": 10}, ["No matches past offset 10."]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), MATCHES)
async def test_files_and_lines_that_match_are_shown(given: Json, expected: list[str], context: ToolContext) -> None:
    assert hits_of(await run(Grep(), context, **{"pattern": "needle", **given})).splitlines() == expected


async def test_results_are_limited_counted_and_can_be_paged(context: ToolContext, tmp_path: Path) -> None:
    first = await run(Grep(), context, pattern="needle", head_limit=3)
    assert first.summary == "4 files"
    assert "Continue with offset 3" in hits_of(first)
    (tmp_path / "many.txt").write_text("hit\n" * 1000)
    output = await run(Grep(), context, pattern="hit", output_mode="content", head_limit=10, offset=5)
    lines = hits_of(output).splitlines()
    assert lines[:2] == ["many.txt:6:hit", "many.txt:7:hit"]
    assert lines[-1] == "[985 more lines. Continue with offset 15, or narrow the search.]"
    assert output.summary == "1,000 matching lines in 1 file"


async def test_a_wrong_type_and_a_missing_path_are_errors(context: ToolContext) -> None:
    assert "unrecognized file type" in hits_of(await run(Grep(), context, pattern="needle", type="nonsense"))
    assert "does not exist" in hits_of(await run(Grep(), context, pattern="x", path="missing"))


async def test_the_users_ripgrep_configuration_is_ignored(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("--files-without-match\n")
    changed = context_in(tmp_path, environ={**os.environ, "RIPGREP_CONFIG_PATH": str(tmp_path / "rc")})
    assert "src/new.py" in hits_of(await run(Grep(), changed, pattern="needle")).splitlines()


async def test_an_abort_ends_a_search(context: ToolContext, tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort()
    output = await run(Grep(), context, controller.signal, pattern="needle")
    assert (output.is_error, output.summary) == (True, "stopped")


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs outside of the working directory."""
    return tmp_path_factory.mktemp("programs")


async def test_a_search_that_takes_too_long_is_ended(
    context: ToolContext, tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "rg").write_text("#!/bin/sh\nprintf 'found.py\\0'\nsleep 100\n")
    (programs / "rg").chmod(0o755)
    monkeypatch.setattr(ripgrep, "TIME_LIMIT", 0.2)
    slow = context_in(tmp_path, environ={"PATH": f"{programs}:{os.environ['PATH']}"})
    text = hits_of(await run(Grep(), slow, pattern="x"))
    assert text.startswith("found.py\n")
    assert "was ended after" in text


async def test_ripgrep_is_found_beside_the_interpreter(context: ToolContext, tmp_path: Path) -> None:
    assert ripgrep.find_ripgrep({"PATH": str(tmp_path)}, [tmp_path]) is not None


@pytest.mark.parametrize("entry", ["{project}/.venv/bin", "{outside}", ".venv/bin", ""])
async def test_a_planted_ripgrep_is_never_run(
    entry: str, tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / ".venv" / "bin" / "rg"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {programs}/sprung\n")
    planted.chmod(0o755)
    (programs / "rg").symlink_to(planted)
    (tmp_path / "rg").symlink_to(planted)
    (tmp_path / "a.py").write_text("thread\n")
    monkeypatch.chdir(tmp_path)
    folder = entry.format(project=tmp_path, outside=programs)
    context = context_in(tmp_path, environ={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert hits_of(await run(Grep(), context, pattern="thread")) == "a.py"
    assert hits_of(await run(Glob(), context, pattern="a.*")).endswith("a.py")
    assert not (programs / "sprung").exists()


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
async def test_hidden_files_do_not_show_up_in_a_search(mode: str, tmp_path: Path, context: ToolContext) -> None:
    hiding = context_in(tmp_path, hides=lambda path: path.endswith("new.py"))
    text = hits_of(await run(Grep(), hiding, pattern="needle", output_mode=mode, dash_C=1))
    assert "old.py" in text
    assert "new.py" not in text
    assert "new.py" not in hits_of(await run(Glob(), hiding, pattern="**/*.py"))


async def test_counts_have_a_total(context: ToolContext) -> None:
    output = await run(Grep(), context, pattern="needle|last", output_mode="count", glob="{new,old}.py")
    assert hits_of(output) == "src/deep/old.py:2\nsrc/new.py:2\n\nTotal: 4 matching lines in 2 files"
    assert output.display["rows"] == [{"path": "src/deep/old.py", "count": 2}, {"path": "src/new.py", "count": 2}]


async def test_matches_are_shown_to_the_user_as_a_table(context: ToolContext) -> None:
    output = await run(Grep(), context, pattern="needle", path="src/new.py", output_mode="content", dash_B=1)
    assert output.display["rows"] == [
        {"path": "src/new.py", "line": 1, "text": "import os", "match": False},
        {"path": "src/new.py", "line": 2, "text": "# needle src/new.py", "match": True},
    ]
    assert output.summary == "1 matching line in 1 file"


async def test_long_lines_are_cut_with_a_mark(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("hit " + "x" * 100_000 + "\n")
    text = hits_of(await run(Grep(), context, pattern="hit", output_mode="content"))
    assert len(text) < 700
    assert "omitted end of long line" in text


async def test_a_match_in_a_binary_file_is_reported_and_not_shown(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"\0\1hit\n")
    text = hits_of(await run(Grep(), context, pattern="hit", path="data.bin", output_mode="content"))
    assert text.startswith("data.bin:\nbinary file matches")
    assert "\0" not in text


async def test_hidden_files_leave_no_trace_in_results(context: ToolContext, tmp_path: Path) -> None:
    hiding = context_in(tmp_path, hides=lambda path: "deep" in path or path.endswith("a b.py"))
    text = hits_of(await run(Grep(), hiding, pattern="needle", output_mode="content", dash_A=1))
    assert text.splitlines() == [
        ".hidden.py:2:# needle .hidden.py",
        ".hidden.py-3-last = 1",
        "--",
        "src/new.py:2:# needle src/new.py",
        "src/new.py-3-last = 1",
    ]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*x"])
async def test_a_wrong_expression_is_explained_in_a_few_lines(pattern: str, context: ToolContext) -> None:
    output = await run(Grep(), context, pattern=pattern)
    assert output.is_error
    text = hits_of(output)
    assert text.startswith("regex parse error:")
    assert text.endswith("put a backslash before them.")
    assert len(text.splitlines()) <= 6


@pytest.mark.parametrize("hit", ["", "/x/a.py\\0001:hit\\n"])
async def test_files_that_cannot_be_read_are_a_note_and_no_error(
    hit: str, context: ToolContext, tmp_path: Path, programs: Path
) -> None:
    problem = "rg: /x/b.py: Permission denied (os error 13)"
    (programs / "rg").write_text(f"#!/bin/sh\nprintf '{hit}'\necho '{problem}' >&2\necho '{problem}' >&2\nexit 2\n")
    (programs / "rg").chmod(0o755)
    partly = context_in(tmp_path, environ={"PATH": f"{programs}:{os.environ['PATH']}"})
    output = await run(Grep(), partly, pattern="hit", output_mode="content")
    assert not output.is_error
    first = "/x/a.py:1:hit" if hit else f"No matches.{IGNORED}"
    note = "[Could not be read: /x/b.py: Permission denied (os error 13) and 1 other.]"
    assert hits_of(output) == f"{first}\n\n{note}"


@pytest.mark.parametrize("tool", [Glob, Grep])
async def test_a_missing_ripgrep_is_reported_with_how_to_install_it(
    tool: type[Glob | Grep], context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda *_given: None)
    output = await run(tool(), context, pattern="needle")
    assert output.is_error
    assert hits_of(output) == (
        "ripgrep (rg) was not found. Install it, or reinstall agentcli: pip install --force-reinstall agentcli"
    )


async def test_a_ripgrep_that_does_not_run_is_reported(tmp_path: Path, programs: Path) -> None:
    (programs / "rg").write_bytes(b"\x7fELF not really")
    (programs / "rg").chmod(0o755)
    broken = context_in(tmp_path, environ={"PATH": f"{programs}:{os.environ['PATH']}"})
    output = await run(Grep(), broken, pattern="needle")
    assert output.is_error
    assert "could not be started: exec format error. Install it again." in hits_of(output)


@pytest.fixture
def bare(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path)


def first_of(text: str) -> str:
    return text.partition("\n\n")[0]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("files_with_matches", "a␊b.txt"), ("content", "a␊b.txt:1:hit"), ("count", "a␊b.txt:1")],
)
async def test_a_name_with_a_line_break_is_one_row(mode: str, expected: str, bare: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a\nb.txt").write_text("hit\n")
    output = await run(Grep(), bare, pattern="hit", output_mode=mode)
    assert first_of(hits_of(output)) == expected
    assert len(output.display["rows"]) == 1
    assert first_of(hits_of(await run(Glob(), bare, pattern="*.txt"))) == "a␊b.txt"


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
async def test_a_hidden_name_with_a_line_break_stays_hidden(mode: str, bare: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a\nb.txt").write_text("hit\n")
    hiding = context_in(tmp_path, hides=lambda path: path.endswith("/a\nb.txt"))
    assert first_of(hits_of(await run(Grep(), hiding, pattern="hit", output_mode=mode))) == "No matches."


async def test_a_note_about_ignored_files_is_shown_where_there_are_ignore_files(
    bare: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").touch()
    assert first_of(hits_of(await run(Grep(), bare, pattern="hit", path="sub"))) == "No matches."
    assert first_of(hits_of(await run(Glob(), bare, pattern="*.none", path="sub"))) == "No files match **/*.none."
    (tmp_path / ".gitignore").write_text("build/\n")
    note = " (Files that .gitignore excludes were not looked at.)"
    assert first_of(hits_of(await run(Grep(), bare, pattern="hit", path="sub"))) == f"No matches.{note}"
    assert first_of(hits_of(await run(Glob(), bare, pattern="*.none"))) == f"No files match **/*.none.{note}"
    assert first_of(hits_of(await run(Grep(), bare, pattern="hit", path="sub/a.txt"))) == "No matches."


async def test_files_beyond_the_first_hundred_can_be_paged_to(bare: ToolContext, tmp_path: Path) -> None:
    for number in range(230):
        (tmp_path / f"{number:03}.txt").touch()
    seen: list[str] = []
    for offset in (0, 100, 200):
        text = hits_of(await run(Glob(), bare, pattern="*.txt", offset=offset))
        seen += first_of(text).splitlines()
        assert (f"[{130 - offset} more files match. Continue with offset {offset + 100}," in text) == (offset < 200)
    assert len(seen) == len(set(seen)) == 230
    past = hits_of(await run(Glob(), bare, pattern="*.txt", offset=500))
    assert first_of(past) == "No files past offset 500; 230 match."
