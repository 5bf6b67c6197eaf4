"""A long session is resumed without its earlier part: requests, compactions and commands see no difference."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.context.compaction import INTERRUPTED
from agentcli.agent.conversation_log import ConversationLog
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.context.compact import UNREADABLE
from agentcli.core import events as ev
from agentcli.core.messages import Message
from agentcli.core.permission import PermissionMode
from agentcli.session import recent_messages
from agentcli.session.load import unreadable_lines
from agentcli.session.recent_messages import EarlierPart
from tests.commands.test_front_end import Recorder, reported
from tests.support.fakes import collect, result_of
from tests.support.scripts import call, provider_on, reply, transport_for

pytestmark = pytest.mark.anyio

LATE_TASKS = [{"content": "Write the tests", "status": "in_progress"}]
USED = {"input_tokens": 4_000}


class Sessions:
    """One session in a folder, whose requests are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
        (folder / "home").mkdir()
        self.requests: list[dict[str, Any]] = []

    def engine(self, *answers: Any, **options: Any) -> Engine:
        transport = transport_for(*answers)
        self.requests = transport.requests
        given = {"sandbox": "off", "continue_latest": True, **options}
        return build_engine(Options(cwd=self.folder, environ=self.environ, provider=provider_on(transport), **given))

    @property
    def file(self) -> Path:
        (path,) = (self.folder / "home").rglob("*.jsonl")
        return path


@pytest.fixture
async def sessions(tmp_path: Path) -> Sessions:
    """With a task list and four prompts before its compaction, and one behind it."""
    made = Sessions(tmp_path)
    tasks = reply(call("TodoWrite", todos=LATE_TASKS), usage=USED)
    earlier = [tasks, "Listed.", *(reply(f"Answer {number}. " + "word " * 300, usage=USED) for number in range(3))]
    async with made.engine(*earlier, "A summary.", reply("Since.", usage=USED), continue_latest=False) as engine:
        for number in range(4):
            await collect(engine.submit(f"Prompt {number}"))
        await collect(engine.compact())
        await collect(engine.submit("Afterwards"))
    return made


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_messages, "MIN_EARLIER", 1)
    monkeypatch.setattr(recent_messages, "BEFORE_COMPACTION", 0)


def is_cut_off(engine: Engine) -> bool:
    return len(engine.recent_messages) < engine.message_count


async def resumed_request(sessions: Sessions) -> dict[str, Any]:
    async with sessions.engine("Done.", persist=False) as engine:
        await collect(engine.submit("Go on"))
    return sessions.requests[0]


async def whole_log(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> tuple[Message, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(recent_messages, "MIN_EARLIER", 1 << 40)
        async with sessions.engine(persist=False) as engine:
            assert not is_cut_off(engine)
            return engine.messages


async def test_the_request_is_the_same(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await resumed_request(sessions)
    monkeypatch.setattr(recent_messages, "MIN_EARLIER", 1)
    monkeypatch.setattr(recent_messages, "BEFORE_COMPACTION", 0)
    assert await resumed_request(sessions) == whole


@pytest.mark.usefixtures("cut_off")
async def test_the_state_of_the_earlier_part_is_there(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await whole_log(sessions, monkeypatch)
    async with sessions.engine(persist=False) as engine:
        assert is_cut_off(engine)
        assert [todo["content"] for todo in engine.session.todos] == ["Write the tests"]
        assert engine.message_count == len(whole)
        assert engine.messages == whole


@pytest.mark.usefixtures("cut_off")
async def test_a_compaction_keeps_prompts_of_the_earlier_part(sessions: Sessions) -> None:
    async with sessions.engine("Another summary.", "Done.") as engine:
        assert is_cut_off(engine)
        await collect(engine.compact())
        await collect(engine.submit("Go on"))
    assert "Prompt 0" in str(sessions.requests[-1]["messages"])


@pytest.mark.usefixtures("cut_off")
async def test_a_compaction_is_undone_with_messages_of_the_earlier_part(sessions: Sessions) -> None:
    async with sessions.engine("Done.") as engine:
        await collect(engine.perform(engine.context.undo_compaction()))
        await collect(engine.submit("Go on"))
        assert not is_cut_off(engine)
    said = [block.get("text") for message in sessions.requests[0]["messages"] for block in message["content"]]
    assert [text for text in said if text][:1] == ["Prompt 0"]
    assert await resumed_request(sessions), "an undone compaction ends nothing: the file is read whole"
    assert "Prompt 0" in str(sessions.requests[0]["messages"])


@pytest.mark.usefixtures("cut_off")
async def test_a_removed_file_is_reported_by_an_undo(sessions: Sessions) -> None:
    async with sessions.engine(persist=False) as engine:
        sessions.file.unlink()
        events = await collect(engine.perform(engine.context.undo_compaction()))
    assert result_of(events).errors == [UNREADABLE]


@pytest.mark.usefixtures("cut_off")
async def test_messages_that_a_front_end_has_read_join_the_log_with_the_next_prompt(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await whole_log(sessions, monkeypatch)
    async with sessions.engine("Done.", persist=False) as engine:
        part = engine.earlier_part
        assert part is not None
        engine.session.log.put_earlier(part.messages())
        assert is_cut_off(engine)
        await collect(engine.submit("Go on"))
        assert not is_cut_off(engine)
        assert engine.messages[: len(whole)] == whole


@pytest.mark.usefixtures("cut_off")
async def test_the_whole_history_can_be_shown(sessions: Sessions) -> None:
    async with sessions.engine(persist=False, interactive=True) as engine:
        history = engine.take_history()
    prompts = [event.message.text for event in history if isinstance(event, ev.MessageAppended)]
    assert [text for text in prompts if text.startswith("Prompt")] == [f"Prompt {number}" for number in range(4)]


@pytest.mark.usefixtures("cut_off")
async def test_damaged_lines_of_the_earlier_part_are_reported_with_the_history(sessions: Sessions) -> None:
    sessions.file.write_bytes(sessions.file.read_bytes().replace(b"Answer 1.", b"Answer \xff"))
    # The line that is no JSON is found at once, the reply that lacks it only when all messages are read.
    async with sessions.engine(persist=False, interactive=True) as engine:
        (notice,) = (event for event in engine.take_history() if isinstance(event, ev.NoticeRaised))
        assert (notice.text, notice.level) == (unreadable_lines(1), "warning")


@pytest.mark.usefixtures("cut_off")
@pytest.mark.parametrize("command", ["copy 2", "skills"])
async def test_commands_read_the_earlier_part_in_a_thread(
    command: str, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    read = EarlierPart.messages

    def reading(part: EarlierPart, *pace: Any) -> list[Message]:
        threads.append(threading.current_thread())
        return read(part, *pace)

    monkeypatch.setattr(EarlierPart, "messages", reading)
    skill = sessions.folder / "home/.agentcli/skills/greet/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: greet\ndescription: Greets\n---\nGreet.")
    async with sessions.engine(persist=False) as engine:
        await reported(engine, command, Recorder())
        assert await engine.messages_with("an unknown one") == engine.messages
    assert len(threads) == 1, "read once"
    assert threading.main_thread() not in threads


@pytest.mark.usefixtures("cut_off")
async def test_an_interruption_does_not_wait_for_the_thread_that_reads_the_earlier_part(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read, read, whole = threading.Event(), EarlierPart.messages, await whole_log(sessions, monkeypatch)

    def reading(part: EarlierPart, *pace: Any) -> list[Message]:
        assert may_read.wait(20)
        return read(part, *pace)

    monkeypatch.setattr(EarlierPart, "messages", reading)
    async with sessions.engine(persist=False) as engine:
        try:
            copying = asyncio.create_task(engine.all_messages())
            events: list[ev.Event] = []
            async for event in engine.compact():
                events.append(event)
                if isinstance(event, ev.CompactionStarted):
                    asyncio.get_running_loop().call_soon(engine.abort)
            assert [event.text for event in events if isinstance(event, ev.CompactionFailed)] == [INTERRUPTED]
            copying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await copying
        finally:
            may_read.set()
        assert await engine.all_messages() == whole, "the thread goes on"


@pytest.mark.usefixtures("cut_off")
async def test_the_thread_that_reads_the_earlier_part_ends_with_the_session(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, seen, until_closed = threading.Event(), list[int](), ConversationLog._until_closed

    def slowly(log: ConversationLog, records: Any) -> Any:
        for number, record in enumerate(until_closed(log, records)):
            seen.append(number)
            begun.set()
            while not log._is_closed:
                time.sleep(0.001)
            yield record

    monkeypatch.setattr(ConversationLog, "_until_closed", slowly)
    async with sessions.engine(persist=False) as engine:
        reading = asyncio.create_task(engine.all_messages())
        await asyncio.to_thread(begun.wait, 20)
    assert seen == [0]
    assert await reading == engine.recent_messages, "who waits for it is not cancelled"


@pytest.mark.usefixtures("cut_off")
async def test_the_model_gets_the_prompts_of_an_undo_in_the_earlier_part(tmp_path: Path) -> None:
    made = Sessions(tmp_path)
    file = tmp_path / "list.txt"
    file.write_text("old")
    read = reply(call("Read", file_path=str(file)), usage=USED)
    edit = reply(call("Edit", file_path=str(file), old_string="old", new_string="new"), usage=USED)
    answers = [reply(f"Answer {number}", usage=USED) for number in range(3)]
    replies = [read, edit, *answers, "A summary.", "Since."]
    async with made.engine(*replies, continue_latest=False, permission_mode=PermissionMode.ACCEPT_EDITS) as engine:
        for prompt in ("Edit the list", "Prompt 1", "Prompt 2"):
            await collect(engine.submit(prompt))
        await collect(engine.compact())
        await collect(engine.submit("Afterwards"))
    async with made.engine("Done.") as engine:
        assert is_cut_off(engine)
        assert (await engine.files.undo()).restored == (str(file),)
        await collect(engine.submit("Go on"))
    assert "files for “Edit the list”" in str(made.requests[0]["messages"])
