"""Attach memory notes that match the latest prompt (SPEC 2.6), searched while the model streams.

The search begins with the prompt, in a thread; its results are attached with the first request after it has ended: no
request waits for it. Notes that the context already contains unchanged are left out. What was attached is read from the
messages in the context, so it survives a resume and is repeated after a compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments
from agentcli.agent.updates.instructions import known_anyway
from agentcli.core.growing import Gathered, latest
from agentcli.core.ids import Ids
from agentcli.core.messages import Message, Origin, user_message
from agentcli.memory.notes import Note, Notes

_NOTES = "memory_notes"
"""Meta key: the notes that a message shows, as real paths with digests."""
_HEADING = "[Notes from your memory that may matter here. They are of earlier sessions: check before you rely on them.]"


def _own_prompt(message: Message) -> Message | None:
    return message if message.origin in (Origin.PROMPT, Origin.QUEUED) and not message.is_copy else None


class MemorySearch(Attachments):
    """The memory search of one conversation."""

    def __init__(self, notes: Notes, ids: Ids, shown: Callable[[Sequence[Message]], Sequence[Message]]) -> None:
        self._notes = notes
        self._ids = ids
        self._shown = shown
        self._last_prompt: Gathered[Message, Any] = latest(_own_prompt)
        self._prompt = ""
        """Id of the prompt of the last search."""
        self._search: asyncio.Future[list[Note]] | None = None

    async def collect(self, state: LoopState) -> Sequence[Message]:
        prompt: Message | None = self._last_prompt.of(state.messages)
        if prompt is None:
            return ()
        if prompt.id != self._prompt:
            self._prompt = prompt.id
            loop = asyncio.get_running_loop()
            self._search = loop.run_in_executor(None, self._notes.relevant, prompt.text)
            return ()
        if self._search is None or not self._search.done():
            return ()
        found, self._search = self._search.result(), None
        due = self._unknown(found, state)
        if not due:
            return ()
        text = "\n".join([_HEADING, *(note.section for note in due)])
        meta = {_NOTES: {note.real: note.digest for note in due}}
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, meta),)

    def _unknown(self, found: Sequence[Note], state: LoopState) -> list[Note]:
        if not found:
            return []
        shown = self._shown(state.messages)
        announced: dict[str, str] = {}
        for message in shown:
            announced.update(message.meta.get(_NOTES, {}))
        due = [note for note in found if announced.get(note.real) != note.digest]
        known = known_anyway(due, shown, state.tool_context) if due else ()
        return [note for note in due if note.real not in known]
