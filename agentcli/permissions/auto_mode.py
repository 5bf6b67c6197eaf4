"""Commands that need approval in auto mode although the sandbox contains them, because undo does not cover them.

In auto mode a command runs without approval because it can only change the working directories, which undo
covers, and has no network. Undo does not cover git's own folder, and removing many files is rarely intended, so
both need approval. Uses the loose parser, which also sees programs inside `bash -c`, loops and substitutions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.core.files.real_path import is_below
from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.permissions.commands.rebuildable import Rebuildable, finds_only_caches
from agentcli.permissions.git.subcommand import subcommand_index
from agentcli.permissions.paths import expanded_pattern
from agentcli.permissions.protected_names import needs_asking
from agentcli.permissions.shell.loose_parser import loose_segments
from agentcli.permissions.shell.syntax_tree import shortened

MOST_REMOVED = 10
"""Files that one command may remove without approval."""
_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "trash"})
_LEADS_AWAY = lazy_pattern(r"(?:\$\{?(?:TMPDIR|TMP|TEMP|HOME)\}?|~)(?:/|$)")
_RUN_FROM = lazy_pattern(r"(?:^|/)(?:bin|Scripts|\.bin)(?:/|$)|(?:^|/)(?:site|dist)-packages(?:/|$)")
"""Folders that hold the project's executables. A command usually names one to run a program in it, not to write it."""
_REWRITES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (why, lazy_pattern(pattern))
    for why, pattern in (
        ("rewrites commits", r"rebase(?! --(?:abort|quit|show-current-patch))|filter-branch|filter-repo|replace\b"),
        ("rewrites the last commit", r"commit\b.*\s--amend\b"),
        ("moves the branch to another commit", r"reset\b.*\s(?:--hard|--merge|--keep|--soft|--mixed)\b"),
        ("moves the branch to another commit", r"reset (?:-\S+ )*(?:HEAD|ORIG_HEAD|@)[~^@{]"),
        ("removes untracked files", r"clean\b.*\s(?:-[a-zA-Z]*f|--force)"),
        ("deletes a branch", r"branch\b.*\s(?:-[a-zA-Z]*D|-f|--force|-M|-C)\b"),
        ("deletes a tag", r"tag\b.*\s(?:-d|--delete|-f|--force)\b"),
        ("deletes stashed work", r"stash (?:drop|clear)\b"),
        (
            "permanently removes commits",
            r"reflog (?:expire|delete)|gc\b.*--prune|prune\b|update-ref\b|symbolic-ref \S+ \S",
        ),
        ("force-overwrites branches", r"(?:checkout|switch)\b.*\s-[BC]\b"),
        ("force-overwrites the remote", r"push\b.*\s(?:-f|--force\S*|--mirror|--delete|-d|\+\S+|:\S+)(?:\s|$)"),
        (
            "changes git's settings",
            r"config (?!--get|--list|-l\b|get\b|list\b|[\w.-]+$)|remote (?:add|set-url|rename|remove|rm)\b",
        ),
        ("changes git's settings", r"submodule (?:add|init|update|sync|set-url|set-branch|deinit)\b"),
    )
)


@frozen
class Objection:
    """Reason why a sandboxed command still needs approval."""

    clause: str
    part: str = ""
    """The part of the command that needs approval, if the command has several."""


def objection(command: str, cwd: Path, rebuildable: Rebuildable) -> Objection | None:
    """Return the reason why a sandboxed command needs approval; None if it may run."""
    for segment in loose_segments(command):
        words = segment.text.split(" ")
        starts = range(len(words)) if segment.anywhere else range(1)
        for start in starts:
            program = words[start].rpartition("/")[2]
            rest = words[start + 1 :]
            if program == "git":
                reason = _git(rest)
            elif program in _REMOVERS:
                reason = _removal(rest, cwd, rebuildable)
            elif program == "find":
                removes = "-delete" in rest or any(word.rpartition("/")[2] in _REMOVERS for word in rest)
                removes = removes and not finds_only_caches(rest)
                reason = f"find can remove more than {MOST_REMOVED} files" if removes else None
            elif program == "xargs":
                removes = any(word.rpartition("/")[2] in _REMOVERS for word in rest)
                reason = f"xargs can remove more than {MOST_REMOVED} files" if removes else None
            elif program == "rsync":
                removes = any(word.startswith(("--delete", "--remove-source")) for word in rest)
                reason = "rsync removes files" if removes else None
            elif program == "mv":
                reason = _moved_away(rest, cwd)
            else:
                continue
            if reason is not None:
                several = re.search(r"[;&|\n]", command.strip()) is not None
                return Objection(reason, shortened(" ".join(words[start:])) if several else "")
    return None


def obeyed_name(words: Iterable[str]) -> str | None:
    """Return a reason if a command names a file that hooks, editors, builds or package managers obey.

    A sandboxed command could write such a file without approval.
    """
    for word in words:
        components = [component for component in word.lower().split("/") if component not in ("", ".", "..")]
        if components and needs_asking(components) and not _RUN_FROM.search(word):
            return f"it names {word}, which other programs run or obey"
    return None


def _git(words: Sequence[str]) -> str | None:
    rest = words[subcommand_index(("git", *words)) - 1 :]
    found = next((why for why, pattern in _REWRITES if pattern.match(" ".join(rest))), None)
    return f"git {rest[0]} {found}" if found else None


def _removal(words: Sequence[str], cwd: Path, rebuildable: Rebuildable) -> str | None:
    targets = [word for word in words if word and not word.startswith("-")]
    count = 0
    for target in targets:
        names = expanded_pattern(target, str(cwd)) if re.search(r"[*?\[]", target) else [target]
        if names is None:
            return f"{target} may match more than {MOST_REMOVED} files"
        for name in names:
            inside = _files_in(os.path.join(cwd, name))  # noqa: PTH118
            if count + inside > MOST_REMOVED and rebuildable.covers(name, cwd):
                continue
            count += inside
            if inside > MOST_REMOVED:
                return f"it removes the folder {name} with more than {MOST_REMOVED} files"
            if count > MOST_REMOVED:
                return f"it removes more than {MOST_REMOVED} files"
    return None


def _moved_away(words: Sequence[str], cwd: Path) -> str | None:
    """Treat a move out of the project as a removal: the temp folder is deleted at the end of the session."""
    operands = [word for word in words if word and not word.startswith("-")]
    target = operands[-1] if len(operands) > 1 else ""
    inside = os.path.normpath(os.path.join(cwd, target))  # noqa: PTH118
    stays = is_below(inside, (str(cwd),)) and not _LEADS_AWAY.match(target)
    if not target or stays or not any(map(os.path.lexists, (cwd / o for o in operands[:-1]))):
        return None
    return f"it moves files out to {target}"


def _files_in(path: str) -> int:
    """Number of files below a path, counted up to the limit."""
    if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
        return 1
    count, waiting = 0, [path]
    while waiting and count <= MOST_REMOVED:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > MOST_REMOVED:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return count
