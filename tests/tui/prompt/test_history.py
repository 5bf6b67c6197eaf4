"""The prompt history: what is kept, what is found, and torn or shared files."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from agentcli.interactive.drafts import MAX_ENTRIES, Draft, History, HistoryWalk, ImagePiece, PastedPiece, history_path


def texts(history: History) -> list[str]:
    return [draft.text for draft in history.entries]


def filled(path: Path | None, *entries: str) -> History:
    history = History(path)
    for entry in entries:
        history.add(Draft(entry))
    return history


def test_sent_prompts_are_available_in_the_next_process_newest_last(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history" / "project.jsonl"
    filled(path, "one", "two\nlines", "drei 漢字")
    assert texts(History(path)) == ["one", "two\nlines", "drei 漢字"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_repeated_prompt_is_one_entry_and_a_blank_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    history = filled(path, "one", "one", " \n", "two", "one")
    assert texts(history) == texts(History(path)) == ["one", "two", "one"]


def test_no_key_gets_into_the_file(tmp_path: Path) -> None:
    path, key = tmp_path / "h.jsonl", "sk-ant-api03-0123456789-abcdefghij"
    pasted = Draft("[Pasted #1: 9 lines]", {"[Pasted #1: 9 lines]": PastedPiece(f"KEY={key}\n" * 9)})
    history = filled(path, "before", key, f"/login {key}")
    history.add(pasted)
    history.add(Draft("after"))
    assert f"/login {key}" in texts(history), "it can be mended while it is fresh"
    assert texts(History(path)) == ["before", "after"]
    assert key not in path.read_text()


def test_duplicates_of_several_processes_collapse(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    first, second = History(path), History(path)
    first.add(Draft("same"))
    second.add(Draft("same"))
    assert texts(History(path)) == ["same"]


def test_torn_junk_and_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    lines = [
        b'{"text": "good"}',
        b"\x00\x00\xff",
        b"[1]",
        b'{"text": 5}',
        b'{"text": "x", "pieces": 7}',
        b'{"pieces": {}}',
        b"{" * 50_000,
        b'{"text": "also good", "pieces": {"a": {"kind": "newer"}}}',
        b'{"text": "to',
    ]
    path.write_bytes(b"\n".join(lines))
    history = History(path)
    assert texts(history) == ["good", "also good"]
    history.add(Draft("after a torn line"))
    assert texts(History(path)) == ["good", "also good", "after a torn line"]


def _sender(path: Path, number: int) -> None:
    history = History(path)
    for index in range(50):
        history.add(Draft(f"{number}-{index} " + "x" * 3_000))


def test_several_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_sender, args=(path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(text.split()[0] for text in texts(History(path))) == sorted(
        f"{number}-{index}" for number in range(3) for index in range(50)
    )


def test_a_long_history_is_cut_and_the_file_compacted(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("".join(json.dumps({"text": f"prompt {number}"}) + "\n" for number in range(10_000)))
    path.chmod(0o600)
    history = History(path)
    assert len(history.entries) == MAX_ENTRIES
    assert texts(history)[-1] == "prompt 9999"
    assert len(path.read_text().splitlines()) == MAX_ENTRIES
    assert path.stat().st_mode & 0o777 == 0o600
    history.add(Draft("one more"))
    assert texts(History(path))[-2:] == ["prompt 9999", "one more"]


def test_nothing_is_read_before_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"text": "before"}\n')
    monkeypatch.setattr(History, "_read", lambda _self: pytest.fail("read"))
    history = History(path)
    history.add(Draft("sent"))
    monkeypatch.undo()
    history.warm()
    assert texts(history) == ["before", "sent"]


def test_small_pastes_come_back_and_large_ones_only_in_this_process(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    small, large, image = "[Pasted #1: 20 lines]", "[Pasted #2: 9,000 lines]", "[Image #3: a.png]"
    pieces = {small: PastedPiece("s\n" * 20), large: PastedPiece("l\n" * 90_000), image: ImagePiece("/tmp/a.png", "AA")}
    draft = Draft(f"{small} {large} {image}", pieces)
    history = History(path)
    history.add(draft)
    assert history.entries[-1].expanded() == draft.expanded()
    again = History(path).entries[-1]
    assert again.text == draft.text
    assert again.expanded() == "s\n" * 20 + f" {large} {image}"
    assert again.pieces[image] == ImagePiece("/tmp/a.png")
    assert path.stat().st_size < 1_000


def test_the_process_keeps_its_history_without_a_disk(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    history = filled(blocked / "below" / "h.jsonl", "kept in memory")
    assert texts(history) == ["kept in memory"]
    assert texts(filled(None, "x")) == ["x"]


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "h.jsonl").symlink_to(target)
    assert texts(filled(tmp_path / "h.jsonl", "text")) == ["text"]
    assert target.read_text() == "precious"


def test_projects_have_files_of_their_own_also_when_their_names_look_alike(tmp_path: Path) -> None:
    paths = {history_path(tmp_path, Path(name)) for name in ("/a/b", "/a-b", "/a/b/")}
    assert len(paths) == 2
    assert history_path(None, Path("/a")) is None


def test_earlier_prompts_are_listed_once_newest_first() -> None:
    history = filled(None, "fix the parser", "unrelated", "fix the lexer", "fix the parser")
    assert [draft.text for draft in history.newest()] == ["fix the parser", "fix the lexer", "unrelated"]


def test_navigation_goes_up_and_down_and_keeps_edits() -> None:
    walk = HistoryWalk(filled(None, "one", "two"))
    assert walk.newer(Draft("typed")) is None
    assert walk.older(Draft("typed")) == Draft("two")
    assert walk.older(Draft("two!")) == Draft("one")
    assert walk.older(Draft("one")) is None
    assert walk.newer(Draft("one")) == Draft("two!")
    assert walk.newer(Draft("two!")) == Draft("typed")
    assert walk.newer(Draft("typed")) is None
    assert HistoryWalk(History(None)).older(Draft("x")) is None


def test_the_umask_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        filled(tmp_path / "new" / "h.jsonl", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "h.jsonl").stat().st_mode & 0o077 == 0
