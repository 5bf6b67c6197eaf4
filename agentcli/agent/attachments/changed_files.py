"""Report files that the model has seen and others have changed, once per change, as limited diffs.

Before each request every such file is checked with one `stat`; only if that differs is the content hashed, so writes by
our own tools are not reported. A file whose complete diff was shown counts as known; one whose diff was cut or could
not be shown does not, and editing it is refused until it is read.

What the model has seen is saved with the conversation: a line of the session file has the changes since the previous
one; a message that reports changed files has in its meta what the model knows from it, because the process may end
before the next line. Contents are not saved: the log has them if a file was written whole; otherwise a change is
reported without a diff.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Lookup
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen, replace
from agentcli.core.ids import Ids
from agentcli.core.messages import Json, Message, Origin, user_message
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import ToolContext
from agentcli.tools.builtin import absolute_path, shown_path
from agentcli.tools.files.disk import MAX_LOADED_SIZE, load_blocking
from agentcli.tools.files.encoding import decode
from agentcli.tools.files.read_cache import CommandRun, ReadCache, Seen, digest_of

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
_LEAD_COMMAND = "[Files that you have seen changed while your command ran."
_MARKS = " Old lines are marked with -, new ones with +."

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
    during: bool = False
    """Whether it changed while a command of the model ran."""
    named: bool = False
    """Whether that command names the file."""


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
        cache, records, written = context.read_cache, _saved_records(log, lines), _find_written(log, context)
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
        changes = []
        for change in await self._look(state):
            if change.named and change.digest == _GONE:
                cache.forget(change.path)
            else:
                changes.append(change)
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
        context, found = state.tool_context, self._looked_up
        self._looked_up = None
        if found is not None and found[0] is state:
            sweep = found[1]
        elif paths := self._paths(context):
            # An abort during the thread's work changes nothing.
            sweep = await in_thread(lambda: self._sweep(paths, context))
        else:
            return []
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
            # It may edit what its own command wrote, but must read the whole file before replacing it.
            whole = change.seen.whole and not change.named
            cache.note_digest(change.path, change.digest, whole, change.data)
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
        cache, runs = context.read_cache, tuple(context.read_cache.runs)
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
                changes.append(_attribute(change, stamp, runs, str(context.root)))
            if stamp is None or time.time_ns() - stamp[3] > _SETTLED_NANOSECONDS:
                stamps[path] = (stamp, seen.digest)
        return _Sweep(_with_differences(changes, cache) if differences else changes, stamps)


def _saved_records(log: Sequence[Message], lines: Iterable[tuple[str, Json]]) -> dict[str, Json]:
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


def _attribute(change: FileUpdate, stamp: Stamp, runs: Sequence[CommandRun], root: str) -> FileUpdate:
    """Mark a change that happened while a command of the model ran."""
    during = runs_during(change.path, stamp[3] if stamp is not None else None, runs)
    if change.digest == _GONE:
        named = any(names_file_or_folder(run.command, change.path, root) for run in during)
    else:
        named = any(names_file(run.command, change.path) for run in during)
    return replace(change, during=bool(during), named=named)


def _with_differences(changes: Iterable[FileUpdate], cache: ReadCache) -> list[FileUpdate]:
    """The changes, with diffs for the first ones as far as these can be shown."""
    room, shown = MAX_TOLD, 0
    found: list[FileUpdate] = []
    for change in changes:
        if change.what or change.data is None:
            found.append(change)
            continue
        if change.named and cache.content(change.path) is not None:
            found.append(replace(change, what="changed", complete=True))
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
    during = [change for change in changes if change.during]
    others = [change for change in changes if not change.during]
    texts = []
    if during:
        marks = _MARKS if any(change.difference for change in during) else ""
        texts.append(_list(_LEAD_COMMAND + marks, during, context))
    if others:
        texts.append(_list(_LEAD, others, context))
    return "\n\n".join(texts)


def _list(lead: str, changes: Sequence[FileUpdate], context: ToolContext) -> str:
    parts = [lead]
    parts += [f"{_name(change, context)}:\n{change.difference}" for change in changes if change.difference]
    rest = [change for change in changes if not change.difference]
    lines = [f"{_name(change, context)} {change.what}" for change in rest[:MAX_NAMED]]
    if len(rest) > MAX_NAMED:
        lines.append(f"and {counted(len(rest) - MAX_NAMED, 'more file')}")
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "]"


def _name(change: FileUpdate, context: ToolContext) -> str:
    return plain_line(shown_path(change.path, context), 300)


_COARSE_NANOSECONDS = 20_000_000
"""File time stamps use the kernel's last tick, which may be before the command's start."""


def runs_during(path: str, changed_at: int | None, runs: Sequence[CommandRun]) -> list[CommandRun]:
    """The commands that ran when a file changed. `changed_at`: ns since the epoch; None: gone, see its folder."""
    at = changed_at if changed_at is not None else _folder_changed_at(path)
    return [run for run in runs if run.began - _COARSE_NANOSECONDS <= at <= run.ended]


def names_file(command: str, path: str) -> bool:
    return _has_word(command, path.rpartition("/")[2])


def names_file_or_folder(command: str, path: str, root: str) -> bool:
    """Whether a command names a file or a folder that it is in. The root and the folders above it do not count."""
    inner = path.removeprefix(root.rstrip("/") + "/") if path.startswith(root.rstrip("/") + "/") else path
    return any(_has_word(command, part) for part in inner.split("/") if part)


def _has_word(command: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", command) is not None


def _folder_changed_at(path: str) -> int:
    """Change time of the nearest existing parent folder; 0 if there is none."""
    folder = path.rpartition("/")[0]
    while folder:
        try:
            return Path(folder).stat().st_mtime_ns
        except (OSError, ValueError):
            folder = folder.rpartition("/")[0]
    return 0
