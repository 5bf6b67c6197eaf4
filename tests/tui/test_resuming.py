"""A resumed conversation: its end at once, earlier items above it, everything in its place."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from textual.app import App, ComposeResult

from agentcli.agent import loop_state
from agentcli.assemble import Options, build_engine
from agentcli.context import view as context_view
from agentcli.core.events import (
    USER_AGENT,
    AgentFinished,
    AgentStarted,
    BlockFinished,
    Event,
    MessageAppended,
    SessionResumed,
    ToolFinished,
    ToolStarted,
)
from agentcli.core.ids import SequentialIds, SystemClock
from agentcli.core.messages import Block, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.session import recent_messages as recent_part
from agentcli.session.base import SessionContext
from agentcli.session.find import describe_session
from agentcli.session.load import load_end_of_history, load_session
from agentcli.session.store import SessionStore
from agentcli.tui import resume
from agentcli.tui.blocks.items import make_block
from agentcli.tui.model import Above, Add, AnswerItem, Item, NoticeItem, Remove, ToolItem
from agentcli.tui.resume import (
    PREVIEW_LINES,
    EarlierPast,
    earlier_items,
    end_of_session,
    last_lines_of,
    past_of,
    replay,
    split_history,
)
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.widget import Transcript
from tests.support.fakes import collect
from tests.support.scripts import provider_on, transport_for

pytestmark = pytest.mark.anyio


def write(folder: Path, turns: int, last_answer: str = "") -> Path:
    ids = SequentialIds()
    store = SessionStore.create(
        SessionContext(folder, folder, SystemClock(), ids, "test"), "11111111-1111-4111-8111-111111111111"
    )
    for turn in range(turns):
        for event in turn_of(ids, turn):
            store.record(event)
    for event in reply(ids, TextBlock(last_answer)) if last_answer else ():
        store.record(event)
    store.close()
    assert store.path is not None
    return store.path


def turn_of(ids: SequentialIds, turn: int) -> list[Event]:
    call = ToolUseBlock(f"toolu_{turn}", "Read", {"file_path": f"file{turn}.py"})
    result = ToolResultBlock(call.id, (TextBlock(f"what is in file {turn}"),))
    return [
        MessageAppended(message=Message("user", (TextBlock(f"prompt {turn}"),), ids.new(), Origin.PROMPT)),
        *reply(ids, call),
        ToolFinished(tool_use_id=call.id, name="Read", result=result, summary=""),
        MessageAppended(message=Message("user", (result,), ids.new(), Origin.TOOL_RESULTS)),
        *reply(ids, TextBlock(f"answer {turn}")),
    ]


def earlier_of(history: list[Event]) -> list[Item]:
    return earlier_items(history, lambda *_call: "", "earlier-", iter)


def reply(ids: SequentialIds, block: Block) -> list[Event]:
    id = ids.new()
    return [
        BlockFinished(message_id=id, api_id=f"msg_{id}", model="m", index=0, block=block),
        MessageAppended(
            message=Message("assistant", (block,), id, Origin.REPLY, f"msg_{id}", "m", "end_turn", Usage(1, 1))
        ),
    ]


# ------------------------------------------------------------------------------------------------- the file's end


@pytest.mark.parametrize("window", [1, 300, 1_000, 1_777, 5_000, 20_000, 1_000_000])
def test_the_end_of_a_file_gives_the_end_of_the_conversation(tmp_path: Path, window: int) -> None:
    path = write(tmp_path, 20)
    history = load_session(path).history
    end = load_end_of_history(path, window)
    assert end == (history[-len(end) :] if end else [])
    assert len(end) == len(history) if window == 1_000_000 else len(end) < len(history)


def test_a_partial_transcript_begins_with_a_prompt(tmp_path: Path) -> None:
    path = write(tmp_path, 20)
    first = load_end_of_history(path, 9_000)[0]
    assert isinstance(first, MessageAppended)
    assert first.message.origin is Origin.PROMPT


def test_junk_at_the_end_of_a_file_does_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, 3)
    whole = load_end_of_history(path)
    with path.open("ab") as file:
        file.write(b'\x00\xff[]\n{"type":"user"}\n{"type":"assistant","message":7}\n{"type":"us')
    assert load_end_of_history(path) == whole


def test_the_first_view_is_the_end_of_the_complete_one(tmp_path: Path) -> None:
    path = write(tmp_path, 30)
    items = end_of_session(tmp_path, tmp_path, path.stem)
    later = replay(load_session(path).history, lambda name, given: f"{name} {given['file_path']}")
    assert [replace(item, done=True) if isinstance(item, AnswerItem) else item for item in items] == later[
        -len(items) :
    ]
    assert [item.title for item in items if isinstance(item, ToolItem)][-1] == "Read file29.py"
    assert end_of_session(tmp_path, tmp_path, "") == items


@pytest.mark.parametrize("lines", [1, 3, 150, 60_000])
def test_beside_the_list_of_sessions_are_the_last_prompt_and_the_end_of_its_answer(tmp_path: Path, lines: int) -> None:
    answer = [f"line {number}" for number in range(lines)]
    path = write(tmp_path, 3, "\n".join(answer))
    found = describe_session(path)
    assert found is not None
    shown = last_lines_of(found)
    if lines <= 3:
        assert shown == ["❯ prompt 2", "", "◆ answer 2", "", f"◆ {answer[0]}", *(f"  {line}" for line in answer[1:])]
    else:
        assert shown == ["❯ prompt 2", *(f"  {line}" for line in answer[-PREVIEW_LINES:])]


def test_a_missing_session_shows_nothing(tmp_path: Path) -> None:
    assert end_of_session(tmp_path, tmp_path, "") == []
    write(tmp_path, 2)
    assert end_of_session(tmp_path, tmp_path, "22222222-2222-4222-8222-222222222222") == []


# ----------------------------------------------------------------------------------------------- what was before


@pytest.mark.parametrize("recent", [1, 8, 60, 10_000])
def test_a_long_conversation_in_two_parts_shows_what_it_shows_as_a_whole(tmp_path: Path, recent: int) -> None:
    history = load_session(write(tmp_path, 30)).history

    earlier, latest = split_history(history, recent)

    assert earlier + latest == history
    assert len(latest) >= min(recent, len(history))
    first = latest[0]
    assert isinstance(first, MessageAppended)
    assert first.message.origin is Origin.PROMPT
    shown = [*earlier_of(earlier), *replay(latest, lambda *_call: "")]
    assert shown == replay(history, lambda *_call: "")


def test_a_conversation_is_not_cut_where_an_agent_works() -> None:
    ids = SequentialIds()
    started = AgentStarted(agent="a1", tool_use_id="t", name="explore", description="d", model="m", background=True)
    ended = AgentFinished(agent="a1", tool_use_id="t", name="explore", description="d", status="completed")
    turns = [turn_of(ids, turn) for turn in range(4)]

    assert len(split_history([*turns[0], started, *turns[1], *turns[2], *turns[3]], 1)[0]) == 0
    assert split_history([*turns[0], started, *turns[1], ended, *turns[2]], 1)[1] == turns[2]
    assert split_history([*turns[0], started, SessionResumed(), *turns[1]], 1)[1] == turns[1]


def test_earlier_items_are_compressed_in_the_thread_that_makes_them() -> None:
    ids = SequentialIds()
    result = ToolResultBlock("t", (TextBlock("line\n" * 1_000),))
    call = reply(ids, ToolUseBlock("t", "Read", {"file_path": "f"}))
    long = ToolFinished(tool_use_id="t", name="Read", result=result, summary="")
    history = [*(event for turn in range(100) for event in turn_of(ids, turn)), *call, long]

    items = earlier_of(history)

    assert ToolItem.output.compress(items[-1]) == 0  # type: ignore[attr-defined]


def test_a_shell_line_that_ran_until_after_the_next_prompt_keeps_its_result() -> None:
    ids = SequentialIds()
    result = ToolResultBlock("shell_1", (TextBlock("built"),))
    started = ToolStarted(agent=USER_AGENT, tool_use_id="shell_1", name="!", input={}, title="! make")
    ended = ToolFinished(agent=USER_AGENT, tool_use_id="shell_1", name="!", result=result, summary="")
    turns = [turn_of(ids, turn) for turn in range(3)]
    history = [*turns[0][:1], started, *turns[0][1:], *turns[1][:2], ended, *turns[1][2:], *turns[2]]

    for recent in (1, len(turns[2]) + 1):
        earlier, latest = split_history(history, recent)
        shown = [*earlier_of(earlier), *replay(latest, lambda *_call: "")]
        assert [item.status for item in shown if isinstance(item, ToolItem) and item.name == "!"] == ["done"]


async def test_what_comes_later_from_before_goes_above_all_of_it() -> None:
    app = Host()
    async with app.run_test(size=(60, 10)):
        first = [NoticeItem(id=f"a{number}", text=f"a{number}") for number in range(500)]
        second = [NoticeItem(id=f"b{number}", text=f"b{number}") for number in range(500)]
        app.transcript.apply([Above(tuple(second))])
        app.transcript.apply([Above(tuple(first)), Add(NoticeItem(id="new", text="new"))])
        assert [item.id for item in app.transcript.items()] == [item.id for item in (*first, *second)] + ["new"]


class Host(App[None]):
    CSS = "Transcript { padding: 0; }"

    def compose(self) -> ComposeResult:
        self.transcript = Transcript(make_block, Palette())
        yield self.transcript


def notices(first: int, count: int) -> tuple[Item, ...]:
    return tuple(NoticeItem(id=f"n{number}", text=f"notice {number}") for number in range(first, first + count))


@pytest.mark.parametrize("known", [True, False], ids=["the same ids", "other ids"])
async def test_the_whole_session_appears_where_the_user_paged_to_in_the_preview(known: bool) -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        transcript = app.transcript
        preview = [replace(item, id=item.id if known else f"end-{item.id}") for item in notices(300, 100)]
        transcript.apply([Above(tuple(preview))])
        await pilot.pause()
        for _page in range(25):
            transcript.page_up()
        await pilot.pause()
        before = transcript.shown_rows()
        assert not any("notice 399" in row for row in before)
        transcript.apply([*(Remove(item.id) for item in preview), Above(notices(0, 400))])
        transcript.frame()
        assert transcript.shown_rows() == before
        transcript.apply([Add(NoticeItem(id="new", text="an answer"))])
        transcript.frame()
        assert transcript.shown_rows() == before
        assert not transcript.following


# ---------------------------------------------------------------------------------------------- the first request


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[None]:
    """Grows by an entry with each call of a function."""
    calls: list[None] = []
    real = getattr(module, name)

    def counted(*arguments: object) -> object:
        calls.append(None)
        return real(*arguments)

    monkeypatch.setattr(module, name, counted)
    return calls


@pytest.mark.anyio
async def test_the_first_request_finds_the_messages_of_a_resumed_session_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / ".local/state/agentcli", 40)
    transport = transport_for("Gone on.")
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    options = Options(
        cwd=path.parent, environ=environ, provider=provider_on(transport), sandbox="off", resume=path.stem
    )
    async with build_engine(options) as engine:
        past_of(engine)
        converted = count_calls(monkeypatch, context_view, "_clean")
        measured = count_calls(monkeypatch, loop_state, "message_tokens")
        await collect(engine.submit("go on"))
    assert len(transport.requests[0]["messages"]) > 160
    assert len(converted) < 10
    assert len(measured) < 10


async def test_the_part_that_was_not_read_is_shown_in_sections_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 20)
    add_compaction(path)
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if b"what is in file 3" in line)
    lines[place] = lines[place].replace(b'"content":[', b'"content":[7,', 1)
    path.write_bytes(b"".join(lines))
    whole = replay([*load_session(path).history, SessionResumed(cut_off=True)], lambda name, _input: name)
    for name, value in (("MIN_EARLIER", 1), ("BEFORE_COMPACTION", 0), ("SECTION", 8_000)):
        monkeypatch.setattr(recent_part, name, value)

    environ = {"HOME": str(tmp_path), "AGENTCLI_STATE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    given = Options(cwd=tmp_path, environ=environ, provider=provider_on(transport_for()), resume=path.stem)
    async with build_engine(replace(given, interactive=True, sandbox="off")) as engine:
        shown, earlier = past_of(engine)
        pieces = [operation async for operation in EarlierPast(engine, earlier).operations()]
        assert engine.messages == tuple(load_session(path).messages)
    assert pieces[-1] == Add(
        NoticeItem(
            id="earlier-lines",
            text="1 unreadable line of this session was skipped; they stay in the file.",
            level="warning",
        )
    )
    above = [piece.items for piece in pieces[:-1] if isinstance(piece, Above)]
    assert len(above) > 2
    items = [item for piece in reversed(above) for item in piece] + shown
    assert list(map(told, items)) == list(map(told, whole))


async def test_a_part_that_cannot_be_read_to_its_beginning_does_not_replace_what_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 20)
    add_compaction(path)
    for name, value in (("MIN_EARLIER", 1), ("BEFORE_COMPACTION", 0), ("SECTION", 8_000)):
        monkeypatch.setattr(recent_part, name, value)

    environ = {"HOME": str(tmp_path), "AGENTCLI_STATE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    given = Options(cwd=tmp_path, environ=environ, provider=provider_on(transport_for()), resume=path.stem)
    async with build_engine(replace(given, interactive=True, sandbox="off", persist=False)) as engine:
        _shown, earlier = past_of(engine)
        pieces = EarlierPast(engine, earlier).operations()
        assert isinstance(await anext(pieces), Above)
        content = path.read_bytes()
        path.write_bytes(content[:1_000])
        assert [operation async for operation in pieces] == []
        path.write_bytes(content)
        assert engine.messages == tuple(load_session(path).messages)


async def test_reading_ends_when_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program waits for its threads before it ends."""
    path = write(tmp_path, 20)
    add_compaction(path)
    for name, value in (("MIN_EARLIER", 1), ("BEFORE_COMPACTION", 0)):
        monkeypatch.setattr(recent_part, name, value)
    pauses: list[float] = []
    has_begun, may_continue = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        has_begun.set()
        may_continue.wait()

    environ = {"HOME": str(tmp_path), "AGENTCLI_STATE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    given = Options(cwd=tmp_path, environ=environ, provider=provider_on(transport_for()), resume=path.stem)
    async with build_engine(replace(given, interactive=True, sandbox="off", persist=False)) as engine:
        past_of(engine)
        monkeypatch.setattr(resume, "AT_ONCE", 1)
        monkeypatch.setattr(resume, "time", SimpleNamespace(sleep=pause))
        reading = asyncio.ensure_future(anext(EarlierPast(engine, []).operations()))
        await asyncio.to_thread(has_begun.wait)
        reading.cancel()
        await asyncio.wait([reading])
        may_continue.set()
    assert len(pauses) == 1


def told(item: Item) -> tuple[str, str]:
    return type(item).__name__, str(getattr(item, "text", getattr(item, "output", "")))


def add_compaction(path: Path) -> None:
    ids = SequentialIds(9_000)
    store, _loaded = SessionStore.resume(SessionContext(path.parent, path.parent, SystemClock(), ids, "test"), path)
    summary = Message("user", (TextBlock("What was before"),), ids.new(), Origin.SUMMARY)
    boundary = Message("user", (), ids.new(), Origin.BOUNDARY, meta={"trigger": "auto", "messages": [summary.id]})
    for event in (MessageAppended(message=boundary), MessageAppended(message=summary), *turn_of(ids, 99)):
        store.record(event)
    store.close()
