"""A long session that is read from before its last compaction: the same messages, and the same state."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.core import events as ev
from agentcli.core.messages import Message, Origin, TextBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.session import recent_messages
from agentcli.session.load import LoadedSession, load_session
from agentcli.session.recent_messages import EarlierPart, load_recent
from agentcli.tools.registry import builtin_traits
from tests.session.conversations import Conversation, conversation
from tests.session.test_roundtrip import write
from tests.support.examples import UNHURRIED_IN_ONE_FOLDER

GENERATED = settings(suppress_health_check=UNHURRIED_IN_ONE_FOLDER, derandomize=True)


@pytest.fixture(autouse=True)
def every_session_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_messages, "MIN_EARLIER", 1)
    monkeypatch.setattr(recent_messages, "BEFORE_COMPACTION", 0)
    monkeypatch.setattr(recent_messages, "SECTION", 3_000)


def compacted_conversation(seed: int) -> Conversation:
    made = conversation(seed)
    for _submission in range(3):
        made.submission()
    compact(made)
    made.end()
    return made


def answer(made: Conversation, text: str) -> None:
    message_id, block = made.ids.new(), TextBlock(text)
    made.events.append(ev.BlockFinished(message_id=message_id, api_id="", model="model-a", index=0, block=block))
    reply = Message("assistant", (block,), message_id, Origin.REPLY, model="model-a", usage=Usage(10, 20))
    made.events.append(ev.MessageAppended(message=reply))


def compact(made: Conversation) -> None:
    made.say(Origin.BOUNDARY, {"trigger": "auto"})
    made.say(Origin.SUMMARY)
    answer(made, "After it")


def part_of(loaded: LoadedSession) -> EarlierPart:
    assert loaded.earlier is not None
    return loaded.earlier


def put_together(loaded: LoadedSession) -> list[Message]:
    part = loaded.earlier
    return loaded.messages if part is None else [*part.messages(), *loaded.messages[part.stand_ins :]]


def assert_is_the_same(loaded: LoadedSession, whole: LoadedSession) -> None:
    assert put_together(loaded) == whole.messages
    part = loaded.earlier
    if part is None:
        assert loaded == whole
        return
    sections = list(part.sections())[::-1]
    assert [message for section in sections for message in section.messages] == part.messages()
    state = replace(loaded, messages=[], history=[], edits=[], seen=[], earlier=None)
    assert state == replace(whole, messages=[], history=[], edits=[], seen=[])


@GENERATED
@given(seed=st.integers(0, 2**32))
def test_both_parts_of_a_session_are_the_whole(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = write(tmp_path_factory.mktemp("recent"), compacted_conversation(seed))
    loaded, whole = load_recent(path), load_session(path)
    assert_is_the_same(loaded, whole)
    if (part := loaded.earlier) is not None:
        sections = list(part.sections())[::-1]
        assert [*(event for one in sections for event in one.history), *loaded.history] == whole.history
        assert loaded.message_count == len(whole.messages)


@GENERATED
@given(seed=st.integers(0, 2**32))
def test_messages_that_hold_state_stand_for_the_earlier_part(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = write(tmp_path_factory.mktemp("recent"), compacted_conversation(seed))
    loaded = load_recent(path, state_calls=["Bash"])
    if (part := loaded.earlier) is None:
        return
    kept = loaded.messages[: part.stand_ins]
    for message in part.messages():
        calls = [use for use in message.tool_uses if use.name == "Bash"]
        if message.meta or calls or message.origin is Origin.BOUNDARY:
            assert replace(message, usage=None) in kept


@GENERATED
@given(seed=st.integers(0, 2**32))
def test_damaged_lines_change_no_message(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = write(tmp_path_factory.mktemp("recent"), compacted_conversation(seed))
    chance = random.Random(seed)
    lines = path.read_bytes().splitlines(keepends=True)
    for _damage in range(chance.randrange(1, 6)):
        place = chance.randrange(len(lines))
        line = lines[place]
        lines[place] = chance.choice(
            (
                b"",
                line + line,
                line[: chance.randrange(len(line) + 1)] + b"\n",
                line.replace(b'"', b"", 9),
                b"\0" * 9 + line,
            )
        )
    path.write_bytes(b"".join(lines) + chance.choice((b"", b'{"type":"user","uu')))
    loaded, whole = load_recent(path), load_session(path)
    assert put_together(loaded) == whole.messages
    assert loaded.ending == whole.ending


def test_a_long_session_is_not_read_whole(tmp_path: Path) -> None:
    path = write(tmp_path, compacted_conversation(3))
    part = part_of(load_recent(path))
    assert 0 < part.cuts[-1] < path.stat().st_size
    assert part.unread > 0


def test_lines_of_other_programs_are_counted_as_unreadable(tmp_path: Path) -> None:
    path = write(tmp_path, compacted_conversation(3))
    lines = path.read_bytes().splitlines(keepends=True)
    other = b'{"uuid":"other-1","type":"user","message":{"role":"user","content":"From elsewhere"}}\n'
    path.write_bytes(b"".join((lines[0], other, *lines[1:])))
    loaded = load_recent(path)
    assert part_of(loaded).skipped == 1
    assert_is_the_same(loaded, load_session(path))


def test_the_cut_is_where_no_agent_runs(tmp_path: Path) -> None:
    made = Conversation(random.Random(5))
    made.say()
    answer(made, "One")
    made.say()
    made.events.append(
        ev.AgentStarted(agent="explore-1", tool_use_id="t1", model="model-a", name="explore", description="Look")
    )
    answer(made, "Two")
    made.say()
    answer(made, "Three")
    compact(made)
    path = write(tmp_path, made)
    cut = part_of(load_recent(path)).cuts[-1]
    assert b'"text":"Two"' in path.read_bytes()[cut:]
    assert b'"text":"One"' not in path.read_bytes()[cut:]


def test_lines_are_not_held_for_an_agent_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_messages, "_MAX_WAITING", 2_000)
    made = conversation(3)
    made.submission()
    started = ev.AgentStarted(agent="a", tool_use_id="t1", model="model-a", name="explore", description="Look")
    made.events.append(started)
    for _submission in range(4):
        made.submission()
    compact(made)
    made.end()
    path = write(tmp_path, made)
    assert_is_the_same(load_recent(path), load_session(path))


def test_changes_of_rights_in_the_earlier_part_are_known(tmp_path: Path) -> None:
    made = Conversation(random.Random(5))
    made.say()
    made.events.append(ev.ModeChanged(mode="plan", reason="user"))
    answer(made, "One")
    made.say()
    compact(made)
    assert part_of(load_recent(write(tmp_path, made))).rights == (ev.ModeChanged(mode="plan", reason="user"),)


def test_a_call_that_holds_state_is_kept_with_its_result(tmp_path: Path) -> None:
    made = Conversation(random.Random(5))
    made.say()
    made.turn(blocks=[ToolUseBlock("toolu_1", "TodoWrite", {"todos": []})])
    made.say()
    compact(made)
    loaded = load_recent(write(tmp_path, made), state_calls=tuple(builtin_traits("keeps_state")))
    kept = loaded.messages[: part_of(loaded).stand_ins]
    assert [message.origin for message in kept] == [Origin.PROMPT, Origin.REPLY, Origin.TOOL_RESULTS]
    # A usage counts messages that are not there: compared with the next one it would teach a wrong density.
    assert any(message.usage for message in part_of(loaded).messages())
    assert not any(message.usage for message in kept)


def test_a_reply_that_never_ended_counts_as_one_that_was_read(tmp_path: Path) -> None:
    made = Conversation(random.Random(5))
    made.say()
    answer(made, "Cut short")
    made.say()
    made.turn(blocks=[ToolUseBlock("toolu_1", "Look", {})])
    made.say()
    compact(made)
    path = write(tmp_path, made)
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if b'"type":"reply-end"' in line)
    results = next(place for place, line in enumerate(lines) if b'"type":"results-end"' in line)
    path.write_bytes(b"".join(line for place, line in enumerate(lines) if place not in (first, results)))
    loaded, whole = load_recent(path), load_session(path)
    assert part_of(loaded).cuts[-1] > 0
    assert loaded.message_count == len(whole.messages)


def test_a_result_that_looks_like_a_prompt_is_no_cut(tmp_path: Path) -> None:
    """What tools return for programs is JSON of any form."""
    made = Conversation(random.Random(5))
    made.say()
    answer(made, "One")
    made.say()
    made.turn(blocks=[ToolUseBlock("toolu_1", "Look", {})])
    compact(made)
    path = write(tmp_path, made)
    mark = b',"isSidechain":false,"origin":"tool_results"'
    line = next(line for line in path.read_bytes().splitlines() if mark in line)
    fake = line[:-1] + b',"toolUseResult":{"a":1,"isSidechain":false,"origin":"prompt"}}'
    path.write_bytes(path.read_bytes().replace(line, fake))
    assert_is_the_same(load_recent(path), load_session(path))


def test_a_file_that_became_shorter_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, compacted_conversation(3))
    part = part_of(load_recent(path))
    path.write_bytes(path.read_bytes()[: part.cuts[-1] // 2])
    with pytest.raises(OSError, match="shorter"):
        part.messages()
