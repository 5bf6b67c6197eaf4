"""Show the model instruction files that are new to it or have changed.

What it was shown at first is the user context, at the front of every request, which stays as it is. All else comes as
attachments at the end, one for each file: those of folders that a tool has touched, and any that has changed. What has
been announced is read from the messages in sight, so that it survives a resume and is repeated after a compaction
has taken it away. Before the first request, and right after a compaction, the front is made again instead: then it
costs nothing. One that belongs to a compaction goes with it: undoing it brings the old front back, byte for byte.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.agent.attachments.mentions import list_attached_paths
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Lookup
from agentcli.context.view import ContextView
from agentcli.core.aio import in_thread
from agentcli.core.ids import Ids
from agentcli.core.messages import Message, Origin, user_message
from agentcli.core.space_saving import RunningValue, latest
from agentcli.core.text.plaintext import plain_line
from agentcli.memory.instructions import InstructionFile, InstructionFiles, Instructions, UserContext
from agentcli.memory.notes import Note, Notes
from agentcli.tools.base import ToolContext, absolute_path
from agentcli.tools.registry import builtin_traits, file_field

INSTRUCTIONS = "instructions"
"""Key in a message's meta: the files that it shows, real paths with their digests; "" for one that is gone."""
MAX_FOLDERS = 20
"""Maximum touched folders whose instructions are kept in the context, the latest ones."""
MAX_AT_ONCE = 60_000
"""Maximum characters per request; the rest is attached to the next one."""

NEW = "[Instructions that hold for files you work with:]"
CHANGED = "[These instructions have changed since you were shown them. From now on they are:]"
GONE = "[The instructions in {} are gone; they do not hold any more.]"
MEMORY_NEW = "[The index of your memory:]"
MEMORY_CHANGED = "[The index of your memory has changed since you were shown it. It is now:]"
MEMORY_GONE = "[The index of your memory is gone: {}]"

_Found = tuple[Instructions, Instructions, list[str]]
"""Instructions that always apply, those of touched folders, and files that are gone."""

Renew = Callable[[UserContext, str], None]
"""Set another user context as the front from the boundary with this id on, and record it."""


class ConversationInstructions(Attachments):
    """The instruction files of one conversation."""

    def __init__(
        self,
        files: InstructionFiles,
        fronts: Mapping[str, UserContext],
        ids: Ids,
        view: ContextView,
        renew: Renew | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        """`fronts`: the user contexts of `view`, by boundary, the first one under "". `renew`: None: the front never
        changes. `notice` gets sentences for the user about files that were skipped or cut."""
        self._files = files
        self._fronts = dict(fronts)
        self._ids = ids
        self._view = view
        self._renew = renew
        self._notice = notice
        self._noticed = {notice for front in fronts.values() for notice in front.notices}
        self._touched: dict[str, None] = {}
        """Folders, the last touched one at the end."""
        self._in_sight: RunningValue[Message, dict[str, str]] = RunningValue(dict, _with_announced)
        """Digests of the files that messages in sight tell of."""
        self._scanned: tuple[int, str] = (0, "")
        """Number of messages scanned, and the id of the last of them."""
        self._decided: set[str] = set(fronts) - {""}
        """Boundaries for which it was decided whether to build the front again: once each. "": the beginning."""
        self._looked_up: tuple[LoopState, dict[str, str], _Found] | None = None
        self._ours = {path for front in fronts.values() for path in front.sources}

    def tells(self, path: str) -> bool:
        """Whether changes of this file (real path) are reported here."""
        return path in self._ours

    def lookup(self, state: LoopState) -> Lookup:
        self._scan(state)
        folders = [*list(self._touched)[-MAX_FOLDERS:], str(state.tool_context.cwd)]
        announced = self._list_announced(state)
        shown = [path for path, digest in announced.items() if digest]

        def look() -> None:
            self._looked_up = (state, announced, self._look(folders, shown))

        return look

    async def collect(self, state: LoopState) -> Sequence[Message]:
        if self._looked_up is None or self._looked_up[0] is not state:
            await in_thread(self.lookup(state))
        assert self._looked_up is not None
        _state, announced, (always, near, gone) = self._looked_up
        self._looked_up = None
        self._say(always, near)
        if self._renew_front(state, always):
            announced = self._list_announced(state)
        files = (*always.files, *near.files)
        self._ours |= {file.real for file in files}
        due = [file for file in files if announced.get(file.real) != file.digest]
        if due:
            known = find_known_anyway(due, self._view.messages(state.messages), state.tool_context)
            due = [file for file in due if file.real not in known]
        messages = [self._message(file, new=not announced.get(file.real)) for file in _at_once(due)]
        return [*messages, *(self._report_gone(path) for path in gone if announced.get(path))]

    def _look(self, folders: Iterable[str], announced: Iterable[str]) -> _Found:
        gone = [path for path in announced if not os.path.lexists(path)]
        always = self._files.always()
        return always, self._files.near(folders, always), gone

    def _list_announced(self, state: LoopState) -> dict[str, str]:
        return {**self._front(state).sources, **self._in_sight.of(self._view.list_shown_messages(state.messages))}

    def _front(self, state: LoopState) -> UserContext:
        return self._fronts[self._view.front_boundary(state.messages)]

    def _renew_front(self, state: LoopState, always: Instructions) -> bool:
        """Build the front again if it has changed. Only before the first request, and between a compaction and the next
        request: nothing of it is cached then."""
        boundary = self._fresh_boundary(state.messages)
        if self._renew is None or boundary is None or boundary in self._decided:
            return False
        self._decided.add(boundary)
        fresh = always.as_context()
        if dict(fresh.sources) == dict(self._front(state).sources):
            return False
        self._fronts[boundary] = fresh
        self._renew(fresh, boundary)
        return True

    def _fresh_boundary(self, messages: Sequence[Message]) -> str | None:
        """Id of the active compact boundary if no request was made since, "" if none was made at all, else None.
        Replies copied by a compaction have no usage."""
        for message in reversed(messages):
            if message.origin is Origin.REPLY and message.usage is not None:
                return None
            if message.origin is Origin.BOUNDARY and message is self._view.edits.boundary(messages):
                return message.id
        return None if any(message.origin is Origin.REPLY for message in messages) else ""

    def _message(self, file: InstructionFile, new: bool) -> Message:
        headings = (MEMORY_NEW, MEMORY_CHANGED) if file.kind == "memory" else (NEW, CHANGED)
        text = f"{headings[0] if new else headings[1]}\n{file.section}"
        return user_message(text, self._ids.new(), Origin.ATTACHMENT, {INSTRUCTIONS: {file.real: file.digest}})

    def _report_gone(self, path: str) -> Message:
        text = (MEMORY_GONE if self._files.is_memory(path) else GONE).format(plain_line(path, 300))
        return user_message(text, self._ids.new(), Origin.ATTACHMENT, {INSTRUCTIONS: {path: ""}})

    def _say(self, *found: Instructions) -> None:
        for notice in (notice for part in found for notice in part.notices):
            if notice not in self._noticed:
                self._noticed.add(notice)
                if self._notice is not None:
                    self._notice(notice)

    def _scan(self, state: LoopState) -> None:
        """Collect the folders that calls have touched. Costs only what is new since the last time."""
        messages = state.messages
        count, last = self._scanned
        if count > len(messages) or (count and messages[count - 1].id != last):
            count = 0
        for place in range(count, len(messages)):
            for path in _list_touched(messages, place, state.tool_context):
                self._touched.pop(path, None)
                self._touched[path] = None
        # A reply without results yet is scanned again.
        settled = len(messages) - bool(messages and messages[-1].tool_uses)
        self._scanned = (settled, messages[settled - 1].id if settled else "")


def _with_announced(announced: dict[str, str], message: Message) -> dict[str, str]:
    announced.update(message.meta.get(INSTRUCTIONS, {}))
    return announced


def _list_touched(messages: Sequence[Message], place: int, context: ToolContext) -> list[str]:
    """The folders of the files that a message attaches or that its successful calls touched."""
    uses = messages[place].tool_uses
    if not uses:
        return [str(Path(path).parent) for path in list_attached_paths([messages[place]])]
    following = (message for message in messages[place + 1 : place + 4] if message.tool_results)
    results = next((message.tool_results for message in following), ())
    done = {result.tool_use_id for result in results if not result.is_error}
    found = []
    for use in uses:
        if use.id not in done:
            continue
        if isinstance(path := use.input.get(file_field(use.name)), str):
            found.append(absolute_path(path, context).rpartition("/")[0] or "/")
        elif isinstance(path := use.input.get(builtin_traits("folder_field").get(use.name, "")), str):
            found.append(absolute_path(path, context))
    return found


def find_known_anyway(
    due: Sequence[InstructionFile | Note], shown: Sequence[Message], context: ToolContext
) -> Collection[str]:
    """Real paths of the files that the model has just read or written, that have not changed since, and that the
    context still shows."""
    seen = {file.real: context.read_cache.seen(file.real) for file in due}
    whole = {file.real for file in due if (known := seen[file.real]) and known.whole and known.digest == file.digest}
    if not whole:
        return ()
    shown_messages = {
        os.path.realpath(absolute_path(use.input.get(file_field(use.name)), context))
        for message in shown
        for use in message.tool_uses
        if file_field(use.name)
    }
    return whole & shown_messages


def _at_once(files: Sequence[InstructionFile]) -> list[InstructionFile]:
    """As many files as fit, at least one."""
    room = MAX_AT_ONCE
    chosen: list[InstructionFile] = []
    for file in files:
        room -= len(file.section)
        if room < 0 and chosen:
            break
        chosen.append(file)
    return chosen


_NOTES = "memory_notes"
"""Meta key: the notes that a message shows, as real paths with digests."""
_HEADING = "[Notes from your memory that may matter here. They are of earlier sessions: check before you rely on them.]"


def _find_own_prompt(message: Message) -> Message | None:
    return message if message.origin in (Origin.PROMPT, Origin.QUEUED) and not message.is_copy else None


class MemorySearch(Attachments):
    """The memory search of one conversation."""

    def __init__(self, notes: Notes, ids: Ids, shown: Callable[[Sequence[Message]], Sequence[Message]]) -> None:
        self._notes = notes
        self._ids = ids
        self._shown = shown
        self._last_prompt: RunningValue[Message, Any] = latest(_find_own_prompt)
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
        due = self._list_unknown(found, state)
        if not due:
            return ()
        text = "\n".join([_HEADING, *(note.section for note in due)])
        meta = {_NOTES: {note.real: note.digest for note in due}}
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, meta),)

    def _list_unknown(self, found: Sequence[Note], state: LoopState) -> list[Note]:
        if not found:
            return []
        shown = self._shown(state.messages)
        announced: dict[str, str] = {}
        for message in shown:
            announced.update(message.meta.get(_NOTES, {}))
        due = [note for note in found if announced.get(note.real) != note.digest]
        known = find_known_anyway(due, shown, state.tool_context) if due else ()
        return [note for note in due if note.real not in known]
