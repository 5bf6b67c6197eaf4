"""Find out who wrote each line of a file: a call of a session, or the user. From the snapshots around every call.

The content is followed forward in time through all changes that calls of all sessions made to the file. Lines that a
call added are its own, and lines that differ between two calls are the user's. Lines that move, or come back after an
undo or a switch of branches, keep their origin. Commits play no part: only the content counts.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha1
from pathlib import Path
from typing import Literal

from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.files.access import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen, slotted
from agentcli.core.text.plaintext import show_name
from agentcli.history.states import Change, ChangeOrigin, States, find_origin
from agentcli.session.base import project_dir, sessions_dir
from agentcli.session.timeline import Timeline, read_timeline
from agentcli.workspace.folders import KEEP_SECONDS, SnapshotFolders
from agentcli.workspace.journal import UndoJournal
from agentcli.workspace.merge import MAX_MERGED_SIZE, is_text, list_changes
from agentcli.workspace.restore import OldFile
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import TreeEntry

MAX_LINES = 50_000
_MAX_JOURNAL_SIZE = 64 * 1024 * 1024
_MAX_NAMES = 20
"""Names that a file is followed through."""
_MIN_MOVED = 20
"""Letters and digits of lines that count as moved or restored, as for `git blame -M`; fewer may be equal by chance."""
_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())

Kind = Literal["call", "user", "before", "unknown"]


@frozen
class LineOrigin:
    """Compared by identity: one for each call."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    kind: Kind
    """before: older than the first known change of the file; unknown: the snapshots that tell were deleted."""
    change: ChangeOrigin | None = None
    """For a call. Without a call in it: a call of a sub-agent, or any call of its prompt."""
    is_doubtful: bool = False
    """Whether the user may have changed the file while the call ran."""


@frozen
class Blame:
    path: Path
    lines: Sequence[str]
    """Untrusted."""
    origins: Sequence[LineOrigin]
    """Of each line."""
    names: Sequence[str]
    """Earlier paths of the file, newest first."""


BEFORE, USER, UNKNOWN = LineOrigin("before"), LineOrigin("user"), LineOrigin("unknown")


@slotted
class _Source:
    """A session whose snapshots have a folder around the file."""

    session_id: str
    changes: list[Change]
    last: Mapping[str, str]
    """The last trees of its folders."""
    ended: str
    """Time of its last change, for a session whose file was deleted."""
    timeline: Timeline | None = None


@slotted
class _Step:
    """A change that may have touched the file."""

    source: _Source
    number: int
    """Its place among the changes of the session."""
    root: Path
    name: str
    """Of the file, relative to the folder."""
    before: str
    """Id of its content; "" if it did not exist."""
    after: str
    is_lost: bool
    """Whether one of the snapshots was deleted, so that nothing is known."""
    origin: ChangeOrigin = field(default_factory=lambda: ChangeOrigin(""))
    key: tuple[str, str, int] = ("", "", 0)
    """For the order in time."""

    @property
    def change(self) -> Change:
        return self.source.changes[self.number]

    def find_author(self) -> LineOrigin:
        is_doubtful = False
        for changes in self.change.record.user_changes_in(str(self.root)):
            if self.name in changes.files and changes.files[self.name][1].oid == self.after:
                is_doubtful = True
                if not changes.doubtful:
                    return USER
        return USER if self.change.kind == "user" else LineOrigin("call", self.origin, is_doubtful)


async def blame(path: Path, state_dir: Path, folders: SnapshotFolders) -> Blame:
    """`path`: absolute, without links. Raises `AgentError`, `SnapshotError` and OSError."""
    content = await in_thread(lambda: read_text(path))
    sources = await in_thread(lambda: list(_find_sources(path, state_dir)))
    has_lost = await in_thread(lambda: _has_lost_sessions(path, state_dir))
    if not sources and not has_lost:
        raise AgentError(f"No session has changed files in a folder around {show_name(str(path))}.")
    search = _Search(state_dir, folders, sources)
    steps, names = await search.follow(path)
    contents = await search.read_contents(steps)
    first = UNKNOWN if has_lost else BEFORE
    if not steps and await search.is_new(path):
        first = USER
    lines = await in_thread(lambda: _trace(steps, contents, content, first))
    return Blame(path, [line.decode("utf-8", "replace") for line in lines.lines], lines.origins, names)


def _trace(steps: Sequence[_Step], contents: Mapping[str, list[bytes]], content: bytes, first: LineOrigin) -> _Lines:
    lines = _Lines(first)
    for step in steps:
        if step.is_lost:
            lines.is_known = False
            continue
        lines.move(step.before, contents[step.before], lines.between)
        lines.move(step.after, contents[step.after], step.find_author())
        lines.is_known = True
    oid = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    lines.move(oid, _split(content), lines.between)
    return lines


def read_text(path: Path) -> bytes:
    """The content of a file that has lines. Raises `AgentError`."""
    content = read_bounded(path, MAX_MERGED_SIZE)
    if isinstance(content, Unread):
        limit = f" (the limit is {MAX_MERGED_SIZE >> 20} MB)" if content.reason is Reason.TOO_LARGE else ""
        problem = f"cannot be read: {content.detail or content.reason.value}{limit}"
    elif not is_text(content):
        problem = "is a binary file, so it has no lines to show"
    elif content.count(b"\n") > MAX_LINES:
        problem = f"has more than {MAX_LINES:,} lines"
    else:
        return content
    raise AgentError(f"{show_name(str(path))} {problem}.")


def parse_place(text: str, cwd: Path) -> tuple[Path, int, int | None]:
    """Parse `FILE[:LINES]`: the path, the first line and the last one. Raises `UsageError`."""
    name, _colon, lines = text.rpartition(":")
    first, last = 1, None
    if not name or os.path.lexists(cwd / text):
        name = text
    else:
        found = re.fullmatch(r"([1-9]\d{0,8})(?:[-,](\d{1,9}))?", lines)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise UsageError(f"{show_name(lines)} is not a range of lines. Write FILE:12 or FILE:10-20.")
        first, last = int(found[1]), int(found[2] or found[1])
    if "\n" in name:
        raise UsageError("Files with a line break in their name cannot be followed.")
    return Path(os.path.realpath(cwd / Path(name).expanduser())), first, last


def _split(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _find_sources(path: Path, state_dir: Path) -> Iterator[_Source]:
    """The sessions with snapshots of a folder around the file, in the order in which they ended. Blocking."""
    roots = [str(parent) for parent in path.parents]
    needles = [json.dumps(root).encode() for root in roots]
    last: dict[str, str] = {}
    journals = (state_dir / "snapshots" / "sessions").glob("*.jsonl")
    for journal_path in sorted(journals, key=lambda path: path.stat().st_mtime_ns):
        data = read_bounded(journal_path, _MAX_JOURNAL_SIZE) or b""
        if not any(needle in data for needle in needles):
            continue
        journal = UndoJournal(journal_path)
        journal.load()
        states = States(journal.submissions)
        changes = [one for one in states.changes if not one.trees.keys().isdisjoint(roots)]
        # What the user did between two sessions.
        since = {root: (last[root], tree) for root, tree in states.first.items() if last.get(root, tree) != tree}
        if since:
            changes.insert(0, Change("user", journal.submissions[0], since))
        last |= states.trees(len(states.changes))
        ended = datetime.fromtimestamp(journal_path.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
        yield _Source(journal_path.stem, changes, states.trees(len(states.changes)), ended)


def _has_lost_sessions(path: Path, state_dir: Path) -> bool:
    """Whether a session in a folder around the file is so old that its snapshots were deleted. Blocking."""
    oldest = time.time() - KEEP_SECONDS
    journals = state_dir / "snapshots" / "sessions"
    for folder in path.parents:
        for session in project_dir(state_dir, folder).glob("*.jsonl"):
            if session.stat().st_mtime < oldest and not (journals / session.name).exists():
                return True
    return False


class _Search:
    """Finds the changes of a file, and follows it through its names."""

    def __init__(self, state_dir: Path, folders: SnapshotFolders, sources: Sequence[_Source]) -> None:
        self._state_dir = state_dir
        self._folders = folders
        self._sources = sources

    async def follow(self, path: Path) -> tuple[list[_Step], list[str]]:
        """The changes in the order of time, and earlier names of the file, newest first."""
        names: list[str] = []
        steps: list[_Step] = []
        while True:
            found = [step for step in await self._find_steps(path) if not steps or step.key < steps[0].key]
            for place in range(len(found) - 1, -1, -1):
                step = found[place]
                if step.is_lost or step.before or len(names) >= _MAX_NAMES:
                    continue
                shadow, (before, after) = await self._folders.shadow(step.root), step.change.trees[str(step.root)]
                if old := await shadow.find_old_name(before, after, step.name):
                    [step.before] = await shadow.find_objects([f"{before}:{old}"], "blob")
                    path = step.root / old
                    names.append(str(path))
                    steps[:0] = [step, *filter(_is_followed, found[place + 1 :])]
                    break
            else:
                return [*filter(_is_followed, found), *steps], names

    async def _find_steps(self, path: Path) -> list[_Step]:
        steps: list[_Step] = []
        for root in path.parents:
            places = [
                (source, number, change.trees[str(root)])
                for source in self._sources
                for number, change in enumerate(source.changes)
                if str(root) in change.trees
            ]
            if not places:
                continue
            shadow, name = await self._folders.shadow(root), path.relative_to(root).as_posix()
            trees = list(dict.fromkeys(tree for _source, _number, pair in places for tree in pair))
            exists = dict(zip(trees, await shadow.find_objects(trees, "tree"), strict=True))
            found = await shadow.find_objects([f"{tree}:{name}" for tree in trees], "blob")
            blobs = dict(zip(trees, found, strict=True))
            for source, number, (before, after) in places:
                is_lost = not exists[before] or not exists[after]
                step = _Step(source, number, root, name, blobs[before], blobs[after], is_lost)
                if step.is_lost or step.before != step.after:
                    steps.append(step)
        return await in_thread(lambda: self._put_in_order(steps))

    def _put_in_order(self, steps: Sequence[_Step]) -> list[_Step]:
        """Blocking. A copied session has the changes of its source too: they are listed once."""
        latest: dict[str, str] = {}
        for step in sorted(steps, key=lambda step: step.number):
            timeline, change = self._read_timeline(step.source), step.change
            step.origin = find_origin(timeline, change.record.prompt_id, change.call_id)
            at = latest[timeline.session_id] = max(
                step.origin.at or step.source.ended, latest.get(timeline.session_id, "")
            )
            step.key = (at, timeline.began, step.number)
        found = sorted(steps, key=lambda step: step.key, reverse=True)
        once = {(one.change.record.prompt_id, one.change.call_id, one.before, one.after): one for one in found}
        return list(once.values())[::-1]

    def _read_timeline(self, source: _Source) -> Timeline:
        if source.timeline is None:
            id = source.session_id
            found = next(sessions_dir(self._state_dir).glob(f"*/{id}.jsonl"), None)
            source.timeline = Timeline(id, Path()) if found is None else read_timeline(found)
        return source.timeline

    async def is_new(self, path: Path) -> bool:
        """Whether the last snapshots of a folder around the file do not have it. Raises `AgentError` if none can."""
        for root in path.parents:
            tree = next((one.last[str(root)] for one in reversed(self._sources) if str(root) in one.last), "")
            if tree:
                shadow, name = await self._folders.shadow(root), path.relative_to(root).as_posix()
                if not await shadow.holds(tree) or await shadow.entries(tree, [name]):
                    return False
                if await shadow.list_ignored([name]):
                    raise AgentError(f"{show_name(str(path))} is in no snapshot, because git ignores it.")
                return True
        return False

    async def read_contents(self, steps: Sequence[_Step]) -> Mapping[str, list[bytes]]:
        """The lines of the contents before and after these changes by id."""
        contents: dict[str, list[bytes]] = {"": []}
        for root in {step.root for step in steps}:
            near = [one for one in steps if one.root == root and not one.is_lost]
            oids = {oid for one in near for oid in (one.before, one.after)} - contents.keys()
            contents |= await _read_blobs(await self._folders.shadow(root), sorted(oids))
        return contents


def _is_followed(step: _Step) -> bool:
    """The user's changes show themselves in the content before the next call."""
    return step.is_lost or step.change.kind != "user"


async def _read_blobs(shadow: Shadow, oids: Sequence[str]) -> dict[str, list[bytes]]:
    """Equal lines of all of them are one object: versions of a file differ in few lines."""
    lines: dict[bytes, bytes] = {}
    contents: dict[str, list[bytes]] = {}

    def add(files: Sequence[OldFile]) -> None:
        for file in files:
            found = _split(file.content) if is_text(file.content) else []
            contents[file.path] = [lines.setdefault(line, line) for line in found]

    async for batch in shadow.old_files({oid: TreeEntry("100644", oid) for oid in oids}):
        await in_thread(partial(add, batch))
    return contents


class _Lines:
    """The lines of the file at one moment, with their origins."""

    def __init__(self, first: LineOrigin) -> None:
        self.lines: list[bytes] = []
        self.origins: list[LineOrigin] = []
        self._first = first
        self.is_known = first is not UNKNOWN
        """Whether all changes since the last move were the user's."""
        self._known: dict[str, list[LineOrigin]] = {}
        """By id of a content."""
        self._removed: dict[bytes, list[LineOrigin]] = {}
        """Origins of the lines that were removed."""

    @property
    def between(self) -> LineOrigin:
        """The origin of lines that no known change has added."""
        return UNKNOWN if not self.is_known else USER if self._known else self._first

    def move(self, oid: str, lines: list[bytes], added: LineOrigin) -> None:
        """Go on to another content. `added`: origin of its new lines."""
        hunks = list_changes(self.lines, lines)
        for hunk in hunks:
            span = slice(hunk.start, hunk.end)
            for line, origin in zip(self.lines[span], self.origins[span], strict=True):
                self._removed.setdefault(line, []).append(origin)
        origins: list[LineOrigin] = []
        new: list[bytes] = []
        at = 0
        for hunk in hunks:
            if hunk.start > at:
                origins += [*self._restore(new, added), *self.origins[at : hunk.start]]
                new = []
            new += hunk.lines
            at = hunk.end
        origins += [*self._restore(new, added), *self.origins[at:]]
        self.lines, self.origins = lines, self._known.setdefault(oid, origins)

    def _restore(self, lines: Sequence[bytes], added: LineOrigin) -> list[LineOrigin]:
        """The origins of added lines: those of removed ones, if enough of them return together."""
        origins: list[LineOrigin] = []
        run: list[bytes] = []
        counts: Counter[bytes] = Counter()
        for line in (*lines, None):
            if line is not None and len(self._removed.get(line, ())) > counts[line]:
                run.append(line)
                counts[line] += 1
                continue
            is_moved = len(b"".join(run).translate(None, _SIGNS)) >= _MIN_MOVED
            origins += [self._removed[one].pop() if is_moved else added for one in run]
            origins += [added] if line is not None else []
            run, counts = [], Counter()
        return origins
