"""/diff: show the agent's changes in this session or of the last prompt, or all changes since git's HEAD."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.messages import clean_text
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import terminal_line, terminal_text
from agentcli.core.text.unified_diff import FileDiff, parse_files, split_files
from agentcli.workspace.base import DiffScope, FileChange, FolderDiff, WorkspaceDiff

ARGUMENTS: Mapping[str, DiffScope] = {"": "session", "last": "prompt", "all": "all"}
USAGE = (
    "/diff shows what agentcli changed in this session, /diff last what the last prompt changed, "
    "/diff all every change since HEAD."
)
WHERE: Mapping[DiffScope, str] = {
    "session": "in this session",
    "prompt": "by the last prompt",
    "all": "since HEAD",
}
NOTHING: Mapping[DiffScope, str] = {
    "session": "agentcli has not changed any files in this session. /diff all compares with HEAD.",
    "prompt": "The last prompt has not changed any files.",
    "all": "No file differs from HEAD.",
}
CUT = "The rest of the diff is not shown: it is longer than 32 MB."
_GONE = "deleted since, not by agentcli"
_DONE = {"modified": "changed", "added": "new file", "deleted": "deleted"}
_SIGNS = {"modified": "M", "added": "A", "deleted": "D", "renamed": "R", "copied": "C"}


@frozen
class ChangedFile:
    name: str
    """Path for display, relative to the working directory if it is inside. Safe to show."""
    diff: FileDiff
    """Parsed diff. Its text is safe to show."""
    source: str = ""
    """The unified diff as git wrote it, which can be applied. Not safe to show."""
    note: str = ""
    """Remark besides the changed lines. Safe to show."""
    counts: tuple[int, int] = (0, 0)
    """Lines added and removed."""

    @property
    def sign(self) -> str:
        return _SIGNS[self.diff.state]

    @property
    def numbers(self) -> str:
        """`+3 −1`; "" if no lines can be counted."""
        return f"+{self.counts[0]} −{self.counts[1]}" if self.diff.hunks else ""

    @property
    def remarks(self) -> str:
        known = self.diff.remarks() if self.source else [_DONE[self.diff.state]]
        return ", ".join([*(terminal_line(one) for one in known), *([self.note] if self.note else [])])


@frozen
class Changes:
    files: tuple[ChangedFile, ...] = ()
    problem: str = ""
    cut: bool = False

    @property
    def added(self) -> int:
        return sum(file.counts[0] for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.counts[1] for file in self.files)


async def load_changes(engine: Engine, scope: DiffScope) -> Changes:
    """The changes of a scope, file by file, for every front end."""
    found = await engine.files.diff(scope)
    if not found.folders:
        return Changes(problem=found.problem)
    return await asyncio.to_thread(sort_changes, found, engine.working_dirs[0])


def sort_changes(found: WorkspaceDiff, home: Path) -> Changes:
    """The changes file by file. `home`: the folder to which names are relative. Blocking."""
    files = [file for folder in found.folders for file in _files(folder, _prefix(folder, home, len(found.folders)))]
    return Changes(tuple(files), found.problem, any(folder.cut for folder in found.folders))


def _prefix(folder: FolderDiff, home: Path, count: int) -> str:
    """Prefix for the displayed paths of a folder's files."""
    root = Path(folder.root)
    if root == home or (count == 1 and home.is_relative_to(root)):
        return ""
    return f"{os.path.relpath(root, home) if root.is_relative_to(home) else root}/"


def _files(folder: FolderDiff, prefix: str) -> list[ChangedFile]:
    notes = {os.path.relpath(one.path, folder.root): one for one in folder.notes}
    files = []
    for source in split_files(folder.text):
        parsed = parse_files(terminal_text(clean_text(source)))
        if not parsed:
            continue
        note = notes.pop(parsed[0].path, None)
        said = terminal_line(note.note) if note is not None else ""
        if not said and _is_gone(folder.root, parsed[0]):
            said = _GONE
        files += [
            ChangedFile(_name(prefix + one.path), one, source, said, (one.added, one.removed))
            for one in parsed
            if one.path
        ]
    return [*files, *(_without_lines(prefix + path, note) for path, note in notes.items())]


def _is_gone(root: str, file: FileDiff) -> bool:
    """Whether a changed file was deleted after the change. A name that is not shown as it is counts as existing."""
    is_plain = file.path == terminal_line(file.path) and "\ufffd" not in file.path
    is_known = file.state != "deleted" and is_plain and os.path.isdir(root)  # noqa: PTH112
    return is_known and not os.path.lexists(os.path.join(root, file.path))  # noqa: PTH118


def _without_lines(path: str, note: FileChange) -> ChangedFile:
    return ChangedFile(_name(path), FileDiff(path, state=note.kind), note=terminal_line(note.note))


def _name(path: str) -> str:
    return terminal_line(path.encode("utf-8", "replace").decode())


def format_heading(changes: Changes, scope: DiffScope) -> str:
    """`2 files changed in this session, +3 −1`."""
    count = counted(len(changes.files), "file")
    return f"{count} changed {WHERE[scope]}, +{changes.added} −{changes.removed}"


def list_files(changes: Changes) -> list[str]:
    """A line for each file."""
    rows = []
    for file in changes.files:
        facts = [fact for fact in (file.numbers, file.remarks) if fact]
        rows.append(f"  {file.sign} {file.name}" + (f"  {', '.join(facts)}" if facts else ""))
    return rows


def text_of(changes: Changes, scope: DiffScope) -> str:
    """Everything as plain text: the files, then the unified diff. Safe to show."""
    parts = [f"{format_heading(changes, scope)}:", *list_files(changes), ""]
    parts += [show_diff(file).rstrip("\n") for file in changes.files if file.source]
    return "\n".join([*parts, CUT] if changes.cut else parts).rstrip()


def show_diff(file: ChangedFile) -> str:
    """The diff as text, without carriage returns at line ends if every line has one."""
    lines = sum(bool(line.sign) for hunk in file.diff.hunks for line in hunk.lines)
    text = file.source.replace("\r\n", "\n") if file.source.count("\r\n") == lines else file.source
    return terminal_text(clean_text(text))


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Compares files with the snapshots taken before each change. It leaves out your own changes and needs no git
    repository. In the app: f F next and previous file, h H hunk, o list of files, v side by side or unified, a all
    changes since HEAD, l the last prompt only, / search, c copy the file's diff, C copy all.

    /diff       show what agentcli changed in this session
    /diff last  show what the last prompt changed
    /diff all   show all changes since HEAD, including yours and untracked files
    """
    scope = ARGUMENTS.get(arguments)
    if scope is None:
        raise UsageError(USAGE)
    if front_end.has_pages:
        await front_end.page("diff", engine, scope)
        return None
    changes = await load_changes(engine, scope)
    if changes.problem:
        raise UsageError(changes.problem)
    return await asyncio.to_thread(text_of, changes, scope) if changes.files else NOTHING[scope]
