"""Show a stored conversation: replay its events as items, with its end shown long before the rest is read."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin, compress_block
from agentcli.core.text.plaintext import plain_text
from agentcli.tui.model import (
    Above,
    Add,
    AnswerItem,
    CountLines,
    Grow,
    Item,
    NoticeItem,
    Operation,
    PromptItem,
    Remove,
    Replace,
    ToolItem,
    pack_item,
)
from agentcli.tui.presenter import Presenter, Titles

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.session.find import SessionInfo
    from agentcli.session.load import LoadedSession

T = TypeVar("T")
Pace = Callable[[Iterable[Any]], Iterator[Any]]

NEAR_THE_END = 12
RECENT_EVENTS = 2_000
"""Events at the end of a conversation that are shown before its first request; the others follow."""
PREVIEW_LINES = 100
"""Maximum number of lines in the preview of a session."""
AT_ONCE = 50
"""Events replayed between two pauses, about 1 ms: the event loop waits that long for the interpreter lock."""
PAUSE_SECONDS = 0.001
PAUSE_BESIDE_WORK = 0.01
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)+ *([A-Za-z0-9_+#.-]+)", re.MULTILINE)


def replay(history: Iterable[ev.Event], title_of: Titles, prefix: str = "past-") -> list[Item]:
    """Return the items that these events produce. Pure; may run in a thread. `prefix` of ids missing in the file."""
    presenter, shell_presenter = Presenter(title_of, prefix), Presenter(title_of, f"{prefix}shell-")
    items: dict[str, Item] = {}
    for event in history:
        # The user's shell lines may run beside a submission, and end after it.
        shows = shell_presenter if event.agent == ev.USER_AGENT else presenter
        _apply(items, shows.show(event, 0.0))
    _apply(items, presenter.closed(0.0))
    # A shell line that was running when the process ended has no finish event.
    return [replace(item, status="interrupted") if _runs(item) else item for item in items.values()]


def _runs(item: Item) -> TypeGuard[ToolItem]:
    return isinstance(item, ToolItem) and item.status == "running"


def _apply(items: dict[str, Item], operations: Iterable[Operation]) -> None:
    for operation in operations:
        match operation:
            case Add(item):
                items[item.id] = item
            case Replace(item):
                if item.id in items:
                    items[item.id] = item
            case Remove(id):
                items.pop(id, None)
            case Grow() | CountLines():
                pass  # streamed text is not in session files; the complete text is


def past_of(engine: Engine) -> tuple[list[Item], list[ev.Event]]:
    """Return the items to open a conversation with, and the events before them (for `earlier_items`). Anything even
    earlier is the engine's `earlier_part`. Run it in a thread: it also prepares the first request, which would block
    the screen otherwise, and loads the highlighters of the languages that will be visible."""
    from agentcli.tui.blocks.highlight import warm

    earlier, recent = split_history(engine.take_recent_history(), RECENT_EVENTS)
    items = replay(recent, engine.title_of)
    engine.context.prepare()
    warm({language for text in _answers(items) for language in _FENCE.findall(text)})
    return items, earlier


def split_history(history: list[ev.Event], recent: int) -> tuple[list[ev.Event], list[ev.Event]]:
    """Split the events of a long conversation at a prompt, with at least `recent` events in the second part. No agent
    and no shell line of the user runs across the split, so replaying both parts shows the same as replaying the
    whole."""
    cut = 0
    running: set[str] = set()
    for place in range(len(history) - recent + 1):
        match history[place]:
            case ev.MessageAppended(message=message) if message.origin is Origin.PROMPT and not running:
                cut = place
            case ev.AgentStarted(agent=started) | ev.ToolStarted(agent=ev.USER_AGENT, tool_use_id=started):
                running.add(started)
            case ev.AgentFinished(agent=ended) | ev.ToolFinished(agent=ev.USER_AGENT, tool_use_id=ended):
                running.discard(ended)
            case ev.SessionResumed():
                running.clear()
    return history[:cut], history[cut:]


def earlier_items(earlier: list[ev.Event], title_of: Titles, prefix: str, pace: Pace) -> list[Item]:
    """Return the packed items of the events before the end of a long conversation. Run it in a thread: `pace` pauses
    often, because the first request is prepared at the same time."""
    items = replay(pace(earlier), title_of, prefix)
    for item in pace(items):
        pack_item(item)
    return items


class _NotNeeded(Exception):
    """Stops a thread whose result is no longer needed; the process would wait for that thread before it exits."""


class EarlierPast:
    """Loads the earlier part of a long conversation, section by section from its end. When all sections are read,
    passes the messages that the engine had not read to the engine."""

    def __init__(self, engine: Engine, earlier: list[ev.Event]) -> None:
        """`earlier`: the events returned by `past_of`."""
        self._engine = engine
        self._earlier = earlier
        self._is_left = False

    async def operations(self) -> AsyncGenerator[Operation, None]:
        try:
            async for operation in self._operations():
                yield operation
        finally:
            self._is_left = True

    async def _operations(self) -> AsyncGenerator[Operation, None]:
        if self._earlier:
            given = self._earlier, self._engine.title_of, "earlier-", self._pace
            yield Above(tuple(await asyncio.to_thread(earlier_items, *given)))
        part = self._engine.earlier_part
        if part is None:
            return
        from agentcli.session.load import unreadable_lines

        skipped, sections, messages = -part.skipped, part.sections(self._pace), list[list[Message]]()
        for number in range(len(part.cuts) - 1):
            try:
                section, items = await asyncio.to_thread(self._read_section, sections, number)
            except OSError:
                # The engine keeps the messages that it has.
                return
            yield Above(tuple(items))
            messages.append(section.messages)
            skipped += section.skipped
        self._engine.session.log.put_earlier([message for section in reversed(messages) for message in section])
        if skipped > 0:
            yield Add(NoticeItem(id="earlier-lines", text=unreadable_lines(skipped), level="warning"))

    def _pace(self, entries: Iterable[T]) -> Iterator[T]:
        """Yield entries with pauses, longer ones while a submission runs because its requests have priority."""
        for number, entry in enumerate(entries, 1):
            if number % AT_ONCE == 0:
                time.sleep(PAUSE_BESIDE_WORK if self._engine.running else PAUSE_SECONDS)
                if self._is_left:
                    raise _NotNeeded
            yield entry

    def _read_section(self, sections: Iterator[LoadedSession], number: int) -> tuple[LoadedSession, list[Item]]:
        """Read the next section, compress its blocks and build its items. Raises OSError."""
        section = next(sections)
        items = earlier_items(section.history, self._engine.title_of, f"earlier-{number}-", self._pace)
        for block in self._pace(block for message in section.messages for block in message.content):
            compress_block(block)
        return section, items


def end_of_session(state_dir: Path, cwd: Path, resume: str) -> list[Item]:
    """Return the last items of the session named by `--resume`, or with "" of the latest one; empty if that is
    ambiguous. Run it in a thread: it also loads the modules for laying out the items. Answers are marked as still
    streaming, so that their code does not wait for syntax highlighting, which takes 50 ms to load."""
    from agentcli.session.find import find, latest
    from agentcli.session.load import load_end_of_history
    from agentcli.tui.blocks.markdown import load_parser

    newest = latest(state_dir, cwd) if not resume else None
    found = find(state_dir, cwd, resume) if resume else [newest] if newest is not None else []
    if len(found) != 1:
        return []
    try:
        items = replay(load_end_of_history(found[0].path), title_of_call, "end-")
    except OSError:
        return []
    if _answers(items):
        load_parser()
    return [replace(item, done=False) if isinstance(item, AnswerItem) else item for item in items]


def last_lines_of(session: SessionInfo) -> list[str]:
    """Return the first line and the last lines of a session's last prompt and its answers. Run it in a thread."""
    from agentcli.session.load import load_end_of_history, load_session

    # The last answer alone may be longer than the part of the file that is read first.
    items = replay(load_end_of_history(session.path), title_of_call) or replay(
        load_session(session.path).history, title_of_call
    )
    lines: list[str] = []
    for item in items:
        if isinstance(item, PromptItem):
            lines = []
        if isinstance(item, PromptItem | AnswerItem) and (text := plain_text(item.text).strip()):
            first, *rest = text.splitlines()
            lines += [f"{'❯' if isinstance(item, PromptItem) else '◆'} {first}", *(f"  {line}" for line in rest), ""]
    return [*lines[:1], *lines[1:-1][-PREVIEW_LINES:]]


def title_of_call(name: str, input: Json) -> str:
    """A title for a call without its tool."""
    return f"{name} {next((value for value in input.values() if isinstance(value, str)), '')}".strip()


def _answers(items: list[Item]) -> list[str]:
    return [item.text for item in items[-NEAR_THE_END:] if isinstance(item, AnswerItem)]
