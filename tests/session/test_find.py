"""Finding sessions by id, start of an id, name, text and age, from the ends of their files."""

from __future__ import annotations

import os
from pathlib import Path

from agentcli.core.events import MessageAppended
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.session import find as finding
from agentcli.session.base import sessions_dir
from agentcli.session.find import describe_session, find, latest, list_sessions
from agentcli.session.store import SessionStore
from tests.session.conversations import result, workplace

IDS = [f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc"]


def add(folder: Path, number: int, text: str, *, title: str = "", end: bool = True) -> Path:
    store = SessionStore.create(workplace(folder), IDS[number])
    if title:
        store.set_title(title)
    store.record(MessageAppended(message=Message("user", (TextBlock("context"),), "0", Origin.ATTACHMENT)))
    store.record(MessageAppended(message=Message("user", (TextBlock(text),), "1", Origin.PROMPT)))
    if end:
        store.record(result())
    store.close()
    assert store.path is not None
    os.utime(store.path, (1000 + number, 1000 + number))
    return store.path


def test_sessions_are_listed_newest_first_with_the_details_needed_to_choose(tmp_path: Path) -> None:
    add(tmp_path, 0, "fix the\n  bug", title="Bug hunt")
    add(tmp_path, 1, "second", end=False)
    listed = list_sessions(tmp_path / "state", tmp_path)
    assert [info.session_id for info in listed] == [IDS[1], IDS[0]]
    second, first = listed
    assert (first.title, first.first_prompt, first.message_count) == ("Bug hunt", "fix the bug", 2)
    assert (first.label, second.label, second.message_count) == ("Bug hunt", "second", None)
    assert (first.cwd, first.modified) == (str(tmp_path), 1000)


def test_the_latest_is_the_one_written_last_and_empty_files_do_not_count(tmp_path: Path) -> None:
    assert latest(tmp_path / "state", tmp_path) is None
    path = add(tmp_path, 0, "first")
    add(tmp_path, 1, "second")
    (path.parent / f"{IDS[2]}.jsonl").touch()
    (path.parent / "notes.jsonl").write_text("{}")
    found = latest(tmp_path / "state", tmp_path)
    assert found is not None
    assert found.session_id == IDS[1]
    os.utime(path, (5000, 5000))
    found = latest(tmp_path / "state", tmp_path)
    assert found is not None
    assert found.session_id == IDS[0]


def test_a_session_is_resumed_by_its_name_only_where_the_name_means_no_other(tmp_path: Path) -> None:
    add(tmp_path, 0, "first", title="Parser")
    store = SessionStore.create(workplace(tmp_path), IDS[1])
    store.record(MessageAppended(message=Message("user", (TextBlock("second"),), "1", Origin.PROMPT)))
    names = []
    for title in ("", "my lexer", "parser", "-x", "a\x1b[31mb", IDS[0]):
        store.set_title(title)
        names.append(store.resume_name())
    store.close()
    assert names == [IDS[1], "my lexer", *[IDS[1]] * 4]


def test_a_session_is_found_by_id_start_of_id_name_or_text(tmp_path: Path) -> None:
    add(tmp_path, 0, "fix the parser", title="Parser")
    add(tmp_path, 1, "parser again")
    state = tmp_path / "state"

    def found(text: str) -> list[str]:
        return [info.session_id[0] for info in find(state, tmp_path, text)]

    assert found(IDS[0].upper()) == ["a"]
    assert found("bbbb") == ["b"]
    assert found("parser") == ["a"], "a name that fits wholly comes before one that fits partly"
    assert found("AGAIN") == ["b"]
    assert found("parse") == ["b", "a"]
    assert found("nothing") == found("") == found("../..") == []


def test_a_full_id_is_found_from_another_project(tmp_path: Path) -> None:
    add(tmp_path, 0, "elsewhere")
    other = tmp_path / "other"
    other.mkdir()
    assert [info.session_id for info in find(tmp_path / "state", other, IDS[0])] == [IDS[0]]
    assert find(tmp_path / "state", other, "aaaa") == []
    assert list_sessions(tmp_path / "state", other) == []
    assert len(list_sessions(tmp_path / "state")) == 1


def test_a_prompt_longer_than_the_read_limit_still_gives_a_label(tmp_path: Path) -> None:
    path = add(tmp_path, 0, 'say "hi" ' + "x" * (3 * finding.WINDOW))
    info = describe_session(path)
    assert info is not None
    assert info.first_prompt.startswith('say "hi" xxx')
    assert len(info.first_prompt) <= finding.TEXT_LIMIT
    assert info.message_count == 2


def test_files_of_junk_are_listed_without_harm(tmp_path: Path) -> None:
    folder = sessions_dir(tmp_path / "state") / "key"
    folder.mkdir(parents=True)
    (folder / f"{IDS[0]}.jsonl").write_bytes(os.urandom(100_000))
    (folder / f"{IDS[1]}.jsonl").write_bytes(b'{"type":"user","message":[]}\n{"type":"user"}\n[]\n')
    (folder / f"{IDS[2]}.jsonl").mkdir()
    assert {info.label for info in list_sessions(tmp_path / "state")} == {"(no prompt)"}


def test_folders_that_share_a_key_do_not_share_sessions(tmp_path: Path) -> None:
    from agentcli.core.events import MessageAppended
    from agentcli.core.ids import RandomIds, SystemClock
    from agentcli.core.messages import Origin, user_message
    from agentcli.session.base import SessionContext
    from agentcli.session.store import SessionStore

    one, other = Path("/x/a/b-c"), Path("/x/a/b/c")
    ids = RandomIds()
    store = SessionStore.create(SessionContext(tmp_path, one, SystemClock(), ids, "test"), ids.new())
    store.record(MessageAppended(message=user_message("hello", ids.new(), Origin.PROMPT)))
    store.close()
    assert latest(tmp_path, one) is not None
    assert latest(tmp_path, other) is None
    assert find(tmp_path, other, "hello") == []
