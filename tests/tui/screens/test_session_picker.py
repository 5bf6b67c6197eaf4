"""The list of sessions: names, texts from the index, and what stands beside them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agentcli.session.find import SessionInfo
from agentcli.session.search_index import IndexUnavailable, SearchHit, SessionFacts, SessionIndex, WordsFound
from agentcli.session.search_text import clean
from agentcli.tui.screens.sessions import SessionPicker, describe, session_rows
from tests.tui.screen_host import Host, look, play, press, settled, through_all_sizes

NOW = 1_800_000_000.0
HOME = Path("/home/me/project")


def session(number: int, **changes: object) -> SessionInfo:
    facts: dict[str, object] = {
        "session_id": f"id-{number}",
        "path": Path(f"/sessions/{number}.jsonl"),
        "title": "",
        "first_prompt": f"prompt {number}",
        "cwd": str(HOME),
        "modified": NOW - 3600 * number,
        "size": 10,
        "message_count": number,
    }
    return SessionInfo(**{**facts, **changes})  # type: ignore[arg-type]


class Index(SessionIndex):
    """In place of the index on the disk: texts by session."""

    def __init__(self, load: Callable[[], Iterable[SessionInfo]], *texts: tuple[SessionInfo, str]) -> None:
        super().__init__(None, Path("/nowhere"))
        self.load = load
        self.texts = tuple((info, clean(text)) for info, text in texts)
        self.problem = ""
        self.updated = threading.Event()
        self.updated.set()

    def update(self, *_arguments: object, **_rest: object) -> None:
        self.updated.wait(5)
        if self.problem:
            raise IndexUnavailable(self.problem)

    def list_sessions(self, cwd: Path | None = None) -> Iterator[SessionInfo]:
        yield from (info for info in self.load() if cwd is None or info.cwd == str(cwd))

    def search(self, words: Sequence[str], cwd: Path | None = None, limit: int = 50) -> list[SearchHit]:
        assert threading.current_thread() is not threading.main_thread()
        if self.problem:
            raise IndexUnavailable(self.problem)
        return [
            SearchHit(info, f"prompt-{number}", number, "", text, WordsFound("answer", text, ((0, 2),)))
            for number, (info, text) in enumerate(self.texts, 1)
            if all(word in text for word in words) and (cwd is None or info.cwd == str(cwd))
        ][:limit]

    def facts(self, session: SessionInfo) -> SessionFacts | None:
        return SessionFacts("feature/pears", 3, 0.5, ("src/a.py", "/x/b.py", "c.py", "d.py"))


def picker(index: Index, last_lines: Any = lambda _session: [], query: str = "") -> SessionPicker:
    return SessionPicker(index, HOME, last_lines, query, now=lambda: NOW)


def test_sessions_show_title_or_prompt_age_messages_and_where_they_were() -> None:
    rows = session_rows([session(0, title="release"), session(2, cwd="/srv/other/", message_count=None)], NOW)
    assert [(row.label, row.detail) for row in rows] == [
        ("release", " just now     0 msgs  project"),
        ("prompt 2", "  2 h ago     – msgs  other"),
    ]
    assert session_rows([session(1)], NOW)[0].detail == "  1 h ago     1 msgs"


@pytest.mark.parametrize(("keys", "chosen"), [("down enter", session(1)), ("escape", None)])
def test_sessions_are_loaded_in_a_thread_and_escape_does_not_wait(keys: str, chosen: SessionInfo | None) -> None:
    go = threading.Event()

    def load() -> list[SessionInfo]:
        assert threading.current_thread() is not threading.main_thread()
        go.wait(5)
        return [session(number) for number in range(3)]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert "Loading…" in host.shown
        if chosen is not None:
            go.set()
            await settled(pilot)
        await pilot.press(*keys.split())
        await pilot.pause()
        go.set()

    choice = play(picker(Index(load)), steps).answer
    assert (choice and choice.session) == chosen


def fail(*_session: SessionInfo) -> list[Any]:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("load", "last_lines", "said"),
    [
        (list, list, "There are no sessions here yet."),
        (lambda: [session(1)], fail, "│ It could not be read: Permission denied."),
        (
            lambda: [session(1)],
            lambda _session: ["❯ the prompt", *["old line"] * 60, "the end \x1b]0;x\x07"],
            (
                r"│ 1 h ago · 3 prompts · \$0.50 · branch feature/pears *\n.*│ Changed: a.py, b.py, c.py, 1 more *\n"
                r".*\n.*│ … *\n(.*│ old line *\n)+.*│ the end"
            ),
        ),
    ],
)
def test_beside_a_session_are_its_facts_and_last_lines_or_why_there_are_none(
    load: Any, last_lines: Any, said: str
) -> None:
    assert re.search(said, look(picker(Index(load), last_lines), "", "|", size=(120, 30)))


def test_texts_are_found_below_names_and_open_at_their_prompt() -> None:
    named, other = session(1, title="The parser"), session(2, title="Release")
    index = Index(lambda: [named, other], (other, "It was the \x1b[31mparser[/] that broke"), (named, "nothing"))

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await settled(pilot)
        await press(pilot, *"parser")
        await settled(pilot)
        rows = [row for row in host.shown.splitlines() if "parser" in row]
        assert "❯ The parser" in rows[1]
        assert "◆ It was the parser[/]" in rows[2]
        assert "#1" in rows[2]
        await press(pilot, "down")
        await settled(pilot)
        assert "2 matches" in host.shown
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert "In Release" in host.shown
        await pilot.press("enter")

    choice = play(picker(index), steps, size=(100, 24)).answer
    assert (choice.session, choice.hit.prompt_id) == (other, "prompt-1")


def test_a_query_is_asked_again_when_the_index_is_up_to_date_and_tab_shows_all_folders() -> None:
    here, there = session(1), session(2, cwd="/srv/other")
    index = Index(lambda: [here, there])
    index.updated.clear()

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await settled(pilot)
        assert "prompt 2" not in host.shown
        assert "still reading texts" in host.shown
        assert "No match" in host.shown
        index.texts = ((here, "some needle"), (there, "another needle"))
        index.updated.set()
        await pilot.app.workers.wait_for_complete()
        await settled(pilot)
        assert "◆ some needle" in host.shown
        assert "another needle" not in host.shown
        await press(pilot, "tab")
        await settled(pilot)
        assert "Resume a session · all folders" in host.shown
        assert "◆ another needle" in host.shown
        await press(pilot, *["backspace"] * 6)
        await settled(pilot)
        assert "prompt 2" in host.shown
        await pilot.press("escape")

    play(picker(index, query="needle"), steps, size=(90, 24))


def test_without_an_index_names_are_filtered_and_the_reason_is_shown() -> None:
    index = Index(lambda: [session(1), session(2)])
    index.problem = "The SQLite of this Python has no full-text search (FTS5)."
    text = look(picker(index, query="2"), "", "|", size=(80, 24))
    assert "prompt 2" in text
    assert "prompt 1" not in text
    assert "no full-text search (FTS5)" in text


def test_facts_that_are_not_known_are_left_out() -> None:
    assert describe(session(1), None, NOW) == ["prompt 1", "1 h ago", str(HOME)]
    assert describe(session(1), SessionFacts("", 1, 0.0, ()), NOW)[1] == "1 h ago · 1 prompt · $0.00"


def test_the_list_of_sessions_works_at_every_size() -> None:
    def load() -> list[SessionInfo]:
        return [session(number) for number in range(30)]

    assert play(picker(Index(load, (session(3), "prompt text")), query="prompt"), through_all_sizes).answer is None
