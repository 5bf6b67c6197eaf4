"""Finding files by name while the user types."""

from __future__ import annotations

import functools
import os
import random
from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core.text.fuzzy import fuzzy_match
from agentcli.tools.search import file_index
from agentcli.tools.search.file_index import FileIndex, PathIndex, PathListing, PathSearch, with_folders
from tests.support.scripts import provider_for
from tests.support.tables import each_row
from tests.tools.running import context_in

pytestmark = pytest.mark.anyio


WORDS = [
    "agent", "tool", "engine", "provider", "session", "config", "core", "loop", "state", "permission", "sandbox",
    "file", "index", "search", "test", "unit", "data", "model", "view", "widget", "screen", "prompt",
    "parser", "token", "stream", "event", "message", "block", "result", "util", "common", "internal", "server",
    "client", "request", "response", "handler", "service", "user", "account", "billing", "order",
]  # fmt: skip
ENDINGS = (".py", ".ts", ".tsx", ".go", ".md", ".json", ".README.md")
QUERIES = ("engine", "agtool", "src/engine.py", "srvcsesn", "wdgtscrn", "xyzzy", "billing/order/v", "tstun", "README")


@functools.cache
def some_paths(count: int) -> tuple[str, ...]:
    """The same for the same count; about ten files in a folder."""
    source = random.Random(count)
    folders = ["src"]
    while len(folders) < count // 10 + 1:
        parent = source.choice(folders)
        if parent.count("/") < 6:
            folders.append(f"{parent}/{source.choice(WORDS)}{source.choice(('', '', '2', '-v3'))}")
    found: set[str] = set()
    while len(found) < count:
        words = [source.choice(WORDS) for _word in range(source.randint(1, 3))]
        name = source.choice(("_", "-", "")).join(words) + source.choice(("", str(source.randint(1, 99))))
        found.add(f"{source.choice(folders)}/{name}{source.choice(ENDINGS)}")
    return tuple(sorted(found))


def naive(paths: list[str], query: str) -> list[tuple[int, str]]:
    scored = [(found.score, path) for path in paths if (found := fuzzy_match(query, path)) is not None]
    return sorted(scored, key=lambda each: (-each[0], len(each[1]), each[1]))


@each_row("seed", range(3))
def test_in_a_small_tree_the_order_equals_scoring_every_path(seed: int) -> None:
    paths = sorted(with_folders(random.Random(seed).sample(some_paths(3_000), 60)))[:80]
    index = PathIndex(paths)
    for query in (*QUERIES, "e", "s/", "vie", "Src", "V3"):
        for end in range(1, len(query) + 1):
            found = index.search(query[:end], limit=1000)
            assert [(match.score, match.path) for match in found] == naive(paths, query[:end])


def test_in_a_large_tree_all_results_match_and_include_the_best() -> None:
    paths = sorted(with_folders([*some_paths(3_000), "agent/engine.py", "src/unusual_place/Zebra.tsx"]))
    index = PathIndex(paths)
    for query in QUERIES:
        for end in range(1, len(query) + 1):
            part = query[:end]
            for match in index.search(part, limit=30):
                text = match.path if part != part.lower() else match.path.lower()
                assert "".join(text[place] for place in match.positions) == part
    assert index.search("engine.py")[0].path == "agent/engine.py"
    assert index.search("zebra")[0].path == "src/unusual_place/Zebra.tsx"
    assert index.search("uplcz")[0].path == "src/unusual_place/Zebra.tsx"
    assert index.search("Zeb")[0].path == "src/unusual_place/Zebra.tsx"
    assert index.search("zqzq") == []


@each_row("query", ["en", "agtool", "billing/order"])
def test_earlier_queries_do_not_change_the_results(query: str) -> None:
    paths = some_paths(3_000)
    typed, pasted = PathIndex(paths), PathIndex(paths)
    for end in range(1, len(query)):
        typed.search(query[:end])
    assert typed.search(query) == pasted.search(query)


@functools.cache
def shuffled_paths() -> tuple[str, ...]:
    paths = [*some_paths(10_000), "src/unusual_place/Zebra.tsx"]
    random.Random(1).shuffle(paths)
    return tuple(paths)


@functools.cache
def whole_index() -> PathIndex:
    return PathIndex(sorted(shuffled_paths()))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is searched in each step."""
    monkeypatch.setattr(file_index, "CHUNK_PATHS", 2_000)


@pytest.mark.usefixtures("small_chunks")
@each_row("query", ["e", "agtool", "Zeb", "src/tool", "README", "zz"])
def test_a_search_in_steps_finds_the_same_as_a_whole_one(query: str) -> None:
    paths = shuffled_paths()
    growing = PathIndex(paths[:4_500])
    search = growing.start(query)
    search.work(seconds=0)
    assert not search.is_complete
    growing.add(paths[4_500:6_500])
    steps = _steps_to_end(search)
    growing.add(paths[6_500:])
    assert not search.is_complete
    assert steps + _steps_to_end(growing.start(query)) >= 4
    assert growing.start(query).matches(30) == whole_index().search(query, 30)


def _steps_to_end(search: PathSearch) -> int:
    steps = 0
    while not search.is_complete:
        search.work(seconds=0)
        steps += 1
    return steps


def test_a_full_index_takes_no_more_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "MAX_PATHS", 3)
    listing = PathListing("/work/")
    assert listing.take(b"/work/a.py\0")
    assert not listing.take(b"/work/b/c.py\0/work/b/d.py\0")
    assert {match.path for match in listing.index.search("")} == {"a.py", "b/", "b/c.py", "b/d.py"}


def test_an_empty_query_lists_the_shortest_and_odd_queries_find_nothing() -> None:
    index = PathIndex(["long/name.py", "b.py", "a.py", "line\nbreak"])
    assert [match.path for match in index.search("", limit=2)] == ["a.py", "b.py"]
    assert index.search("a\nb") == []
    assert index.search("[^") == []
    assert index.search("x" * 10_000) == []
    assert PathIndex([]).search("a") == []


async def test_the_files_of_a_folder_are_listed_without_ignored_and_hidden_ones(tmp_path: Path) -> None:
    for name in ("src/app.py", ".git/config", ".gitignore", "build/out.py", "secret/key.txt", ".github/ci.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("build/\n")
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    (tmp_path / "odd\x1bname").touch()
    index = FileIndex(context_in(tmp_path, hides=lambda path: "/secret/" in path))
    assert index.look("app", 10).matches == []
    assert not index.look("app", 10).is_complete
    await index.refresh()
    assert {match.path for match in index.look("", 100).matches} == {
        "src/",
        "src/app.py",
        ".gitignore",
        ".github/",
        ".github/ci.yml",
    }
    assert index.look("./app", 10).matches[0].path == "src/app.py"
    assert index.look("app", 10).is_complete
    (tmp_path / "later.py").touch()
    index.start()
    index.start()
    await index.aclose()
    index.start()
    assert index.look("src", 10).matches != []
    await index.aclose()


async def test_a_session_provides_an_index_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.md").touch()
    options = Options(cwd=tmp_path, environ={"HOME": str(tmp_path)}, provider=provider_for("hi"), persist=False)
    async with build_engine(options) as engine:
        index = engine.files.index()
        await index.refresh()
        assert [match.path for match in index.look("nmd", 10).matches] == ["notes.md"]
