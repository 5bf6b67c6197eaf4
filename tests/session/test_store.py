"""The store on real files: what the lines look like, who may write, and what happens when writing fails."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.errors import UsageError
from agentcli.core.events import (
    AgentFinished,
    BackgroundChanged,
    BlockFinished,
    Event,
    MessageAppended,
    NoticeRaised,
    ReplyTombstoned,
    RequestRepaired,
    ToolFinished,
)
from agentcli.core.messages import Message, Origin, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentcli.session import journal
from agentcli.session.base import (
    NOT_KEPT,
    TEXT_LIMIT,
    SessionBusy,
    SessionExists,
    SessionTooNew,
    Store,
    decode_line,
    encode_line,
    make_private_dir,
    project_key,
)
from agentcli.session.find import describe_session
from agentcli.session.load import UNFINISHED, LoadedSession, load_end_of_history, load_session, read_records
from agentcli.session.store import SessionStore
from tests.session.conversations import OTHER_ID, SESSION_ID, FixedClock, conversation, result, workplace
from tests.support.agent_events import agent_end, agent_start, agent_work


def prompt(text: str, id: str = "prompt-1") -> MessageAppended:
    return MessageAppended(message=Message("user", (TextBlock(text),), id, Origin.PROMPT))


def call(id: str = "toolu_1") -> ToolUseBlock:
    return ToolUseBlock(id, "Read", {"file_path": "a"})


def block(value: Any, message_id: str = "reply-1", index: int = 0) -> BlockFinished:
    return BlockFinished(message_id=message_id, api_id="msg_1", model="model-a", index=index, block=value)


def finished(id: str = "toolu_1", text: str = "content") -> ToolFinished:
    return ToolFinished(tool_use_id=id, name="Read", result=ToolResultBlock(id, (TextBlock(text),)), summary="1 line")


def file_of(store: Store) -> Path:
    assert store.path is not None
    return store.path


def notices(store: Store) -> list[str]:
    found = []
    while (notice := store.take_notice()) is not None:
        found.append(notice)
    return found


def saved(folder: Path, *events: Event) -> Path:
    """The file of a session with these events."""
    store = SessionStore.create(workplace(folder), SESSION_ID)
    for event in events:
        store.record(event)
    store.close()
    return file_of(store)


def resumed(folder: Path, path: Path, *events: Event) -> tuple[LoadedSession, list[str]]:
    """Resume a session and record more; returns what was loaded, and the notices."""
    store, loaded = SessionStore.resume(workplace(folder, first_id=1_000), path)
    for event in events:
        store.record(event)
    store.close()
    return loaded, notices(store)


def texts(path: Path) -> list[str]:
    return [message.text for message in load_session(path).messages]


# ------------------------------------------------------------------------------------------------------ the lines


def test_lines_have_the_fields_that_other_programs_expect(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.set_system_context("on a branch")
    reply = Message("assistant", (TextBlock("I look"), call()), "reply-1", Origin.REPLY, "msg_1", "model-a", "tool_use")
    results = Message("user", (finished().result,), "results-1", Origin.TOOL_RESULTS)
    for event in (
        prompt("hello"),
        block(TextBlock("I look")),
        block(call(), index=1),
        finished(),
        MessageAppended(message=reply),
        MessageAppended(message=results),
        result(),
    ):
        store.record(event)
    store.close()
    path = file_of(store)
    assert path == tmp_path / "state" / "sessions" / project_key(tmp_path) / f"{SESSION_ID}.jsonl"
    raw = path.read_bytes().splitlines()
    lines = [json.loads(line) for line in raw]
    assert [line["type"] for line in lines] == [
        "session",
        "user",
        "assistant",
        "assistant",
        "user",
        "reply-end",
        "results-end",
        "submission-end",
    ]
    assert lines[0]["format"] == 1
    assert lines[0]["systemContext"] == "on a branch"
    assert all(line["sessionId"] == SESSION_ID and line["isSidechain"] is False for line in lines)
    assert raw[1].startswith(b'{"type":"user","uuid":"prompt-1","parentUuid":null,')
    for part in (b'"cwd":"', b'"timestamp":"2026-', b'"version":"0.1.0"'):
        assert part in raw[1]
    text, use, answer = lines[2:5]
    assert [text["message"]["id"], use["message"]["id"]] == ["msg_1", "msg_1"]
    assert (text["parentUuid"], use["parentUuid"], answer["parentUuid"]) == ("prompt-1", text["uuid"], use["uuid"])
    assert lines[5]["parts"] == [text["uuid"], use["uuid"]]
    assert lines[6]["parts"] == [answer["uuid"]]
    ended = lines[7]["event"]
    assert (ended["terminal"], lines[7]["messages"], ended["total_cost_usd"]) == ("completed", 3, 0.25)
    loaded = load_session(path)
    assert loaded.system_context == "on a branch"
    assert loaded.leaf == answer["uuid"]


def test_completed_blocks_are_on_disk_before_the_message_ends(tmp_path: Path) -> None:
    path = saved(tmp_path, prompt("p"), block(call("a")), block(call("b"), index=1), finished("a", "done"))
    loaded = load_session(path).messages
    assert [message.role for message in loaded] == ["user", "assistant", "user"]
    assert [use.id for use in loaded[1].tool_uses] == ["a", "b"]
    assert [(found.text, found.is_error) for found in loaded[2].tool_results] == [("done", False), (UNFINISHED, True)]


@pytest.mark.parametrize(("kept", "blocks"), [(0, 1), (2, 3)])
def test_thinking_at_the_end_of_a_reply_that_a_crash_left_is_dropped(tmp_path: Path, kept: int, blocks: int) -> None:
    content = (ThinkingBlock("hm", "sig"), TextBlock("so"), ThinkingBlock("more", "sig"))
    path = saved(tmp_path, prompt("p"), *(block(each, index=at) for at, each in enumerate(content[:blocks])))
    assert [message.content for message in load_session(path).messages[1:]] == ([content[:kept]] if kept else [])


def test_a_tombstone_removes_the_reply_and_its_results_from_the_chain(tmp_path: Path) -> None:
    void = ReplyTombstoned(message_id="reply-1", reason="broken")
    path = saved(tmp_path, prompt("p"), block(call("a")), finished("a", "void"), void, block(TextBlock("again")))
    assert texts(path) == ["p", "again"]
    assert list(read_records(path))[-1]["parentUuid"] == "prompt-1"


def test_events_of_sub_agents_alone_make_no_file(tmp_path: Path) -> None:
    assert not saved(tmp_path, MessageAppended(agent="sub", message=prompt("x").message)).exists()


def test_of_a_sub_agent_its_start_and_its_end_are_kept(tmp_path: Path) -> None:
    started, ended = agent_start("explore-1", "toolu_1"), agent_end("explore-1", "toolu_1", text="x" * (2 * TEXT_LIMIT))
    path = saved(tmp_path, prompt("p"), started, *agent_work("explore-1"), ended)
    _prompt, first, last = load_session(path).history
    assert first == started
    assert isinstance(last, AgentFinished)
    assert (last.agent, last.text.endswith(NOT_KEPT)) == ("explore-1", True)


@pytest.mark.parametrize("structured", [{(1, 2): 3}, {"path": Path("/x")}, {1, 2}])
def test_invalid_structured_data_never_loses_the_tool_result(tmp_path: Path, structured: Any) -> None:
    path = saved(tmp_path, prompt("p"), block(call()), replace(finished(), structured=structured))
    assert load_session(path).messages[-1].content == (finished().result,)


def test_titles_context_and_redactions_come_back(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.set_title("first name")
    assert not file_of(store).exists(), "a name alone makes no session"
    store.record(prompt("p"))
    store.record(RequestRepaired(repair="drop_images", through="prompt-1", text="refused"))
    store.set_title("second name")
    store.set_system_context("new", ["Working directory: /work"])
    store.set_system_context("new")
    store.close()
    loaded = load_session(file_of(store))
    assert (loaded.title, loaded.system_context) == ("second name", "new")
    assert loaded.folders == ("Working directory: /work",)
    assert [(found.repair, found.through) for found in loaded.redactions] == [("drop_images", "prompt-1")]
    assert sum(record["type"] == "system-context" for record in read_records(file_of(store))) == 1


def test_the_end_of_a_background_command_is_recorded_and_shown_again(tmp_path: Path) -> None:
    started = BackgroundChanged(task_id="bash_1", status="running", command="make", summary="")
    changes = [started, replace(started, status="failed", summary="exit code 4")]
    loaded = load_session(saved(tmp_path, prompt("p"), *changes))
    assert loaded.background == {"bash_1": {"command": "make", "status": "failed", "summary": "exit code 4"}}
    assert [event for event in loaded.history if isinstance(event, BackgroundChanged)] == changes


@pytest.mark.parametrize("character", ["x", "ä", "\U0001f600"])
def test_the_beginning_of_a_very_long_output_is_kept(tmp_path: Path, character: str) -> None:
    fits = "y" * TEXT_LIMIT
    path = saved(tmp_path, prompt("p"), NoticeRaised(text=character * 2_000_000), NoticeRaised(text=fits))
    assert path.stat().st_size < 4 * TEXT_LIMIT
    cut, whole = [event.text for event in load_session(path).history if isinstance(event, NoticeRaised)]
    kept, note = cut.split("\n\n")
    assert (note, set(kept), whole) == (NOT_KEPT, {character}, fits)
    assert TEXT_LIMIT - 4 < len(kept.encode()) <= TEXT_LIMIT


def test_lines_of_unknown_types_are_kept(tmp_path: Path) -> None:
    path = saved(tmp_path, prompt("first"))
    unknown: list[dict[str, Any]] = [
        {"type": "custom-title", "customTitle": "theirs"},
        {"type": "from-the-future", "message": 5},
        {"type": "user", "uuid": "6", "isSidechain": True, "message": {"role": "user", "content": "elsewhere"}},
    ]
    before = path.read_text() + "".join(json.dumps(line) + "\n" for line in unknown)
    path.write_text(before)
    loaded, _notices = resumed(tmp_path, path, prompt("mine"))
    assert ([message.text for message in loaded.messages], loaded.title, loaded.skipped) == (["first"], "theirs", 0)
    assert path.read_text().startswith(before)
    assert texts(path) == ["first", "mine"]


# --------------------------------------------------------------------------------------------------------- one writer


def test_a_second_writer_is_refused_until_the_first_releases_the_lock(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    first = SessionStore.create(place, SESSION_ID)
    first.record(prompt("p"))
    with pytest.raises(SessionBusy, match="--fork-session"):
        SessionStore.resume(place, file_of(first))
    fork, loaded = SessionStore.fork(place, file_of(first), OTHER_ID)
    assert [message.text for message in loaded.messages] == ["p"]
    fork.close()
    first.close()
    first.close()
    second, _loaded = SessionStore.resume(place, file_of(first))
    second.close()
    assert not list(file_of(first).parent.glob("*.lock"))


def test_a_killed_process_releases_its_lock_and_its_lines_stay(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tests.session.conversations import SESSION_ID, workplace
from agentcli.core.events import MessageAppended
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.session.store import SessionStore
store = SessionStore.create(workplace(Path(sys.argv[1])), SESSION_ID)
number = 0
while True:
    message = Message("user", (TextBlock(f"prompt {number}"),), f"id-{number}", Origin.PROMPT)
    store.record(MessageAppended(message=message))
    number += 1
    if number == 200:
        print("ready", flush=True)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, cwd=root) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        place = workplace(tmp_path)
        (path,) = (tmp_path / "state" / "sessions").glob("*/*.jsonl")
        with pytest.raises(SessionBusy):
            SessionStore.resume(place, path)
        child.send_signal(signal.SIGKILL)
    store, loaded = SessionStore.resume(place, path)
    store.close()
    assert len(loaded.messages) >= 200
    assert [message.text for message in loaded.messages] == [f"prompt {n}" for n in range(len(loaded.messages))]


def test_a_used_or_invalid_id_is_refused_with_advice(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    store = SessionStore.create(place, SESSION_ID)
    with pytest.raises(SessionBusy):
        SessionStore.create(place, SESSION_ID)
    store.record(prompt("p"))
    store.close()
    with pytest.raises(SessionExists, match="--resume"):
        SessionStore.create(place, SESSION_ID)
    with pytest.raises(UsageError, match="UUID"):
        SessionStore.create(place, "../../etc/passwd")


def test_a_file_of_a_newer_version_can_be_read_and_forked_but_not_added_to(tmp_path: Path) -> None:
    path = saved(tmp_path, prompt("p"))
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))
    before = path.read_bytes()
    with pytest.raises(SessionTooNew, match="--fork-session"):
        SessionStore.resume(workplace(tmp_path), path)
    fork, loaded = SessionStore.fork(workplace(tmp_path), path, OTHER_ID)
    fork.close()
    assert (loaded.too_new, [message.text for message in loaded.messages]) == (True, ["p"])
    assert path.read_bytes() == before
    assert not load_session(file_of(fork)).too_new


# ----------------------------------------------------------------------------------------------------- rights, folders


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_files_are_for_the_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        store = SessionStore.create(workplace(tmp_path), SESSION_ID)
        store.record(prompt("p"))
        lock_mode = file_of(store).with_suffix(".lock").stat().st_mode
        results = store.results_dir()
        assert results is not None
        (results / "kept.txt").write_text("x")
        store.close()
    finally:
        os.umask(old)
    path = file_of(store)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(lock_mode) & 0o077 == 0
    for folder in (path.parent, path.parent.parent, tmp_path / "state", results, results.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_empty_results_folder_is_removed(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    results = store.results_dir()
    store.close()
    assert results is not None
    assert not results.parent.exists()


def test_a_folder_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    make_private_dir(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_key_of_a_project_is_plain_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    assert project_key(tmp_path / "link") == project_key(tmp_path / "a b")
    assert project_key(Path("/home/me/my.project_1")) == "-home-me-my-project-1"
    long = [project_key(Path("/" + "x" * 250 + end)) for end in "ab"]
    assert long[0] != long[1]
    assert all(key.startswith("-" + "x" * 199 + "-") and len(key) < 255 for key in long)


# ------------------------------------------------------------------------------------------------- when writing fails


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """A real full disk in small: writes past the limit are cut short, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_reported_once_and_missed_lines_are_written_later(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SessionStore.create(workplace(tmp_path, clock=clock), SESSION_ID)
    store.record(prompt("one", "1"))
    path = file_of(store)
    before = path.read_bytes()
    with file_size_limit(len(before) + 50):
        store.record(prompt("two", "2"))
        assert path.read_bytes() == before
        store.record(prompt("three", "3"))
        assert store.problem is not None
        (notice,) = notices(store)
        assert "not being saved" in notice
        clock.now += journal.RETRY_SECONDS
        store.record(prompt("four", "4"))
        assert len(notices(store)) == 1, "it is said again when it was tried again"
        assert path.read_bytes() == before
    store.record(prompt("five", "5"))
    assert path.read_bytes() == before, "not tried again before it is time"
    clock.now += journal.RETRY_SECONDS
    store.record(prompt("six", "6"))
    assert store.problem is None
    assert notices(store) == ["This conversation is being saved again."]
    store.close()
    assert texts(path) == ["one", "two", "three", "four", "five", "six"]


def test_missed_lines_are_written_at_the_end_if_possible(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.record(prompt("one", "1"))
    with file_size_limit(file_of(store).stat().st_size):
        store.record(prompt("two", "2"))
    store.close()
    assert texts(file_of(store)) == ["one", "two"]


def test_lines_beyond_the_memory_limit_become_a_gap_that_still_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BUFFER_LIMIT", 2000)
    clock = FixedClock()
    store = SessionStore.create(workplace(tmp_path, clock=clock), SESSION_ID)
    store.set_title("name")
    made = conversation(seed=3, submissions=1)
    with file_size_limit(0):
        for event in made.events:
            store.record(event)
        store.record(block(call("late"), "reply-late"))
    clock.now += journal.RETRY_SECONDS
    reply = Message("assistant", (call("late"),), "reply-late", Origin.REPLY, "msg_1", "model-a")
    results = Message("user", (finished("late").result,), "results-late", Origin.TOOL_RESULTS)
    store.record(MessageAppended(message=reply))
    store.record(finished("late"))
    store.record(MessageAppended(message=results))
    store.close()
    loaded = load_session(file_of(store))
    assert loaded.messages == [reply, results]
    assert loaded.lost > 5
    assert (loaded.title, loaded.skipped) == ("name", 0)
    assert any("could not be saved" in notice for notice in loaded.notices())


def test_a_state_folder_that_cannot_be_created_is_reported_without_an_exception(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    clock = FixedClock()
    store = SessionStore.create(workplace(tmp_path, clock=clock), SESSION_ID)
    assert store.problem is not None
    assert len(notices(store)) == 1
    store.record(prompt("one"))
    store.sync()
    assert store.results_dir() is None
    (tmp_path / "state").unlink()
    clock.now += journal.RETRY_SECONDS
    store.record(prompt("two", "prompt-2"))
    store.close()
    assert texts(file_of(store)) == ["one", "two"]


def test_a_session_file_removed_under_us_is_noticed(tmp_path: Path) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.record(prompt("one"))
    file_of(store).unlink()
    store.sync()
    assert "removed" in notices(store)[0]
    store.record(prompt("two"))
    store.close()
    assert not file_of(store).exists()


@pytest.mark.parametrize(
    ("tail", "is_torn"), [(b'{"type":"user","uu', True), (b'{"type":"custom-title","customTitle":"x"}', False)]
)
def test_a_torn_line_is_reported_once_and_cut_and_a_line_without_its_newline_is_kept(
    tmp_path: Path, tail: bytes, is_torn: bool
) -> None:
    path = saved(tmp_path, prompt("one", "1"))
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    loaded, said = resumed(tmp_path, path, prompt("two", "2"))
    assert (loaded.torn, ["incomplete" in notice for notice in said]) == (is_torn, [True] if is_torn else [])
    assert path.read_bytes().startswith(whole + (b"" if is_torn else tail + b"\n") + b'{"type":"resume"')
    loaded, said = resumed(tmp_path, path)
    assert (loaded.torn, loaded.skipped, said, texts(path)) == (False, 0, [], ["one", "two"])


def test_a_line_that_another_program_adds_after_loading_is_not_cut(tmp_path: Path) -> None:
    path = saved(tmp_path, prompt("one", "1"))
    with path.open("ab") as file:
        file.write(b'{"torn')
    store, _loaded = SessionStore.resume(workplace(tmp_path), path)
    with path.open("ab") as file:
        file.write(b'\n{"type":"custom-title","customTitle":"theirs"}\n')
    store.record(prompt("two", "2"))
    store.close()
    assert (load_session(path).title, texts(path)) == ("theirs", ["one", "two"])


def test_a_record_behind_a_run_of_zeros_is_found(tmp_path: Path) -> None:
    path = saved(tmp_path, prompt("one", "1"), prompt("two", "2"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + b"\0" * 5000 + lines[2] + b"\0" * 100)
    assert (texts(path), load_session(path).torn) == (["one", "two"], True)


def test_the_store_without_recording_has_the_same_interface() -> None:
    store: Store = Store(SESSION_ID, "There is no home folder, so this conversation is not saved.")
    store.record(prompt("p"))
    store.set_title("t")
    store.set_system_context("c")
    store.sync()
    assert (store.path, store.results_dir(), store.session_id) == (None, None, SESSION_ID)
    assert len(notices(store)) == 1
    assert store.problem is not None
    store.close()


def test_the_user_context_comes_back_as_it_was_also_in_a_fork(tmp_path: Path) -> None:
    text = "be brief\n" * 20_000
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.set_user_context(text, {"/repo/AGENTS.md": "digest"})
    assert not file_of(store).exists()
    store.record(prompt("hello"))
    store.close()
    types = [record["type"] for record in read_records(file_of(store))]
    assert types == ["session", "user", "user-context"]
    info = describe_session(file_of(store))
    assert info is not None
    assert info.first_prompt == "hello"
    again, loaded = SessionStore.resume(workplace(tmp_path), file_of(store))
    assert loaded.user_contexts == {"": (text, {"/repo/AGENTS.md": "digest"})}
    again.set_user_context(text, {"/repo/AGENTS.md": "digest"})
    again.set_user_context("other", {}, "boundary-1")
    again.close()
    contexts = {"": (text, {"/repo/AGENTS.md": "digest"}), "boundary-1": ("other", {})}
    assert load_session(file_of(store)).user_contexts == contexts
    fork, forked = SessionStore.fork(workplace(tmp_path), file_of(store), OTHER_ID)
    fork.close()
    assert forked.user_contexts == load_session(file_of(fork)).user_contexts == contexts


@pytest.mark.parametrize("levels", [101, 600, 100_000])
def test_a_line_nested_too_deeply_is_skipped_and_counted_and_the_rest_loads(tmp_path: Path, levels: int) -> None:
    path = saved(tmp_path, prompt("first"))
    nested = '{"type":"user","uuid":"x","message":' + "[" * levels + "]" * levels + "}\n"
    path.write_text(path.read_text() + nested)
    loaded = load_session(path)
    assert [message.id for message in loaded.messages] == ["prompt-1"]
    assert loaded.skipped == 1
    assert load_end_of_history(path) == loaded.history


def test_a_line_with_a_number_that_no_request_can_hold_is_junk() -> None:
    assert decode_line(b'{"a": 1e999}') is None
    assert decode_line(encode_line({"a": 1e300})) == json.loads('{"a": 1e300}')
