"""What can be completed where, and how the menu shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from agentcli.commands.base import Command
from agentcli.core.errors import AgentError
from agentcli.interactive.completion import (
    Completions,
    FileHit,
    FoundFiles,
    IndexedFiles,
    Target,
    argument_menu,
    command_menu,
    file_menu,
    mention_of,
    target_at,
)
from agentcli.interactive.editor import editor_command
from agentcli.tools.search.file_index import FileIndex, FoundPaths, PathIndex
from agentcli.tui.prompt.menu import show_label

pytestmark = pytest.mark.anyio
KNOWN = Completions(lambda: None, lambda: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("typed", "target"),
    [
        ("/", Target("command", "", 0)),
        ("/eff", Target("command", "eff", 0)),
        ("/effort ", Target("argument", "", 8, "effort")),
        ("/effort  hi", Target("argument", "hi", 9, "effort")),
        ("/tmp/file", None),
        (" /eff", None),
        ("see /eff", None),
        ("@", Target("file", "", 0)),
        ("see @src/ma", Target("file", "src/ma", 4)),
        ("(@a", Target("file", "a", 1)),
        ('see @"my fi', Target("file", "my fi", 4)),
        ('see @"my file" and', None),
        ("me@example", None),
        ("@a b", None),
        ("/compact about @src", Target("file", "src", 15)),
        ("", None),
        ("@" + "x" * 300, None),
    ],
)
def test_the_text_before_the_cursor_decides_what_is_completed(typed: str, target: Target | None) -> None:
    assert target_at(typed + "|rest", len(typed), first_line=True) == target


def test_commands_are_only_on_the_first_line() -> None:
    assert target_at("/eff", 4, first_line=False) is None
    assert target_at("@x", 2, first_line=False) == Target("file", "x", 0)


def test_paths_with_blanks_are_quoted() -> None:
    assert mention_of("a.py") == "@a.py"
    assert mention_of("my file.py") == '@"my file.py"'
    assert mention_of("my dir/", open_ended=True) == '@"my dir/'
    assert mention_of('a"b c') == '@"ab c"'


def test_a_completed_folder_continues_and_a_file_ends_the_completion() -> None:
    menu = file_menu(Target("file", "s", 0), FoundFiles([FileHit("src/", True, (0,)), FileHit("s.py", False, (0,))]))
    assert [(one.insert, one.then) for one in menu.candidates] == [("@src/", "go on"), ("@s.py", "stay")]


def test_commands_that_need_an_argument_are_not_run_without() -> None:
    commands = [Command(name, "does it", hint) for name, hint in (("plain", ""), ("maybe", "[x]"), ("must", "<x>"))]
    menu = command_menu(Target("command", "", 0), lambda _typed: commands)
    assert [(one.insert, one.then) for one in menu.candidates] == [
        ("/plain", "send"),
        ("/maybe ", "send"),
        ("/must ", "go on"),
    ]


def test_the_menu_of_commands_is_the_registry_with_matches_marked() -> None:
    menu = command_menu(Target("command", "sta", 0), KNOWN.commands)
    first = menu.candidates[0]
    assert (first.label, first.positions) == ("/status", (1, 2, 3))
    assert first.detail


def test_arguments_have_help_and_completions() -> None:
    levels = [("low", "quick"), ("high", "slow"), ("max", "")]
    menu = argument_menu(Target("argument", "", 8, "effort"), KNOWN.commands, lambda _name: levels)
    assert menu is not None
    assert menu.note.startswith("/effort [level [now]]")
    assert [one.label for one in menu.candidates] == ["low", "high", "max"]
    assert menu.chosen == -1, "Enter is for what was typed"
    menu = argument_menu(Target("argument", "h", 8, "effort"), KNOWN.commands, lambda _name: levels)
    assert menu is not None
    assert [one.label for one in menu.candidates] == ["high"]
    assert argument_menu(Target("argument", "", 8, "unknown"), KNOWN.commands, lambda _name: []) is None
    assert argument_menu(Target("argument", "", 8, "status"), KNOWN.commands, lambda _name: []) is None


def test_every_invisible_character_in_a_name_is_shown_as_one_symbol() -> None:
    hostile = "a\x1b[2J\x07\u202e\u200b\u2066\ufeff\ue000\n\tb\ud800"
    seen = show_label(hostile)
    assert len(seen) == len(hostile)
    assert seen.startswith("a␛[2J␇")
    assert not any(ord(char) < 32 or char in "\u202e\u200b\u2066\ufeff\ud800" for char in seen)
    assert show_label("漢字 é עברית 👍") == "漢字 é עברית 👍"


class Index:
    """As much of the engine's index as the source uses."""

    def __init__(self) -> None:
        self.index = PathIndex(())
        self.listings = 0
        self.listing_seconds = 0.0
        self.is_cut = False
        self.may_list = asyncio.Event()
        self.closed = False

    def __len__(self) -> int:
        return len(self.index)

    async def refresh(self) -> None:
        self.listings += 1
        await self.may_list.wait()
        self.index = PathIndex(["src/", "src/app.py", "README.md"])

    def look(self, query: str, limit: int, seconds: float) -> FoundPaths:
        matches = self.index.search(query, limit)
        return FoundPaths(matches, self.may_list.is_set(), len(self.index), self.is_cut)

    async def aclose(self) -> None:
        self.closed = True


async def test_the_first_search_waits_for_the_listing_and_later_ones_rarely_list_again() -> None:
    index = Index()
    now = 100.0
    source = IndexedFiles(lambda: cast(FileIndex, index), clock=lambda: now)
    waiting = asyncio.ensure_future(source.files("app", 10))
    await asyncio.sleep(0)
    assert index.listings in (0, 1)
    index.may_list.set()
    (hit,) = (await waiting).hits
    assert (hit.path, hit.is_dir) == ("src/app.py", False)
    assert [hit.path for hit in (await source.files("", 10)).hits if hit.is_dir] == ["src/"]
    source.begin()
    assert index.listings == 1, "fresh enough"
    now += 10
    index.listing_seconds = 2.0
    source.begin()
    assert index.listings == 1, "listing takes too long to repeat it so soon"
    index.listing_seconds = 0.1
    source.begin()
    await asyncio.sleep(0)
    assert index.listings == 2
    await source.aclose()
    assert index.closed


async def test_a_huge_tree_is_answered_for_while_it_is_listed_and_its_end_is_reported() -> None:
    index = Index()
    source = IndexedFiles(lambda: cast(FileIndex, index))
    completions = Completions(lambda: None, lambda: None)  # type: ignore[arg-type, return-value]
    await completions.use(source)
    first = await completions.files("app", 10)
    assert first == FoundFiles([], False, "listing, 0 so far"), "a listing that takes long is not waited for"
    assert not (await completions.all_files("app", 10, seconds=0.01)).is_complete
    asyncio.get_running_loop().call_soon(index.may_list.set)
    index.is_cut = True
    found = await completions.all_files("app", 10, seconds=60)
    assert [hit.path for hit in found.hits] == ["src/app.py"]
    assert found.note == "only the first 3 are searched"
    await completions.aclose()


async def test_a_session_without_an_at_sign_lists_no_files() -> None:
    source = IndexedFiles(lambda: pytest.fail("listed"))
    await source.aclose()


def executable(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_editor_is_the_configured_one_or_a_common_one(tmp_path: Path) -> None:
    nano, mine = executable(tmp_path / "bin/nano"), executable(tmp_path / "bin/mine")
    path, cwd = {"PATH": str(tmp_path / "bin")}, tmp_path / "work"
    assert editor_command({**path, "VISUAL": "mine --wait 'a b'", "EDITOR": "nano"}, cwd) == [
        str(mine),
        "--wait",
        "a b",
    ]
    assert editor_command({**path, "VISUAL": " ", "EDITOR": "nano"}, cwd) == [str(nano)]
    assert editor_command(path, cwd) == [str(nano)]
    for environ, folder, reason in (
        ({"PATH": str(tmp_path)}, cwd, "No editor was found. Set "),
        ({**path, "EDITOR": "nowhere"}, cwd, "names 'nowhere', which was not found"),
        ({**path, "EDITOR": "vi 'x"}, cwd, "is not a command"),
        (path, tmp_path, "No editor was found"),  # a program in the project is never started
    ):
        with pytest.raises(AgentError, match=reason):
            editor_command(environ, folder)
