"""`engine.files`: the changes of files, by the model (diff, undo, redo) and by others.

Files that the model has seen and others have changed are reported to it once per change, as limited diffs. Before each
request every such file is checked with one `stat`; only if that differs is the content hashed, so writes by our own
tools are not reported. A file whose complete diff was shown counts as known; one whose diff was cut or could not be
shown does not, and editing it is refused until it is read.

What the model has seen is saved with the conversation: a line of the session file has the changes since the previous
one; a message that reports changed files has in its meta what the model knows from it, because the process may end
before the next line. Contents are not saved: the log has them if a file was written whole; otherwise a change is
reported without a diff.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.attachments.undo_notes import UserActionNote, forget_changed, undo_note
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Lookup
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen, replace
from agentcli.core.ids import Ids
from agentcli.core.messages import Json, Message, Origin, user_message
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import ToolContext, absolute_path, show_path
from agentcli.tools.files.disk import MAX_LOADED_SIZE, load_blocking
from agentcli.tools.files.encoding import decode
from agentcli.tools.files.read_cache import ReadCache, Seen, digest_of
from agentcli.workspace.base import (
    DiffScope,
    FileChange,
    RestoreMark,
    UndoChoices,
    UndoPlan,
    UndoReport,
    Workspace,
    WorkspaceDiff,
)

if TYPE_CHECKING:
    from agentcli.tools.search.file_index import FileIndex


MAX_CHECKED = 2_000
MAX_RECALLED = 2_000
MAX_SHOWN = 10
MAX_NAMED = 50
MAX_DIFFERENCE = 4_000
MAX_TOLD = 20_000
"""Maximum characters of all diffs in one message."""
CHANGED_FILES = "changed_files"
"""Meta key: the files that a message reports."""
SEEN = "seen"
"""Meta key of a message that reports changed files: the records of what the model knows from it, by path."""

_GONE = "gone"
_SECONDS = 0.25
"""Maximum duration of one check; on a slow disk the next check continues."""
_MAX_HASHED = 64 * 1024 * 1024
_SETTLED_NANOSECONDS = 2_000_000_000
"""Minimum age of a reliable time stamp: two changes within its resolution look the same."""
_LEAD = (
    "[Files that you have seen were changed by the user, another program or a command. Take the changes into account "
    "and do not undo them unasked. Old lines are marked with -, new ones with +."
)

Stamp = tuple[int, ...] | None
Remember = Callable[[Json], None]
"""Saves changed records by path: `digest`, `whole`, and `told`, the digest that was reported without the content. None
for a forgotten file."""
_Knowledge = dict[str, tuple[Stamp, str]]


@frozen
class FileUpdate:
    """A file that differs from what the model saw, or matches it again."""

    path: str
    seen: Seen
    digest: str
    data: bytes | None = None
    what: str = ""
    """Description if there is no diff to show."""
    difference: str = ""
    complete: bool = False
    """Whether the diff shows everything that changed."""


@frozen
class _Sweep:
    """Result of one check."""

    changes: list[FileUpdate]
    stamps: _Knowledge
    """Stamps of unchanged files that are old enough to be relied on."""


@frozen
class _Report:
    """A message not yet in the log, and what the model knew before it."""

    message_id: str
    before: tuple[tuple[FileUpdate, bytes | None, tuple[str, str] | None], ...]


class ChangedFiles(Attachments):
    """The watched files of one conversation."""

    def __init__(
        self,
        ids: Ids,
        reported_elsewhere: Callable[[str], bool] = lambda _path: False,
        remember: Remember = lambda _records: None,
    ) -> None:
        """`reported_elsewhere`: whether another attachment reports changes of this file. `remember` saves what the
        model has seen, for `recall` in another process."""
        self._ids = ids
        self._reported_elsewhere = reported_elsewhere
        self._remember = remember
        self._written: dict[str, Json | None] = {}
        """The saved records."""
        self._due: set[str] = set()
        """Files whose record may have to be saved."""
        self._stamps: _Knowledge = {}
        """Stamp of each file, and the digest that the model knew then."""
        self._told: dict[str, tuple[str, str]] = {}
        """Digests reported to the model without the content, each with the digest that it knows."""
        self._last: _Report | None = None
        self._looked_up: tuple[LoopState, _Sweep] | None = None

    def recall(self, log: Sequence[Message], lines: Iterable[tuple[str, Json]], context: ToolContext) -> None:
        """Load the saved records: `lines` as passed to `remember`, each with the id of the message before it."""
        cache, records, written = context.read_cache, _load_records(log, lines), _find_written(log, context)
        for path, record in records.items():
            data = written.get(path)
            known = data if data is not None and digest_of(data) == record["digest"] else None
            cache.note_digest(path, record["digest"], record.get("whole") is True, known)
            if record.get("told"):
                self._told[path] = (str(record["told"]), record["digest"])
        self._written = dict(records)
        cache.take_changed()

    def lookup(self, state: LoopState) -> Lookup | None:
        context = state.tool_context
        self._take_back_unsent(state, context.read_cache)
        paths = self._paths(context)

        def look() -> None:
            self._looked_up = (state, self._sweep(paths, context))

        return look if paths else None

    async def collect(self, state: LoopState) -> Sequence[Message]:
        cache = state.tool_context.read_cache
        self._take_back_unsent(state, cache)
        self._due |= cache.take_changed()
        self._save({path: self._record(path, cache) for path in self._due})
        self._due.clear()
        changes = await self._look(state)
        if not changes:
            return ()
        message_id = self._ids.new()
        before = tuple((change, cache.content(change.path), self._told.get(change.path)) for change in changes)
        self._last = _Report(message_id, before)
        for change in changes:
            self._note(change, cache)
        seen = {change.path: self._record(change.path, cache) for change in changes}
        meta = {CHANGED_FILES: [change.path for change in changes], SEEN: seen}
        return (user_message(_text(changes, state.tool_context), message_id, Origin.ATTACHMENT, meta),)

    async def peek(self, context: ToolContext) -> list[str]:
        """The files that the next request would report. Changes nothing."""
        paths = self._paths(context)
        if not paths:
            return []
        sweep = await in_thread(lambda: self._sweep(paths, context, differences=False))
        return [change.path for change in sweep.changes]

    def _paths(self, context: ToolContext) -> list[str]:
        """Paths to check, latest first."""
        paths, hides = context.read_cache.paths()[: -MAX_CHECKED - 1 : -1], context.hides
        return [path for path in paths if not (hides and hides(path)) and not self._reported_elsewhere(path)]

    async def _look(self, state: LoopState) -> list[FileUpdate]:
        if self._looked_up is None or self._looked_up[0] is not state:
            if (look := self.lookup(state)) is None:
                return []
            # An abort during the thread's work changes nothing.
            await in_thread(look)
        assert self._looked_up is not None
        sweep, self._looked_up = self._looked_up[1], None
        self._stamps |= sweep.stamps
        return sweep.changes

    def _record(self, path: str, cache: ReadCache) -> Json | None:
        """What the model knows of a file according to the log; None if nothing."""
        seen = cache.seen(path)
        if seen is None:
            return None
        told, base = self._told.get(path, ("", ""))
        record: Json = {"digest": seen.digest, "whole": seen.whole}
        return {**record, "told": told} if told and base == seen.digest else record

    def _save(self, records: Mapping[str, Json | None]) -> None:
        """Save what is new since the last time."""
        new = {path: record for path, record in records.items() if self._written.get(path) != record}
        self._written |= new
        if new:
            self._remember(new)

    def _note(self, change: FileUpdate, cache: ReadCache) -> None:
        self._due.add(change.path)
        if change.complete:
            cache.note_digest(change.path, change.digest, change.seen.whole, change.data)
        if change.complete or change.digest == change.seen.digest:
            self._told.pop(change.path, None)
        else:
            self._told[change.path] = (change.digest, change.seen.digest)

    def _take_back_unsent(self, state: LoopState, cache: ReadCache) -> None:
        """After an abort the last message may be missing in the log: then the model does not know of it."""
        last, self._last = self._last, None
        if last is None or any(message.id == last.message_id for message in reversed(state.messages)):
            return
        for change, content, told in last.before:
            self._due.add(change.path)
            self._stamps.pop(change.path, None)
            self._told.pop(change.path, None)
            if told is not None:
                self._told[change.path] = told
            now = cache.seen(change.path)
            if change.complete and now is not None and now.digest == change.digest:
                cache.note_digest(change.path, change.seen.digest, change.seen.whole, content)

    def _sweep(self, paths: Sequence[str], context: ToolContext, *, differences: bool = True) -> _Sweep:
        """Check the files, in a thread. Never raises because of files on disk."""
        cache = context.read_cache
        changes: list[FileUpdate] = []
        stamps: _Knowledge = {}
        deadline, hashed = time.monotonic() + _SECONDS, 0
        for path in paths:
            seen = cache.seen(path)
            if seen is None:
                continue
            if hashed > _MAX_HASHED or time.monotonic() > deadline:
                break
            stamp = _stamp(path)
            if self._stamps.get(path) == (stamp, seen.digest):
                continue
            told, base = self._told.get(path, ("", ""))
            # Read or written since, so earlier reports are obsolete.
            change = _compare(path, seen, stamp, told if base == seen.digest else "")
            hashed += stamp[1] if stamp is not None else 0
            if change is not None:
                changes.append(change)
            if stamp is None or time.time_ns() - stamp[3] > _SETTLED_NANOSECONDS:
                stamps[path] = (stamp, seen.digest)
        return _Sweep(_with_differences(changes, cache) if differences else changes, stamps)


def _load_records(log: Sequence[Message], lines: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """All valid records, the latest last."""
    by_message: dict[str, list[Json]] = {}
    for after, files in lines:
        by_message.setdefault(after, []).append(files)
    batches = by_message.pop("", [])
    for message in log:
        if SEEN in message.meta and not message.is_copy:
            batches.append(message.meta[SEEN])
        batches += by_message.pop(message.id, ())
    found: dict[str, Json] = {}
    for files in batches:
        for path, record in files.items() if isinstance(files, Mapping) else ():
            found.pop(path, None)
            if isinstance(record, dict) and isinstance(record.get("digest"), str):
                found[path] = record
    return dict(list(found.items())[-MAX_RECALLED:])


def _find_written(log: Sequence[Message], context: ToolContext) -> dict[str, bytes]:
    """The last contents that Write calls put into files. Compare digests to see whether they are current."""
    found: dict[str, bytes] = {}
    for message in log:
        for use in message.tool_uses:
            path, content = use.input.get("file_path"), use.input.get("content")
            if use.name == "Write" and isinstance(path, str) and isinstance(content, str):
                found[absolute_path(path, context)] = content.encode("utf-8", "replace")
    return found


def _stamp(path: str) -> Stamp:
    """Inode, size and times of a file; None if it is not a regular file."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _compare(path: str, seen: Seen, stamp: Stamp, told: str) -> FileUpdate | None:
    """Compare a file with what the model saw; None if there is nothing to report."""
    data: bytes | None = None
    digest, what = _GONE, "is gone"
    if stamp is not None and stamp[1] > MAX_LOADED_SIZE:
        digest, what = f"{stamp[1]} {stamp[2]}", f"has {counted(stamp[1], 'byte')} now"
    elif stamp is not None:
        try:
            data = load_blocking(path)
        except OSError as error:
            digest = f"error {error.errno}"
            what = f"cannot be read any more: {(error.strerror or 'unknown error').lower()}"
        else:
            digest, what = digest_of(data), ""
    if digest == seen.digest:
        return FileUpdate(path, seen, digest, what="is again as you saw it") if told else None
    return None if digest == told else FileUpdate(path, seen, digest, data, what)


def _with_differences(changes: Iterable[FileUpdate], cache: ReadCache) -> list[FileUpdate]:
    """The changes, with diffs for the first ones as far as these can be shown."""
    room, shown = MAX_TOLD, 0
    found: list[FileUpdate] = []
    for change in changes:
        if change.what or change.data is None:
            found.append(change)
            continue
        if shown >= MAX_SHOWN or room <= 0:
            found.append(_describe(change, "changed"))
            continue
        change = _find_differing(change, cache.content(change.path), min(MAX_DIFFERENCE, room))
        room -= len(change.difference)
        shown += bool(change.difference)
        found.append(change)
    return found


def _find_differing(change: FileUpdate, before: bytes | None, most: int) -> FileUpdate:
    assert change.data is not None
    if before is None:
        return _describe(change, "changed; what has changed cannot be shown, so read it again before relying on it")
    then, now = decode(before), decode(change.data)
    if then is None or now is None:
        return _describe(change, "changed, and is binary or in an unknown encoding")
    if not change.data:
        return _describe(change, "is empty now")
    from agentcli.tools.files.diff import diff_display

    difference = str(diff_display("", then.text, now.text)["diff"])
    if not difference:
        return _describe(change, "changed only in its line ends, its encoding or the like")
    complete = len(difference) <= most
    if not complete:
        head = difference[:most]
        difference = (head.rpartition("\n")[0] or head) + "\n… the rest is left out; read the file before changing it"
    return replace(change, what="", difference=difference, complete=complete)


def _describe(change: FileUpdate, what: str) -> FileUpdate:
    return replace(change, data=None, what=what)


def _text(changes: Sequence[FileUpdate], context: ToolContext) -> str:
    parts = [_LEAD]
    parts += [f"{_name(change, context)}:\n{change.difference}" for change in changes if change.difference]
    rest = [change for change in changes if not change.difference]
    lines = [f"{_name(change, context)} {change.what}" for change in rest[:MAX_NAMED]]
    if len(rest) > MAX_NAMED:
        lines.append(f"and {counted(len(rest) - MAX_NAMED, 'more file')}")
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "]"


def _name(change: FileUpdate, context: ToolContext) -> str:
    return plain_line(show_path(change.path, context), 300)


FindMessages = Callable[[Collection[str]], Awaitable[Sequence[Message]]]


class FileChanges:
    """`seen`: the files that the model has read, checked for changes by others; None: the disk is not watched."""

    def __init__(
        self, workspace: Workspace, context: Callable[[], ToolContext], seen: ChangedFiles | None = None
    ) -> None:
        self._workspace = workspace
        self._context = context
        self._seen = seen
        self._rewritten: set[str] = set()
        """Files that undo and redo have written since the last prompt."""

    async def changes(self) -> list[FileChange]:
        """Changes that the last submission made and that were not undone."""
        return await self._workspace.changes()

    async def diff(self, scope: DiffScope = "session") -> WorkspaceDiff:
        """Changes as unified diffs; `problem` explains why there are none."""
        return await self._workspace.diff(scope, self._context().working_dirs)

    async def undo(self, choices: UndoChoices | None = None) -> UndoReport:
        """Revert the file changes of the last submission; each further call reverts one submission more.

        Not while a submission runs. The user's own changes stay; files in which both changed the same lines need a
        choice, or are reported and stay. The model is notified with the next prompt."""
        return self._note_undo(await self._workspace.undo(choices))

    async def redo(self, choices: UndoChoices | None = None) -> UndoReport:
        """Revert the last undo; possible until something else has changed."""
        return self._note_undo(await self._workspace.redo(choices))

    async def undo_plan(self, again: bool = False, choices: UndoChoices | None = None) -> UndoPlan:
        """List the files for which an undo (`again`: a redo) needs a choice beyond `choices`. Changes nothing."""
        return await self._workspace.plan(again, choices)

    async def restore(self, since: int, choices: UndoChoices, mark: RestoreMark) -> UndoReport:
        """Restore the files as they were before the submission with this number; the next `undo` reverts that.

        Not while a submission runs. As for an undo, the user's own changes stay and conflicts need a choice."""
        return self._note_undo(await self._workspace.restore(since, choices, mark))

    async def wait_for_notice(self) -> str:
        """Wait until someone else has changed files that the model has seen; returns a notice that names them. For use
        between submissions. Never returns where the disk is not watched; cancel it."""

        if self._seen is None:
            await asyncio.Event().wait()
        assert self._seen is not None
        paths = await wait_for_changes(self._seen, self._context(), frozenset(self._rewritten))
        return describe_changes(paths, self._context())

    def index(self) -> FileIndex:
        """An index for finding files by name while the user types; the caller starts and closes it."""
        from agentcli.tools.search.file_index import FileIndex

        return FileIndex(self._context())

    async def take_undo_note(self, find: FindMessages) -> UserActionNote | None:
        """One note for the model about undos and redos since the last prompt; None if they cancel each other out.
        `find` returns messages that include those with the given ids and everything after them."""
        news = await self._workspace.take_undo_news()
        paths, self._rewritten = self._rewritten, set()
        paths.update(path for one in news for path in (*one.restored, *one.deleted))
        if paths:
            await in_thread(forget_changed, paths, self._context().read_cache)
        if not news:
            return None
        return undo_note(news, await find([one.prompt_id for one in news]))

    def _note_undo(self, report: UndoReport) -> UndoReport:
        self._rewritten.update(report.touched)
        return report


MAX_WATCHED = 200
"""Maximum watched folders, the latest ones; systems allow a user some thousand watches in all programs."""
_MAX_NAMED = 3


async def wait_for_changes(changed: ChangedFiles, context: ToolContext, without: Collection[str] = ()) -> list[str]:
    """Wait for unreported changes to files that the model has seen, and return their paths. For use between
    submissions; cancel it when one begins. Never returns where nothing can be watched. `without`: files to ignore."""
    known = dict.fromkeys(path for path in reversed(context.read_cache.paths()) if path not in without)

    async def look() -> list[str]:
        # A background command of ours, or a write without a change, is not reported.
        return [path for path in await changed.peek(context) if path in known]

    if folders := await in_thread(_list_folders, known):
        if found := await look():
            return found
        awatch = await in_thread(_load_awatch)
        # In steps of 200 ms: the default of 50 would wake the process twenty times a second.
        pace = {"debounce": 400, "step": 200, "recursive": False, "ignore_permission_denied": True}
        stop = asyncio.Event()
        batches = awatch(*folders, watch_filter=lambda _change, path: path in known, stop_event=stop, **pace)
        try:
            async for _batch in batches:
                if found := await look():
                    return found
        except (OSError, RuntimeError):
            pass  # A folder that has just gone, too many watches, or a file system without support.
        finally:
            stop.set()
            await batches.aclose()
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def _load_awatch() -> Any:
    from watchfiles import awatch

    return awatch


def _list_folders(paths: Iterable[str]) -> list[str]:
    folders = dict.fromkeys(path.rpartition("/")[0] or "/" for path in paths)
    # A missing folder would make watching the others fail.
    return [folder for folder in islice(folders, MAX_WATCHED) if Path(folder).is_dir()]


def describe_changes(paths: Sequence[str], context: ToolContext) -> str:
    """Notice for the user about changed files."""
    names = ", ".join(plain_line(show_path(path, context), 60) for path in paths[:_MAX_NAMED])
    more = f" and {len(paths) - _MAX_NAMED:,} more" if len(paths) > _MAX_NAMED else ""
    return f"Changed since the model saw it: {names}{more}. The model gets the changes with your next prompt."
