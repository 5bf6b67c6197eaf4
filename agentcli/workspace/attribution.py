"""Attribution of changes between two snapshots to the user or to a tool call.

The process that wrote a file is unknown. Known are the time of the change and the files that a call can change.
Reads trees; changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from agentcli.core.frozen import slotted
from agentcli.core.messages import Json
from agentcli.workspace.base import Snapshot
from agentcli.workspace.journal import SubmissionRecord, UserChanges
from agentcli.workspace.listing import is_ignore_file
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import Difference

IsChange = Callable[[str, Difference], bool]
"""A predicate on a path and its change."""
_WORD = re.compile(r"[\w.+@%~/-]+")
_MAX_TEXT_LENGTH = 100_000
"""Maximum characters of a call's input that are searched for file names."""


@slotted
class NamedFiles:
    """Files named by calls, as a path or as a word in a command."""

    paths: set[str] = field(default_factory=set)
    """Absolute paths."""
    _words: dict[str, set[str]] = field(default_factory=dict)
    """Words that may be paths, by their last component."""
    texts: list[str] = field(default_factory=list)

    def add_input(self, input: Json) -> None:
        text = "\n".join(_strings(input))[:_MAX_TEXT_LENGTH]
        self.texts.append(text)
        for word in _WORD.findall(text):
            name = os.path.normpath(word).removeprefix("../")
            self._words.setdefault(name.rpartition("/")[2], set()).add(name)

    def has(self, root: str, path: str) -> bool:
        """Whether a file has been named; `path` is relative to the folder `root`."""
        whole = os.path.join(root, path)  # noqa: PTH118
        if whole in self.paths:
            return True
        last = path.rpartition("/")[2]
        if any(whole == word or whole.endswith(f"/{word}") for word in self._words.get(last, ())):
            return True
        return _WORD.fullmatch(last) is None and any(last in text for text in self.texts)


@slotted
class UserCommand:
    only: Sequence[str] | None
    """Absolute paths that it may change, including everything below them; None: any file."""
    named: NamedFiles

    @classmethod
    def of(cls, command: str, only: Sequence[str] | None) -> UserCommand:
        named = NamedFiles()
        named.add_input({"command": command})
        return cls(only, named)

    def joined(self, later: UserCommand) -> UserCommand:
        """Both commands as one."""
        named = NamedFiles()
        for one in (self.named, later.named):
            named.add_input({"command": "\n".join(one.texts)})
        only = None if self.only is None or later.only is None else (*self.only, *later.only)
        return UserCommand(only, named)

    def names(self, root: str, path: str) -> bool:
        if self.only is None:
            return self.named.has(root, path)
        return _is_below(f"{root}/{path}", self.only)


async def find_authors(
    shadow: Shadow, record: SubmissionRecord, begun: Snapshot, named: NamedFiles, line: UserCommand | None
) -> tuple[IsChange, IsChange]:
    """Attribute changes made during a call that may change any file and has `named` some. Returns two predicates:
    whether the user made a change, and whether the user may have made it.

    A file that the user's own command names (`line`) was changed by the user. The user may have changed files that they
    were already editing, and files from before the submission that no call has named, because users type while a long
    command runs. Other new or removed files belong to the call, unless a command of the user may change any file too.
    """
    root = str(shadow.root)
    known = {path for one in record.user_changes_in(root) if not one.doubtful for path in one.files}
    since = await shadow.compare(record.before[root].tree, begun.tree) if root in record.before else {}

    def is_users(path: str, _one: Difference) -> bool:
        return line is not None and line.names(root, path) and not named.has(root, path)

    def may_be_users(path: str, one: Difference) -> bool:
        if is_users(path, one):
            return False
        if path in known or (line is not None and line.names(root, path)):
            return True
        if named.has(root, path):
            return False
        if line is not None and line.only is None:
            return True
        return one.before.exists and one.after.exists and not (path in since and not since[path].before.exists)

    return is_users, may_be_users


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    return [text for one in value for text in _strings(one)] if isinstance(value, list) else []


async def users_changes(
    shadow: Shadow,
    span: tuple[Snapshot, Snapshot],
    forced: Collection[str],
    among: Callable[[str, Difference], bool] | None,
    except_below: Sequence[str] | None,
) -> UserChanges:
    """The user's changes in one folder.

    `forced`: paths that are in snapshots because a call named them; `among`: accepts files that can be the user's;
    `except_below`: absolute paths that cannot, including everything below.
    """
    before, after = span
    changes = UserChanges()
    found = await shadow.compare(before.tree, after.tree)
    # An ignored file is in snapshots only after a call has named it, but it existed before.
    appeared = [path for path, one in found.items() if path in forced and not one.before.exists]
    hidden = await shadow.list_ignored(appeared)
    not_theirs = _make_relative(shadow, except_below or ())
    if except_below is not None and any(is_ignore_file(path) for path in found):
        # A call changed the ignore rules, so that files which existed all along become visible.
        hidden |= {path for path, one in found.items() if not one.before.exists}
    for path, one in found.items():
        if path in hidden or path in before.uncovered or path in after.uncovered or before.is_foreign(path):
            continue
        if (among is None or among(path, one)) and not _is_below(path, not_theirs):
            changes.files[path] = (one.before, one.after)
    if among is None:
        changes.made = sorted(name for name in after.empty - before.empty if not _is_below(name, not_theirs))
        changes.gone = sorted(name for name in before.empty - after.empty if not _is_below(name, not_theirs))
    return changes


def _make_relative(shadow: Shadow, paths: Sequence[str]) -> list[str]:
    root = str(shadow.root)
    return [os.path.relpath(path, root) for path in paths]


def _is_below(path: str, others: Sequence[str]) -> bool:
    return any(other == "." or path == other or path.startswith(f"{other}/") for other in others)
