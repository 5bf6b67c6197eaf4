"""The objects of an engine, each alone: costs, files, background commands, the log, notes about the user's actions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from agentcli.agent.attachments.state_notes import UserNotes
from agentcli.agent.attachments.undo_notes import UserActionNote
from agentcli.agent.conversation_log import ConversationLog
from agentcli.agent.file_changes import FileChanges
from agentcli.agent.ports import PromptQueue
from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message, Origin, user_message
from agentcli.session.base import Store
from agentcli.tools.base import ToolContext
from agentcli.workspace.base import UndoNews, UndoReport, Workspace
from tests.support.fakes import bench

pytestmark = pytest.mark.virtual


class RecordingStore(Store):
    def __init__(self) -> None:
        super().__init__("session")
        self.recorded: list[ev.Event] = []

    def record(self, event: ev.Event) -> None:
        self.recorded.append(event)


def log_with(store: Store, *messages: Message) -> tuple[ConversationLog, PromptQueue]:
    queue = PromptQueue()
    return ConversationLog(messages, store, queue), queue


def test_a_session_without_a_message_records_nothing_between_submissions() -> None:
    store = RecordingStore()
    log, _queue = log_with(store)
    event = ev.BackgroundChanged(task_id="1", status="running", command="x", summary="")
    log.record_if_begun(event)
    assert store.recorded == []
    log.keep(ev.MessageAppended(message=user_message("hi", "p", Origin.PROMPT)))
    log.record_if_begun(event)
    assert store.recorded[-1] is event


def test_a_note_that_did_not_get_into_the_log_is_handed_out_again() -> None:
    log, _queue = log_with(Store("session"))
    notes = UserNotes(log, SequentialIds(1))
    notes.add(UserActionNote("shell", "one"))
    [first] = notes.take()
    notes.add(UserActionNote("undo", "two"))
    assert [message.text for message in notes.take()] == ["one", "two"]
    log.keep(ev.MessageAppended(message=first))
    assert [message.text for message in notes.take()] == ["two"]


async def test_without_shells_there_are_no_background_commands() -> None:
    background = bench().engine.background
    assert (background.tasks, background.output("1"), background.detach("1")) == ([], "", False)
    assert not await background.stop("1")
    assert await background.stop_all() == []
    waiting = asyncio.ensure_future(background.wait_for_changes())
    await asyncio.sleep(1_000)
    assert not waiting.done()
    await cancel_and_wait([waiting])


class Undoable(Workspace):
    def __init__(self) -> None:
        super().__init__()
        self.news = [UndoNews("p", False, restored=("/w/a",))]

    async def undo(self, choices: object = None) -> UndoReport:
        return UndoReport(True, "Done.")

    async def take_undo_news(self) -> list[UndoNews]:
        news, self.news = self.news, []
        return news


def test_the_model_gets_one_note_about_an_undo() -> None:
    async def find(message_ids: Collection[str]) -> list[Message]:
        return [user_message("Fix it", message_id, Origin.PROMPT) for message_id in message_ids]

    async def main() -> None:
        context = ToolContext(Path("/w"), (Path("/w"),))
        files = FileChanges(Undoable(), lambda: context)
        assert (await files.undo()).done
        note = await files.take_undo_note(find)
        assert note is not None
        assert "“Fix it”" in note.text
        assert "/w/a" in note.text
        assert await files.take_undo_note(find) is None

    asyncio.run(main())
