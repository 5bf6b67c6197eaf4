"""A stored conversation on the screen: its items, and its end long before the rest is read."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin, pack_block
from agentcli.core.plaintext import plain_text
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
"""Events at the end of a conversation that are on the screen before its first request; the others follow."""
PREVIEW_LINES = 100
"""Last lines of a session that are shown before it is chosen."""
AT_ONCE = 50
"""Events without a pause, about a millisecond: the event loop waits so long for the interpreter lock."""
PAUSE_SECONDS = 0.001
PAUSE_BESIDE_WORK = 0.01
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)+ *([A-Za-z0-9_+#.-]+)", re.MULTILINE)


def replayed(history: Iterable[ev.Event], title_of: Titles, prefix: str = "past-") -> list[Item]:
    """The items that these events made. Pure, for a thread. `prefix`: of the ids that the session file lacks."""
    presenter = Presenter(title_of, prefix)
    items: dict[str, Item] = {}
    beside = _ShellLinesBeside()
    for event in history:
        show = presenter.show_beside if beside.has(event) else presenter.show
        _apply(items, show(event, 0.0))
    _apply(items, presenter.closed(0.0))
    # A shell line that ran when the program was closed has no end.
    return [replace(item, status="interrupted") if _runs(item) else item for item in items.values()]


class _ShellLinesBeside:
    """Tells the user's shell lines that ran beside a submission from those that were one themselves."""

    def __init__(self) -> None:
        self._model_works = False
        self._calls: set[str] = set()

    def has(self, event: ev.Event) -> bool:
        match event:
            case ev.MessageAppended(message=message) if message.origin is Origin.PROMPT:
                self._model_works = True
            case ev.CompactionStarted():
                self._model_works = True
            case ev.Result() | ev.SessionResumed():
                self._model_works = False
            case ev.ToolStarted(agent=ev.USER_AGENT) if self._model_works:
                self._calls.add(event.tool_use_id)
                return True
            case ev.ToolFinished(agent=ev.USER_AGENT):
                return event.tool_use_id in self._calls
        return False


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
                pass  # streamed text is in no session file; the whole of it is


def past_of(engine: Engine) -> tuple[list[Item], list[ev.Event]]:
    """What a conversation shows, to be opened with, and the events of what was before that, for `earlier_items`; what
    was before those is the engine's `earlier_part`. For a thread: it also prepares the first request, which otherwise
    holds up the screen, and loads the languages that will be in view."""
    from agentcli.tui.blocks.highlight import warm

    earlier, recent = split_history(engine.take_recent_history(), RECENT_EVENTS)
    items = replayed(recent, engine.title_of)
    engine.context.prepare()
    warm({language for text in _answers(items) for language in _FENCE.findall(text)})
    return items, earlier


def split_history(history: list[ev.Event], recent: int) -> tuple[list[ev.Event], list[ev.Event]]:
    """The events of a long conversation before and from one of its prompts on, with at least `recent` of them at the
    end. No agent and no shell line of the user runs across that place: what is shown of both parts is what is shown of
    the whole."""
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


def _with_pauses(entries: Iterable[T]) -> Iterator[T]:
    for number, entry in enumerate(entries, 1):
        if number % AT_ONCE == 0:
            time.sleep(PAUSE_SECONDS)
        yield entry


def earlier_items(
    earlier: list[ev.Event], title_of: Titles, prefix: str = "earlier-", pace: Pace = _with_pauses
) -> list[Item]:
    """The items of what was before the end of a long conversation, already packed. For a thread: it pauses often, since
    the first request is prepared meanwhile."""
    items = replayed(pace(earlier), title_of, prefix)
    for item in pace(items):
        pack_item(item)
    return items


class _NobodyWaits(Exception):
    """Ends a thread whose result is not needed: the program waits for it before it ends."""


class EarlierPast:
    """What a long conversation showed before what it is opened with, piece by piece from its end. The messages that its
    engine has not read are handed to it when all are there."""

    def __init__(self, engine: Engine, earlier: list[ev.Event]) -> None:
        """`earlier` as returned by `past_of`."""
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
            given = self._earlier, self._engine.title_of, "earlier-", self._paced
            yield _above(await asyncio.to_thread(earlier_items, *given))
        part = self._engine.earlier_part
        if part is None:
            return
        from agentcli.session.load import unreadable_lines

        skipped, sections, messages = -part.skipped, part.sections(self._paced), list[list[Message]]()
        for number in range(len(part.cuts) - 1):
            try:
                section, items = await asyncio.to_thread(self._read_section, sections, number)
            except OSError:
                # The engine keeps what it has.
                return
            yield _above(items)
            messages.append(section.messages)
            skipped += section.skipped
        self._engine.put_earlier([message for section in reversed(messages) for message in section])
        if skipped > 0:
            yield Add(NoticeItem(id="earlier-lines", text=unreadable_lines(skipped), level="warning"))

    def _paced(self, entries: Iterable[T]) -> Iterator[T]:
        """Entries with pauses, longer ones while a submission runs: its requests come first."""
        for number, entry in enumerate(entries, 1):
            if number % AT_ONCE == 0:
                time.sleep(PAUSE_BESIDE_WORK if self._engine.running else PAUSE_SECONDS)
                if self._is_left:
                    raise _NobodyWaits
            yield entry

    def _read_section(self, sections: Iterator[LoadedSession], number: int) -> tuple[LoadedSession, list[Item]]:
        """The next section, with its blocks compressed, and its items. Raises OSError."""
        section = next(sections)
        items = earlier_items(section.history, self._engine.title_of, f"earlier-{number}-", self._paced)
        for block in self._paced(block for message in section.messages for block in message.content):
            pack_block(block)
        return section, items


def _above(items: list[Item]) -> Above:
    return Above(tuple(items), is_earlier=True)


def end_of_session(state_dir: Path, cwd: Path, resume: str) -> list[Item]:
    """Of the session that `--resume` means, or with "" of the latest one; nothing if it is not clear which that is. For
    a thread: it also loads what the items are laid out with. Answers look as if they were being written: code in them
    does not wait for its colours, which take 50 ms to load."""
    from agentcli.session.find import find, latest
    from agentcli.session.load import load_end_of_history
    from agentcli.tui.blocks.markdown import load_parser

    newest = latest(state_dir, cwd) if not resume else None
    found = find(state_dir, cwd, resume) if resume else [newest] if newest is not None else []
    if len(found) != 1:
        return []
    try:
        items = replayed(load_end_of_history(found[0].path), _title, "end-")
    except OSError:
        return []
    if _answers(items):
        load_parser()
    return [replace(item, done=False) if isinstance(item, AnswerItem) else item for item in items]


def last_lines_of(session: SessionInfo) -> list[str]:
    """The last prompt of a session and what followed: the first line and the last ones of it. For a thread."""
    from agentcli.session.load import load_end_of_history, load_session

    # The last answer alone may be longer than the end that is read.
    items = replayed(load_end_of_history(session.path), _title) or replayed(load_session(session.path).history, _title)
    lines: list[str] = []
    for item in items:
        if isinstance(item, PromptItem):
            lines = []
        if isinstance(item, PromptItem | AnswerItem) and (text := plain_text(item.text).strip()):
            first, *rest = text.splitlines()
            lines += [f"{'❯' if isinstance(item, PromptItem) else '◆'} {first}", *(f"  {line}" for line in rest), ""]
    return [*lines[:1], *lines[1:-1][-PREVIEW_LINES:]]


def _title(name: str, input: Json) -> str:
    return f"{name} {next((value for value in input.values() if isinstance(value, str)), '')}".strip()


def _answers(items: list[Item]) -> list[str]:
    return [item.text for item in items[-NEAR_THE_END:] if isinstance(item, AnswerItem)]
