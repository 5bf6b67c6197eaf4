"""Commands and file tools share one temp folder, under one name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentcli.sandbox.session_folder import SYSTEM_TEMP, inside, outside
from agentcli.tools.base import ToolContext
from agentcli.tools.documents.read import Read
from agentcli.tools.files.edit import Edit
from agentcli.tools.files.write import Write
from agentcli.tools.search.grep import Grep
from agentcli.tools.search.ripgrep import Glob
from tests.sandbox.box import Box, ability_or_skip
from tests.support.outside_temp import folder_outside_temp
from tests.tools.running import run, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def elsewhere() -> Iterator[Box]:
    """A project that is not below the system's temp folder, as most are not."""
    ability = ability_or_skip()
    with folder_outside_temp() as folder:
        yield Box.make(folder, ability)


@pytest.fixture
def in_temp() -> Iterator[Path]:
    """A folder in the system's temp folder, where the tests' own folders are not."""
    with TemporaryDirectory(dir=SYSTEM_TEMP, prefix=".agentcli-test-") as name:
        yield Path(name).resolve()


@pytest.fixture
def context(elsewhere: Box) -> Iterator[ToolContext]:
    launcher = elsewhere.launcher()
    yield elsewhere.context(launcher)
    launcher.close()


async def test_file_tools_find_files_that_commands_write_to_tmp(elsewhere, context) -> None:
    await elsewhere.run("mkdir -p /tmp/deep; echo from the command > /tmp/deep/a.txt", context=context)
    assert "from the command" in text_of(await run(Read(), context, file_path="/tmp/deep/a.txt"))
    assert text_of(await run(Glob(), context, pattern="/tmp/deep/*.txt")).startswith("/tmp/deep/a.txt")
    found = text_of(await run(Grep(), context, pattern="command", path="/tmp", output_mode="content"))
    assert "/tmp/deep/a.txt" in found
    changed = await run(Edit(), context, file_path="/tmp/deep/a.txt", old_string="command", new_string="editor")
    assert not changed.is_error, text_of(changed)
    shown = await elsewhere.run("cat /tmp/deep/a.txt", context=context)
    assert "from the editor" in text_of(shown)


async def test_commands_find_files_that_tools_write_to_tmp_or_tmpdir(elsewhere, context) -> None:
    wrote = await run(Write(), context, file_path="/tmp/script.sh", content="echo ran\n")
    assert "/tmp/script.sh" in text_of(wrote)
    assert "ran" in text_of(await elsewhere.run("sh /tmp/script.sh; ls $TMPDIR", context=context))
    where = text_of(await elsewhere.run("echo $TMPDIR", context=context)).strip()
    assert not (await run(Write(), context, file_path=f"{where}/b.txt", content="b\n")).is_error
    assert "b" in text_of(await elsewhere.run("cat /tmp/b.txt", context=context))
    assert not Path("/tmp/script.sh").exists()


async def test_files_in_the_real_temp_folder_keep_their_name(elsewhere, context, in_temp) -> None:
    real = in_temp / "mine.txt"
    real.write_text("theirs\n")
    assert context.launcher.outside(str(real)) == str(real)
    assert not text_of(await elsewhere.run(f"cat {real} || echo hidden", context=context)).startswith("theirs")


async def test_a_home_folder_below_the_temp_folder_is_the_same_for_commands_and_file_tools(elsewhere, in_temp) -> None:
    at_home = elsewhere.with_rules(home=in_temp)
    launcher = at_home.launcher()
    (in_temp / "mine.txt").write_text("theirs\n")
    context = at_home.context(launcher)
    seen = text_of(await at_home.run(f"cat {in_temp}/mine.txt; touch {in_temp}/new.txt", context=context))
    assert seen.startswith("theirs")
    assert "Read-only" in seen
    assert launcher.outside(f"{in_temp}/new.txt") == f"{in_temp}/new.txt"
    launcher.close()


async def test_commands_see_an_installation_of_agentcli_below_the_temp_folder(elsewhere, in_temp) -> None:
    (in_temp / "python").write_text("#!/bin/sh\necho ran\n")
    (in_temp / "python").chmod(0o755)
    (in_temp / "lib").mkdir()
    installed = elsewhere.with_rules(installation=(in_temp / "python", in_temp / "lib"))
    seen = await installed.text(f"{in_temp}/python; ls -A {in_temp}; touch {in_temp}/lib/new")
    assert seen.startswith("ran\nlib\npython\n")
    assert "Read-only" in seen


async def test_a_project_below_the_temp_folder_keeps_its_siblings(in_temp: Path) -> None:
    box = Box.make(in_temp / "work", ability_or_skip())
    beside = in_temp / "beside"
    beside.mkdir()
    (beside / "lib.txt").write_text("beside\n")
    launcher = box.launcher()
    context = replace(box.context(launcher), cwd=box.project)
    output = await box.run(f"cat {beside}/lib.txt; echo x > {beside}/new.txt; cat {box.home}/.netrc", context=context)
    assert text_of(output).startswith("beside")
    assert not (beside / "new.txt").exists()
    assert "very secret" not in text_of(output)
    launcher.close()


async def test_of_the_temp_folder_a_project_in_it_sees_its_own_entry_and_those_that_a_command_names() -> None:
    ability = ability_or_skip()
    places = [TemporaryDirectory(dir=SYSTEM_TEMP, prefix=f".neighbour-{name}-") for name in ("own", "named", "other")]
    with places[0] as own, places[1] as named, places[2] as other:
        box = Box.make(Path(own) / "work", ability)
        launcher = box.launcher()
        context = replace(box.context(launcher), cwd=box.project)
        for folder in (own, named, other):
            (Path(folder) / "lib.txt").write_text("beside\n")
        listing = f"cat {named}/lib.txt; ls -A /tmp"
        seen = text_of(await box.run(listing, context=context)).split()
        assert Path(own).name in seen
        assert Path(named).name in seen
        assert Path(other).name not in seen
        assert launcher.outside(f"{other}/lib.txt") == f"{other}/lib.txt"
        launcher.close()


def test_the_two_names_of_a_path_are_translations_of_one_another(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "made.txt").touch()
    assert outside("/tmp/made.txt", own, ()) == str(own / "made.txt")
    assert outside("/tmp/not-there-yet", own, ()) == str(own / "not-there-yet")
    assert outside("/tmp", own, ()) == str(own)
    assert outside("/tmpfile", own, ()) == "/tmpfile"
    assert outside(str(own / "x"), own, ()) == str(own / "x")
    assert outside(str(tmp_path / "project" / "f"), own, (tmp_path / "project",)) == str(tmp_path / "project" / "f")
    assert inside(str(own / "made.txt"), own) == "/tmp/made.txt"
    assert inside(str(own), own) == "/tmp"
    assert inside("/elsewhere", own) == "/elsewhere"
