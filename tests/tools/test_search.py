"""Glob and Grep with the real ripgrep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.abort import AbortController
from agentcli.tools import ripgrep
from agentcli.tools.base import ToolContext
from agentcli.tools.glob import Glob
from agentcli.tools.grep import Grep
from tests.tools.running import context_in, run, text_of

pytestmark = pytest.mark.anyio


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


# ------------------------------------------------------------------------------------------------------------ Glob


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
    assert text_of(await run(Glob(), context, pattern=pattern)).splitlines() == expected


async def test_an_absolute_pattern_and_a_path_are_understood(context: ToolContext) -> None:
    assert text_of(await run(Glob(), context, pattern=f"{context.cwd}/src/*.py")) == "src/new.py"
    assert text_of(await run(Glob(), context, pattern="*.py", path="src/deep")) == "src/deep/old.py"
    (need,) = Glob().needs({"pattern": "/etc/*.conf"}, context)
    assert (need.kind, need.target) == ("read", "/etc")
    (need,) = Glob().needs({"pattern": "../../x/*.conf"}, context)
    assert need.target == str(context.cwd.parent.parent / "x")


async def test_no_files_and_no_folder_are_said(context: ToolContext) -> None:
    assert text_of(await run(Glob(), context, pattern="*.nothing")) == "No files match **/*.nothing."
    assert (await run(Glob(), context, pattern="*", path="missing")).is_error


async def test_more_than_a_hundred_files_are_counted(context: ToolContext, tmp_path: Path) -> None:
    for number in range(130):
        (tmp_path / f"many{number}.txt").touch()
    text = text_of(await run(Glob(), context, pattern="*.txt"))
    assert "[30 more files match." in text


async def test_odd_file_names_are_harmless(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "we\x1b[31mird\n.odd").touch()
    (tmp_path / os.fsdecode(b"bad\xff.odd")).touch()
    text = text_of(await run(Glob(), context, pattern="*.odd"))
    assert "\x1b" not in text
    assert "\ufffd" in text


async def test_circular_links_are_not_followed(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "src/loop").symlink_to(tmp_path)
    assert "loop/" not in text_of(await run(Glob(), context, pattern="**/*.py"))


# ------------------------------------------------------------------------------------------------------------ Grep


async def test_files_with_matches_is_the_default(context: ToolContext) -> None:
    output = await run(Grep(), context, pattern="needle")
    assert text_of(output).splitlines() == [".hidden.py", "a b.py", "src/deep/old.py", "src/new.py"]
    assert output.summary == "4 files"


async def test_content_with_context_lines(context: ToolContext) -> None:
    text = text_of(await run(Grep(), context, pattern="needle", path="src/new.py", output_mode="content", dash_C=1))
    assert text == "src/new.py-1-import os\nsrc/new.py:2:# needle src/new.py\nsrc/new.py-3-last = 1"
    plain = text_of(
        await run(
            Grep(), context, pattern="NEEDLE", path="src/new.py", output_mode="content", dash_i=True, dash_n=False
        )
    )
    assert plain == "src/new.py:# needle src/new.py"


async def test_counts_globs_and_types(context: ToolContext) -> None:
    assert "src/new.py:1" in text_of(await run(Grep(), context, pattern="needle", output_mode="count")).splitlines()
    assert text_of(await run(Grep(), context, pattern="needle", glob="new.*")) == "src/new.py"
    assert text_of(await run(Grep(), context, pattern="needle", type="js")) == "No matches."
    assert "unrecognized file type" in text_of(await run(Grep(), context, pattern="needle", type="nonsense"))


async def test_a_match_may_span_lines(context: ToolContext) -> None:
    assert text_of(await run(Grep(), context, pattern="os.*last", path="src/new.py")) == "No matches."
    assert text_of(await run(Grep(), context, pattern="os.*last", path="src/new.py", multiline=True)) == "src/new.py"


async def test_results_are_limited_and_can_be_paged(context: ToolContext) -> None:
    first = text_of(await run(Grep(), context, pattern="needle", head_limit=3))
    assert first.splitlines()[:3] == [".hidden.py", "a b.py", "src/deep/old.py"]
    assert "Continue with offset 3" in first
    assert text_of(await run(Grep(), context, pattern="needle", head_limit=3, offset=3)) == "src/new.py"
    assert text_of(await run(Grep(), context, pattern="needle", offset=10)) == "No matches past offset 10."


async def test_a_pattern_that_looks_like_a_flag_is_a_pattern(context: ToolContext) -> None:
    assert text_of(await run(Grep(), context, pattern="--pre=sh")) == "No matches."


async def test_a_wrong_pattern_and_a_missing_path_are_errors(context: ToolContext) -> None:
    wrong = await run(Grep(), context, pattern="(")
    assert wrong.is_error
    assert "unclosed group" in text_of(wrong)
    assert "does not exist" in text_of(await run(Grep(), context, pattern="x", path="missing"))


async def test_settings_of_the_users_own_ripgrep_do_not_count(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("--files-without-match\n")
    changed = context_in(tmp_path, environ={**os.environ, "RIPGREP_CONFIG_PATH": str(tmp_path / "rc")})
    assert "src/new.py" in text_of(await run(Grep(), changed, pattern="needle")).splitlines()


async def test_an_abort_ends_a_search(context: ToolContext, tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort()
    output = await run(Grep(), context, controller.signal, pattern="needle")
    assert (output.is_error, output.summary) == (True, "stopped")


async def test_a_search_that_takes_too_long_is_ended(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "rg").write_text("#!/bin/sh\necho found.py\nsleep 100\n")
    (fake / "rg").chmod(0o755)
    monkeypatch.setattr(ripgrep, "TIME_LIMIT", 0.2)
    slow = context_in(tmp_path, environ={"PATH": f"{fake}:{os.environ['PATH']}"})
    text = text_of(await run(Grep(), slow, pattern="x"))
    assert text.startswith("found.py\n")
    assert "was ended after" in text


async def test_ripgrep_is_found_beside_the_interpreter(context: ToolContext, tmp_path: Path) -> None:
    assert ripgrep.find_ripgrep({"PATH": str(tmp_path)}) is not None


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
async def test_hidden_files_do_not_show_up_in_a_search(mode: str, tmp_path: Path, context: ToolContext) -> None:
    hiding = context_in(tmp_path, hides=lambda path: path.endswith("new.py"))
    text = text_of(await run(Grep(), hiding, pattern="needle", output_mode=mode, dash_C=1))
    assert "old.py" in text
    assert "new.py" not in text
    assert "new.py" not in text_of(await run(Glob(), hiding, pattern="**/*.py"))
