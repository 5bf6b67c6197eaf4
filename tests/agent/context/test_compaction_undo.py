"""Undoing a compaction, in one process and from a session file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.agent.profile import Profile
from agentcli.context.edits import edit_from_dict
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json
from agentcli.core.text.format import token_count
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.support.compacting import LONG, USED, told, tool
from tests.support.fakes import MODEL, Bench, LoopClock, bench, collect, only, result_of
from tests.support.scripts import call, reply, think

pytestmark = pytest.mark.virtual

# ------------------------------------------------------------------------------------------------------------ undo


async def test_undo_restores_the_conversation_and_keeps_later_messages() -> None:
    b = bench(reply(LONG, usage=USED), "A summary.", "Since.", "On.")
    async with b.engine:
        await b.run("tell")
        full = b.engine.context.outlook().tokens
        await collect(b.engine.compact())
        await b.run("after")
        short = b.engine.context.outlook().tokens
        events = await collect(b.engine.perform(b.engine.context.undo_compaction()))
        undone = b.engine.context.outlook().tokens
        after = await b.run("go")
    assert short < full / 2
    assert undone > short + 1_500
    said = [block["text"] for message in b.requests[-1]["messages"] for block in message["content"]]
    assert said == ["tell", LONG, "after", "Since.", "go"]
    assert "a compaction was undone" in [event.reason for event in only(after, ev.PrefixBroken)]
    (edited,) = only(events, ev.ContextEdited)
    assert edited.step == "compact"
    assert edited.freed_tokens == short - undone
    assert f"about {token_count(undone - short)} tokens are back" in result_of(events).text


async def test_undo_goes_back_one_compaction_at_a_time_and_then_refuses() -> None:
    b = bench(LONG, "One.", LONG, "Two.", "On.")
    async with b.engine:
        await b.run("first")
        await collect(b.engine.compact())
        await b.run("second")
        await collect(b.engine.compact())
        await undo(b)
        assert "One." in b.engine.session.view.messages(b.engine.messages)[0].text
        await undo(b)
        events = await collect(b.engine.perform(b.engine.context.undo_compaction()))
        assert result_of(events).is_error
        assert "no compaction to undo" in result_of(events).errors[0]
        await b.run("go")
    assert told(b).count(LONG.strip()) == 2


async def undo(b: Bench) -> None:
    assert not result_of(await collect(b.engine.perform(b.engine.context.undo_compaction()))).is_error


async def test_undo_is_refused_when_the_conversation_would_not_fit() -> None:
    used = {"input_tokens": 20_000, "output_tokens": 2_000}
    for window, fits in ((25_000, False), (31_000, True), (90_000, True)):
        profile = Profile(model=MODEL, small_model="x", context_window=window, output_cap=4_000)
        b = bench(reply(LONG, usage=used), "A summary.", profile=profile)
        async with b.engine:
            await b.run("tell")
            await collect(b.engine.compact())
            messages = b.engine.messages
            events = await collect(b.engine.perform(b.engine.context.undo_compaction()))
            result = result_of(events)
            assert result.is_error != fits
            assert bool(only(events, ev.ContextEdited)) == fits
            if not fits:
                assert "only 21,000 fit" in result.errors[0]
                assert b.engine.messages == messages
            assert "the next prompt compacts it again" not in result.text


async def test_an_undo_beyond_the_auto_compaction_threshold_is_reported() -> None:
    used = {"input_tokens": 26_000, "output_tokens": 500}
    profile = Profile(model=MODEL, small_model="x", context_window=31_000, output_cap=4_000)
    b = bench(reply(LONG, usage=used), "A summary.", profile=profile)
    async with b.engine:
        await b.run("tell")
        await collect(b.engine.compact())
        assert (
            "the next prompt compacts it again"
            in result_of(await collect(b.engine.perform(b.engine.context.undo_compaction()))).text
        )


# ---------------------------------------------------------------------------------------------- the session's file


def stored(folder: Path) -> SessionStore:
    workplace = SessionContext(folder, Path("/work"), LoopClock(), SequentialIds(), "test")
    return SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")


def resumed(path: Path, *replies: Json | str) -> Bench:
    loaded = load_session(path)
    view = ContextView()
    for after, edit in loaded.edits:
        view.edit([edit_from_dict(edit)], after)
    return bench(*replies, tools=[tool()], log=tuple(loaded.messages), view=view)


async def test_a_resumed_session_sends_the_same_bytes_after_a_compaction_and_after_its_undo(tmp_path: Path) -> None:
    store = stored(tmp_path)
    turns = [reply(LONG), reply(think("hm"), call("Look", what="map")), reply("Here.")]
    b = bench(*turns, "A summary.", "On.", "Again.", tools=[tool()], store=store)
    async with b.engine:
        await b.run("tell")
        await b.run("look")
        await collect(b.engine.compact())
        assert store.path is not None
        assert load_session(store.path).messages == list(b.engine.messages)
        other = resumed(store.path, "On.")
        await b.run("go")
        async with other.engine:
            await other.run("go")
        assert other.requests[-1]["messages"] == b.requests[-1]["messages"]
        await undo(b)
        other = resumed(store.path, "Again.")
        async with other.engine:
            await other.run("once more")
        await b.run("once more")
        assert other.requests[-1]["messages"] == b.requests[-1]["messages"]
        assert LONG.strip() in told(b)


async def test_a_session_file_that_ends_anywhere_in_a_compaction_loads_to_before_or_after_it(tmp_path: Path) -> None:
    store = stored(tmp_path)
    turns = [reply(LONG), reply(call("Look", what="map")), reply("Here.")]
    b = bench(*turns, "A summary.", tools=[tool()], store=store)
    async with b.engine:
        await b.run("tell")
        await b.run("look")
        before = ContextView().wire(b.engine.messages)
        assert store.path is not None
        begun = len(store.path.read_bytes().splitlines())
        await collect(b.engine.compact())
        after = ContextView().wire(b.engine.messages)
    lines = store.path.read_bytes().splitlines(keepends=True)
    seen = []
    for end in range(begun, len(lines) + 1):
        copy = tmp_path / "cut.jsonl"
        copy.write_bytes(b"".join(lines[:end]))
        wire = ContextView().wire(load_session(copy).messages)
        assert wire in (before, after)
        seen.append(wire == after)
    assert seen == sorted(seen)
    assert True in seen
    assert False in seen
