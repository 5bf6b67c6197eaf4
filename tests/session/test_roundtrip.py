"""A loaded session equals the engine's log: whole files, files cut anywhere, and after continuing."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.core.events import MessageAppended
from agentcli.core.messages import Message, Origin, TextBlock, message_to_dict
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.session.conversations import (
    OTHER_ID,
    SESSION_ID,
    Conversation,
    assert_every_call_is_answered_once,
    conversation,
    workplace,
)
from tests.support.examples import UNHURRIED_IN_ONE_FOLDER

GENERATED = settings(suppress_health_check=UNHURRIED_IN_ONE_FOLDER, derandomize=True)


def write(folder: Path, made: Conversation) -> Path:
    store = SessionStore.create(workplace(folder), SESSION_ID)
    for event in made.events:
        store.record(event)
    store.close()
    assert store.path is not None
    assert store.problem is None
    return store.path


def as_sent(messages: list[Message]) -> str:
    """Also what Python calls equal but a request would not: 1 and True, the order of keys."""
    return json.dumps([message_to_dict(message) for message in messages])


@GENERATED
@given(seed=st.integers(0, 2**32))
def test_a_loaded_session_equals_the_log_that_was_recorded(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    made = conversation(seed)
    loaded = load_session(write(tmp_path_factory.mktemp("round"), made))
    assert loaded.messages == made.log
    assert as_sent(loaded.messages) == as_sent(made.log)
    assert (loaded.skipped, loaded.torn, loaded.lost) == (0, False, 0)
    assert loaded.session_id == SESSION_ID


@GENERATED
@given(seed=st.integers(0, 2**32))
def test_a_session_loaded_without_its_history_is_the_same_otherwise(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = write(tmp_path_factory.mktemp("round"), conversation(seed))
    whole, bare = load_session(path), load_session(path, with_history=False)
    assert bare.history == []
    assert bare == replace(whole, history=[])


def assert_is_what_a_crash_leaves(loaded: list[Message], log: list[Message]) -> None:
    """A prefix of the log, then at most one reply that never ended and the answers to its calls."""
    same = 0
    while same < min(len(loaded), len(log)) and loaded[same] == log[same]:
        same += 1
    rest = [message for message in loaded[same:] if not message.origin.local]
    assert len(rest) <= 2, "a crash can leave one open reply and its results, not more"
    for message in rest:
        assert message.origin in (Origin.REPLY, Origin.TOOL_RESULTS)
    assert_every_call_is_answered_once(loaded)


def test_a_session_cut_around_line_ends_or_within_a_line_loads_and_is_a_prefix_of_the_log(tmp_path: Path) -> None:
    made = conversation(seed=7, submissions=1)
    path = write(tmp_path, made)
    whole = path.read_bytes()
    size = len(whole)
    assert size > 4000
    previous = len(made.log)
    for length in range(size - 1, -1, -1):
        if length % 5 and b"\n" not in whole[max(length - 3, 0) : length + 3]:
            continue  # within a line every fifth byte, around its end each one
        os.truncate(path, length)
        loaded = load_session(path)
        assert_is_what_a_crash_leaves(loaded.messages, made.log)
        assert loaded.ending.whole <= length
        assert len(loaded.messages) <= previous + 2
        previous = len(loaded.messages)


def complete(messages: list[Message]) -> list[Message]:
    return [message for message in messages if not message.origin.local]


@GENERATED
@given(seed=st.integers(0, 2**32), where=st.floats(0, 1), junk=st.booleans())
def test_continuing_after_a_crash_keeps_the_loaded_log_and_adds_to_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, where: float, junk: bool
) -> None:
    folder = tmp_path_factory.mktemp("crash")
    made = conversation(seed)
    path = write(folder, made)
    os.truncate(path, int(path.stat().st_size * where))
    if junk:
        with path.open("ab") as file:
            file.write(b'\n\0\0\0\xff{"type":"assistant"}\n')
    store, first = SessionStore.resume(workplace(folder, first_id=2_000_000), path)
    assert_is_what_a_crash_leaves(first.messages, made.log)
    more = Conversation(random.Random(seed + 1), ids=made.ids)
    more.submission()
    for event in more.events:
        store.record(event)
    store.close()
    again = load_session(path)
    assert again.messages == first.messages + more.log
    assert as_sent(again.messages) == as_sent(first.messages + more.log)
    assert not again.torn


@GENERATED
@given(seed=st.integers(0, 2**32), damage=st.lists(st.integers(0, 2**32), min_size=1, max_size=6))
def test_junk_in_the_middle_never_stops_a_load_and_leaves_every_call_answered(
    tmp_path_factory: pytest.TempPathFactory, seed: int, damage: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("junk")
    path = write(folder, conversation(seed))
    lines = path.read_bytes().split(b"\n")
    for number in damage:
        line = lines[number % len(lines)]
        kinds = (b"\0" * len(line), line[: len(line) // 2], b"\xff\xfe", b"[]", b'{"type":"user"}')
        lines[number % len(lines)] = kinds[number % len(kinds)]
    before = b"\n".join(lines)
    path.write_bytes(before)
    loaded = load_session(path)
    assert_every_call_is_answered_once(loaded.messages)
    store, _loaded = SessionStore.resume(workplace(folder, first_id=2_000_000), path)
    prompt = Message("user", (TextBlock("go on"),), "next-prompt", Origin.PROMPT)
    store.record(MessageAppended(message=prompt))
    store.close()
    again = load_session(path)
    assert again.messages == [*loaded.messages, prompt]
    assert path.read_bytes().startswith(before[: loaded.ending.whole]), "junk is kept, not rewritten"


odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["x", "y", "reply", "prompt", "tool_results"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "role", "content", "id", "tool_use_id"]), inner, max_size=3)
    ),
    max_leaves=8,
)
odd_records = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["user", "assistant", "reply-end", "results-end", "tombstone", "session", "gap", "error", "event"]
        )
    },
    optional=dict.fromkeys(
        ("uuid", "message", "messageId", "parts", "origin", "meta", "usage", "format", "lost", "cwd", "event"),
        odd_values,
    ),
)


@GENERATED
@given(records=st.lists(odd_records, max_size=12))
def test_records_of_any_shape_never_stop_a_load(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("odd") / f"{SESSION_ID}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert_every_call_is_answered_once(load_session(path).messages)


@GENERATED
@given(seed=st.integers(0, 2**32), where=st.floats(0.2, 1))
def test_a_fork_loads_to_the_same_messages_and_leaves_its_source_alone(
    tmp_path_factory: pytest.TempPathFactory, seed: int, where: float
) -> None:
    folder = tmp_path_factory.mktemp("fork")
    path = write(folder, conversation(seed))
    os.truncate(path, int(path.stat().st_size * where))
    before = path.read_bytes()
    source = load_session(path)
    store, loaded = SessionStore.fork(workplace(folder, first_id=3_000_000), path, OTHER_ID)
    prompt = Message("user", (TextBlock("elsewhere"),), "next-prompt", Origin.PROMPT)
    store.record(MessageAppended(message=prompt))
    store.close()
    assert store.path is not None
    copy = load_session(store.path)
    assert loaded.messages == source.messages
    assert copy.messages == [*source.messages, prompt]
    assert (copy.session_id, copy.forked_from, copy.redactions) == (OTHER_ID, SESSION_ID, source.redactions)
    assert path.read_bytes() == before
    assert SESSION_ID.encode() not in store.path.read_bytes().split(b"\n", 1)[1]
