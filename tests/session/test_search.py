"""Full-text search: what is found, the index over changing files, and what works without one."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentcli.context.prompt import system_context
from agentcli.core.events import BlockFinished, Event, MessageAppended, ToolFinished, UsageReported
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Block, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.session import search_index
from agentcli.session.base import Rewind
from agentcli.session.find import list_sessions
from agentcli.session.search_index import IndexUnavailable, SearchHit, SessionIndex
from agentcli.session.search_text import SessionText
from agentcli.session.store import SessionStore
from tests.session.conversations import FixedClock, result, workplace

IDS = [f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abcd"]


class Clock(FixedClock):
    """One minute later with each reading."""

    minute = 0

    def timestamp(self) -> str:
        Clock.minute += 1
        return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=Clock.minute)).isoformat()


class Talk:
    """A session whose prompts and answers are given."""

    def __init__(self, folder: Path, number: int = 0, *, resumes: bool = False, **rest: object) -> None:
        self.folder = folder
        self.ids = SequentialIds(1_000 * (number + 1) + 500 * resumes)
        place = workplace(folder, first_id=1_000_000 * (number + 1) + 500_000 * resumes, clock=Clock())
        if resumes:
            path = next((folder / "state").glob(f"sessions/*/{IDS[number]}.jsonl"))
            self.store, _loaded = SessionStore.resume(place, path, **rest)  # type: ignore[arg-type]
        else:
            self.store = SessionStore.create(place, IDS[number])

    @property
    def path(self) -> Path:
        assert self.store.path is not None
        return self.store.path

    def record(self, *events: Event) -> None:
        for event in events:
            self.store.record(event)

    def say(self, prompt: str, answer: str = "", *calls: ToolUseBlock, origin: Origin = Origin.PROMPT) -> str:
        """Returns the id of the prompt."""
        asked = Message("user", (TextBlock(prompt),), self.ids.new(), origin)
        self.record(MessageAppended(message=asked))
        blocks: tuple[Block, ...] = (*calls, TextBlock(answer or "ok"))
        reply = Message("assistant", blocks, self.ids.new(), Origin.REPLY, "msg", "model-a", "end_turn", Usage(1, 1))
        for index, block in enumerate(blocks):
            self.record(BlockFinished(message_id=reply.id, api_id="msg", model="model-a", index=index, block=block))
        self.record(UsageReported(model="model-a", usage=Usage(1, 1), cost_usd=0.25), MessageAppended(message=reply))
        return asked.id

    def finish(self, call: ToolUseBlock, text: str, path: str = "") -> None:
        block = ToolResultBlock(call.id, (TextBlock(text),))
        display = {"kind": "diff", "path": path, "diff": "+x", "added": 1, "removed": 0} if path else {}
        self.record(ToolFinished(tool_use_id=call.id, name=call.name, result=block, display=display))
        self.record(MessageAppended(message=Message("user", (block,), self.ids.new(), Origin.TOOL_RESULTS)))

    def close(self) -> Path:
        self.record(result())
        self.store.close()
        return self.path


def index_of(folder: Path) -> SessionIndex:
    return SessionIndex(folder / "cache", folder / "state")


def search(index: SessionIndex, words: Sequence[str], cwd: Path | None = None) -> tuple[list[SearchHit], str]:
    return index.update_and_search(words, cwd, 50, lambda _done, _all: None)


def found(folder: Path, *words: str, cwd: Path | None = None) -> list[tuple[str, int, str]]:
    """The hits in an index that is up to date: session, number of the prompt, where."""
    hits, problem = search(index_of(folder), words, cwd)
    assert problem == ""
    return [(hit.session.session_id[:1], hit.number, hit.found.role) for hit in hits]


def one_hit(folder: Path, *words: str) -> SearchHit:
    (hit,) = search(index_of(folder), words)[0]
    return hit


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    (path,) = (folder / "cache").glob("*.sqlite")
    db = sqlite3.connect(path)
    yield db
    db.commit()
    db.close()


def test_prompts_answers_commands_and_names_are_found_and_results_are_not(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.store.set_title("The release of autumn")
    run = ToolUseBlock("t1", "Bash", {"command": "make -C docs html"})
    write = ToolUseBlock("t2", "Write", {"file_path": "src/parser.py", "content": "giraffe " * 100})
    talk.say("Fix the  parser, please", "The slice was wrong.", run, write)
    talk.finish(write, "zebra", "src/parser.py")
    talk.say("Why?")
    talk.say("And a queued one: kiwi", origin=Origin.QUEUED)
    talk.close()
    assert found(tmp_path, "autumn") == [("a", 0, "title")]
    assert found(tmp_path, "PARS") == [("a", 1, "prompt")], "the beginning of a word, in any case"
    assert found(tmp_path, "slice", "fix") == [("a", 1, "prompt")], "words of a prompt and of its answer together"
    assert found(tmp_path, "docs html") == [("a", 1, "call")]
    assert found(tmp_path, "src/parser.py") == [("a", 1, "call")]
    assert found(tmp_path, "kiwi") == [("a", 2, "prompt")], "a queued prompt belongs to the one before"
    for words in (("html docs",), ("arser",), ("zebra",), ("giraffe",), ("parser", "why"), ("->",), ('"',), ("NOT",)):
        assert found(tmp_path, *words) == [], words
    facts = index_of(tmp_path).facts(list_sessions(tmp_path / "state")[0])
    assert facts is not None
    assert (facts.prompts, facts.cost_usd, facts.files) == (2, 0.75, ["src/parser.py"])


def test_the_newest_session_comes_first_and_in_it_the_newest_prompt(tmp_path: Path) -> None:
    first, second = Talk(tmp_path, 0), Talk(tmp_path, 1)
    first.say("apple one")
    second.say("apple two")
    first.say("apple three")
    for when, talk in enumerate((second, first)):
        os.utime(talk.close(), (1000 + when, 1000 + when))
    newest_first = [("a", 2, "prompt"), ("a", 1, "prompt"), ("b", 1, "prompt")]
    assert found(tmp_path, "apple") == newest_first
    assert found(tmp_path, "apple", cwd=tmp_path) == newest_first
    assert found(tmp_path, "apple", cwd=tmp_path / "elsewhere") == []
    os.utime(second.path, (2000, 2000))
    assert found(tmp_path, "apple") == [newest_first[2], *newest_first[:2]]


def test_secrets_are_not_shown_by_a_search(tmp_path: Path) -> None:
    talk, key = Talk(tmp_path), "sk-ant-api03-" + "Zx9" * 12
    talk.store.set_title(f"apple {key}")
    talk.say(f"apple {key}", f"apple {key}", ToolUseBlock("t", "Bash", {"command": f"apple {key}"}))
    talk.close()
    hits, _problem = search(index_of(tmp_path), ["apple"])
    assert [hit.found.role for hit in hits] == ["title", "prompt"]
    with database(tmp_path) as db:
        rows = db.execute("SELECT title, prompt, answer, call FROM texts").fetchall()
    assert "Zx9" not in str([rows, [hit.found.text for hit in hits]])


def test_words_of_scripts_without_blanks_are_found_inside_a_text(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.say("请修复全文搜索的错误", "検索エンジンを直しました。 ค้นหาข้อความ")
    talk.close()
    for word, role in (("搜索", "prompt"), ("エンジン", "answer"), ("ข้อ", "answer")):
        assert found(tmp_path, word) == [("a", 1, role)]
    assert found(tmp_path, "索搜") == []
    hit = one_hit(tmp_path, "搜索")
    assert (hit.prompt, hit.found.text) == ("请修复全文搜索的错误",) * 2
    assert [hit.found.text[first:last] for first, last in hit.found.marks] == ["搜索"]


@pytest.mark.parametrize(
    "word", ['"', "*", "NEAR(", "-needle", "prompt:needle", "^needle", "needle OR", "🎉", "\0", "{}"]
)
def test_the_syntax_of_fts5_means_nothing_in_a_query(tmp_path: Path, word: str) -> None:
    talk = Talk(tmp_path)
    talk.say("A needle OR something NEAR it, prompt: needle")
    talk.close()
    assert found(tmp_path, word, "needle") == [("a", 1, "prompt")]
    assert found(tmp_path, *[word, "needle"] * 500) == [("a", 1, "prompt")]


def test_a_hit_has_the_words_around_it_marked_and_is_inert(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    hostile = "\x1b]0;owned\x07\x1b[2J\u202e[bold]x[/bold] \ud800"
    talk.say(f"{'word ' * 500} the {hostile} Crème brûlée is here {'word ' * 500}")
    talk.close()
    index_of(tmp_path).update()
    found_words = one_hit(tmp_path, "creme", "brulee").found
    assert "Crème brûlée is here" in found_words.text
    assert [found_words.text[first:last] for first, last in found_words.marks] == ["Crème", "brûlée"]
    assert found_words.text.startswith("… ")
    assert len(found_words.text) <= 160
    assert not any(character in found_words.text for character in "\x1b\x07\u202e\ud800")
    assert "[bold]x[/bold]" in one_hit(tmp_path, "the bold").found.text


def test_only_files_that_have_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, other = Talk(tmp_path), Talk(tmp_path, 1)
    for number in range(4):
        talk.say(f"apple {number}")
    other.say("no fruit")
    index_of(tmp_path).update()
    read: list[Path] = []
    original = search_index.read_texts

    def read_texts(path: Path, step: Callable[[], object]) -> SessionText:
        read.append(path)
        return original(path, step)

    monkeypatch.setattr(search_index, "read_texts", read_texts)
    assert len(found(tmp_path, "apple")) == 4
    assert read == []
    talk.say("more apples", "and pears")
    assert [number for _id, number, _role in found(tmp_path, "apple")] == [5, 4, 3, 2, 1]
    assert read == [talk.path]
    talk.close()
    other.close()


def test_a_torn_last_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.say("apple")
    talk.say("banana")
    whole = talk.close().read_bytes()
    place = whole.index(b"banana") + 3
    talk.path.write_bytes(whole[:place])
    assert (found(tmp_path, "apple"), found(tmp_path, "ban")) == ([("a", 1, "prompt")], [])
    talk.path.write_bytes(whole)
    assert found(tmp_path, "banana") == [("a", 2, "prompt")]
    talk.path.write_bytes(b"\0" * 40 + b"\n[1]\n" + whole)
    assert found(tmp_path, "banana") == [("a", 2, "prompt")], "another file of the same name is read from its beginning"


def test_deleted_sessions_are_forgotten_and_agents_are_left_out(tmp_path: Path) -> None:
    gone, agent = Talk(tmp_path, 0), Talk(tmp_path, 1)
    agent.store._parent = IDS[0]
    for talk in (gone, agent):
        talk.say("apple")
        talk.close()
    assert found(tmp_path, "apple") == [("a", 1, "prompt")]
    assert [info.session_id for info in index_of(tmp_path).list_sessions()] == [IDS[0]]
    gone.path.unlink()
    assert found(tmp_path, "apple") == []
    agent.store.set_title("apple")
    agent.close()
    assert found(tmp_path, "apple") == []
    with database(tmp_path) as db:
        assert db.execute("SELECT count(*) FROM texts").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM files").fetchone() == (1,)


def test_a_session_can_be_forgotten_without_an_update(tmp_path: Path) -> None:
    gone, kept = Talk(tmp_path, 0), Talk(tmp_path, 1)
    index_of(tmp_path).forget([gone.path])
    assert not (tmp_path / "cache").exists(), "an index is not made only for that"
    for talk in (gone, kept):
        talk.say("apple")
        talk.close()
    assert len(found(tmp_path, "apple")) == 2
    index_of(tmp_path).forget([gone.path])
    assert [hit.session.session_id for hit in index_of(tmp_path).search(["apple"])] == [IDS[1]]


def test_branches_that_were_left_and_copies_are_found_too(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.say("apple")
    second = talk.say("banana")
    talk.close()
    again = Talk(tmp_path, resumes=True, rewind=Rewind(before=second))
    again.say("cherry")
    again.close()
    place = workplace(tmp_path, first_id=9_000_000, clock=Clock())
    copy, _loaded = SessionStore.fork(place, talk.path, IDS[3])
    copy.close()
    assert sorted(found(tmp_path, "banana")) == [("a", 2, "prompt"), ("d", 2, "prompt")]
    assert sorted(found(tmp_path, "cherry")) == [("a", 3, "prompt"), ("d", 3, "prompt")]


def test_the_list_of_sessions_is_the_same_with_and_without_the_index(tmp_path: Path) -> None:
    for number in range(3):
        talk = Talk(tmp_path, number)
        talk.store.set_title(f"name {number} \ud800" if number else "")
        talk.say(f"prompt {number}")
        talk.close()
        os.utime(talk.path, (1000 + number, 1000 + number))
    state, index = tmp_path / "state", index_of(tmp_path)
    expected = list_sessions(state)
    assert list(index.list_sessions()) == expected
    index.update()
    assert list(index.list_sessions()) == expected
    assert list(index.list_sessions(tmp_path)) == expected
    assert list(index.list_sessions(tmp_path / "x")) == []
    talk = Talk(tmp_path, 1, resumes=True)
    talk.say("more")
    talk.close()
    assert list(index.list_sessions()) == list_sessions(state) != expected


def test_the_branch_of_git_is_that_of_the_system_context(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/pears\n")
    talk = Talk(tmp_path)
    talk.store.set_system_context(system_context(tmp_path, [tmp_path], "linux", "2026-11-19"))
    talk.say("apple")
    talk.close()
    index_of(tmp_path).update()
    facts = index_of(tmp_path).facts(list_sessions(tmp_path / "state")[0])
    assert facts is not None
    assert facts.branch == "feature/pears"


def test_long_texts_are_found_whole_and_the_index_is_private(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.say("start " + "filler " * 20_000 + "needle", "x" * 50_000 + " pin")
    talk.close()
    assert found(tmp_path, "needle", "filler") == [("a", 1, "prompt")]
    assert found(tmp_path, "pin") == [("a", 1, "answer")]
    assert one_hit(tmp_path, "needle").prompt.startswith("start filler")
    folder = tmp_path / "cache"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_very_long_text_is_searched_in_parts(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.say("word " * 100_000)
    talk.close()
    index_of(tmp_path).update()
    hits = index_of(tmp_path).search(["word"])
    assert [hit.number for hit in hits] == [1] * 10
    assert {hit.prompt[:10] for hit in hits} == {"word word "}
    assert max(len(hit.found.text) for hit in hits) <= 160


@pytest.mark.parametrize("damage", ["older", "garbage", "truncated", "text"])
def test_an_index_that_is_damaged_or_of_another_version_is_made_again(tmp_path: Path, damage: str) -> None:
    talk = Talk(tmp_path)
    for number in range(100):
        talk.say(f"apple {number}", "word " * 1_000)
    talk.close()
    assert len(found(tmp_path, "apple")) == 50
    (path,) = (tmp_path / "cache").glob("*.sqlite")
    if damage == "older":
        with database(tmp_path) as db:
            db.executescript("PRAGMA user_version = 999; DROP TABLE files;")
    elif damage == "text":
        with database(tmp_path) as db:
            db.execute("UPDATE files SET info = '[' || info, facts = NULL")
        (info,) = list_sessions(tmp_path / "state")
        assert list(index_of(tmp_path).list_sessions()) == [info]
        assert index_of(tmp_path).facts(info) is None, "it is made again, and empty until it is updated"
    else:
        path.write_bytes(b"garbage " * 2_000 if damage == "garbage" else path.read_bytes()[:5_000])
    assert len(found(tmp_path, "apple")) == 50


def test_two_processes_may_update_and_search_at_the_same_time(tmp_path: Path) -> None:
    for number in range(4):
        talk = Talk(tmp_path, number)
        for _prompt in range(20):
            talk.say("apple " * 50)
        talk.close()
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(found, tmp_path, "apple") for _number in range(8)]:
            assert len(done.result()) == 50
    with database(tmp_path) as db:
        assert db.execute("SELECT count(*) FROM files").fetchone() == (4,)
        assert db.execute("SELECT count(*) FROM texts").fetchone() == (84,)


def test_an_interrupted_update_keeps_what_is_done_and_the_next_one_continues(tmp_path: Path) -> None:
    for number in range(3):
        talk = Talk(tmp_path, number)
        talk.say("apple")
        talk.close()
        os.utime(talk.path, (1000 + number, 1000 + number))
    index, seen = index_of(tmp_path), dict[tuple[int, int], None]()

    def step(*state: int) -> None:
        seen[state[0], state[1]] = None
        if state[0] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.update(step)
    assert [*seen] == [(0, 3), (1, 3), (2, 3)]
    assert {hit.session.session_id for hit in index.search(["apple"])} == {IDS[2], IDS[1]}, "newest first"
    seen.clear()
    index.update(lambda *state: seen.update({state: None}))
    assert [*seen] == [(0, 1), (1, 1)]


@contextmanager
def no_room() -> Iterator[None]:
    """No file may become larger than 50 kB, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    index_of(folder).update()
    with database(folder) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.rollback()


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("no folder", "There is no folder"),
        ("not a folder", "cannot be written"),
        ("full disk", "cannot be used: "),
        ("locked", "cannot be used: database is locked"),
    ],
)
def test_without_an_index_on_the_disk_one_in_memory_serves_and_the_reason_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, reason: str
) -> None:
    monkeypatch.setattr(search_index, "BUSY_SECONDS", 0.01)
    first, second = Talk(tmp_path, 0), Talk(tmp_path, 1)
    for talk in (first, second):
        talk.say("apple", "A pear, grüß Gott." + "filler " * 10_000)
        talk.say("An apple again")
        talk.close()
    os.utime(first.path, (1000, 1000))
    if case == "not a folder":
        (tmp_path / "cache").write_text("")
    index = SessionIndex(None if case == "no folder" else tmp_path / "cache", tmp_path / "state")
    trouble = {"full disk": no_room(), "locked": locked(tmp_path)}
    with trouble.get(case, nullcontext()):
        with pytest.raises(IndexUnavailable, match=reason):
            index.update()
        hits, problem = index.update_and_search(["apple"], tmp_path, 3, lambda _done, _all: None)
        assert reason in problem
        assert [(hit.session.session_id, hit.number) for hit in hits] == [(IDS[1], 2), (IDS[1], 1), (IDS[0], 2)]
        assert len(list(index.list_sessions())) == 2


def test_without_fts5_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Talk(tmp_path).close()
    monkeypatch.setattr(search_index, "_SCHEMA", search_index._SCHEMA.replace("fts5", "fts99"))
    with pytest.raises(IndexUnavailable, match="FTS5"):
        search(index_of(tmp_path), ["apple"])


def test_an_index_that_cannot_be_brought_up_to_date_is_not_relied_on(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.say("apple")
    assert found(tmp_path, "apple") == [("a", 1, "prompt")]
    talk.say("another apple", "filler " * 10_000)
    talk.close()
    with no_room():
        hits, problem = search(index_of(tmp_path), ["apple"])
        assert ([hit.number for hit in hits], "cannot be used" in problem) == ([2, 1], True)
    assert found(tmp_path, "apple") == [("a", 2, "prompt"), ("a", 1, "prompt")], "nothing is lost by the failure"
