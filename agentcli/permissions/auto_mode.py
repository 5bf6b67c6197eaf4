"""Commands that need approval in auto mode although the sandbox contains them, because undo does not cover them.

In auto mode a command runs without approval because it can only change the working directories, which undo
covers, and has no network. Undo does not cover git's branches, stashes and operations in progress, and removing many
files is rarely intended, so these need approval. Uses the loose parser, which also sees programs inside `bash -c`,
loops and substitutions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.commands.removal import Rebuildable, finds_only_caches
from agentcli.shell.git_config import subcommand_index
from agentcli.shell.parser.loose_parser import loose_segments
from agentcli.shell.parser.syntax_tree import shorten_source
from agentcli.shell.paths import expand_pattern
from agentcli.shell.protected_names import needs_asking

MAX_REMOVED = 10
"""Files that one command may remove without approval."""
_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "trash"})
_LEADS_AWAY = lazy_pattern(r"(?:\$\{?(?:TMPDIR|TMP|TEMP|HOME)\}?|~)(?:/|$)")
_RUN_FROM = lazy_pattern(r"(?:^|/)(?:bin|Scripts|\.bin)(?:/|$)|(?:^|/)(?:site|dist)-packages(?:/|$)")
"""Folders that hold the project's executables. A command usually names one to run a program in it, not to write it."""
_UNSTAGES = r"(?: -q| --quiet| -p| --patch)*(?: (?:HEAD|@)(?: [^-\s]\S*)*)?(?: -- .*)?"
"""Operands of `git reset` that name no other commit: undo covers git's index."""
_REWRITES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (why, lazy_pattern(pattern))
    for why, pattern in (
        ("discards an operation in progress", r"(?:rebase|merge|cherry-pick|revert|am)\b.*\s--(?:ab|q(?!uiet)|sk)"),
        ("rewrites commits", r"rebase\b|filter-branch|filter-repo|replace\b"),
        ("rewrites the last commit", r"commit\b.*\s--am"),
        ("moves the branch to another commit", rf"reset\b(?!{_UNSTAGES}$)"),
        ("removes untracked files", r"clean\b.*\s(?:-[a-zA-Z]*f|--f)"),
        ("changes or deletes a branch", r"branch\b.*\s(?:-[a-zA-Z]*[dDmMcCf]|--(?:d|f(?!ormat)|mo|cop))"),
        ("deletes a tag", r"tag\b.*\s(?:-[a-zA-Z]*[df]|--(?:d|f(?!ormat)))"),
        ("deletes stashed work", r"stash (?:drop|clear|pop)\b"),
        ("deletes notes or worktrees", r"notes (?:remove|prune|merge|copy)\b|worktree (?:remove|prune|move)\b"),
        (
            "permanently removes commits",
            r"reflog (?:expire|delete)|gc\b|prune\b|remote (?:prune|update)\b|update-ref\b|symbolic-ref \S+ \S",
        ),
        ("force-overwrites branches", r"(?:checkout|switch)\b.*\s(?:-[a-zA-Z]*[BC]|--force-c)"),
        ("force-overwrites branches", r"(?:fetch|pull)\b.*\s(?:-[a-zA-Z]*[fp]|--f(?!f)|--pr(?!og)|\+\S)"),
        ("force-overwrites the remote", r"push\b.*\s(?:-[a-zA-Z]*[fd]|--f(?!ol)|--mi|--d(?!ry)|--pr(?!og)|\+\S|:\S)"),
        (
            "changes git's settings",
            r"config (?!--get|--list|-l\b|get\b|list\b|[\w.-]+$)|remote (?:add|set-url|rename|remove|rm)\b",
        ),
        ("changes git's settings", r"submodule (?:add|init|update|sync|set-url|set-branch|deinit)\b"),
    )
)
"""Git accepts the beginning of a long option."""
_CONTINUES = lazy_pattern(r"(?:checkout|switch|reset|commit|stash|merge|pull|cherry-pick|revert|am|bisect)\b")
"""Git commands that end or replace an operation in progress, besides those in `_REWRITES`."""
_IN_PROGRESS = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer"),
)


@frozen
class Objection:
    """Reason why a sandboxed command still needs approval."""

    clause: str
    part: str = ""
    """The part of the command that needs approval, if the command has several."""


def objection(command: str, cwd: Path, rebuildable: Rebuildable) -> Objection | None:
    """Return the reason why a sandboxed command needs approval; None if it may run."""
    folders = [cwd]
    for segment in loose_segments(command):
        words = segment.text.split(" ")
        starts = range(len(words)) if segment.anywhere else range(1)
        for start in starts:
            program = words[start].rpartition("/")[2]
            rest = words[start + 1 :]
            folders += [cwd / folder for option, folder in pairwise(words[start:]) if option in ("cd", "pushd", "-C")]
            if program == "git":
                reason = _git(rest, folders)
            elif program in _REMOVERS:
                reason = _removal(rest, cwd, rebuildable)
            elif program == "find":
                removes = "-delete" in rest or any(word.rpartition("/")[2] in _REMOVERS for word in rest)
                removes = removes and not finds_only_caches(rest)
                reason = f"find can remove more than {MAX_REMOVED} files" if removes else None
            elif program == "xargs":
                removes = any(word.rpartition("/")[2] in _REMOVERS for word in rest)
                reason = f"xargs can remove more than {MAX_REMOVED} files" if removes else None
            elif program == "rsync":
                removes = any(word.startswith(("--delete", "--remove-source")) for word in rest)
                reason = "rsync removes files" if removes else None
            elif program == "mv":
                reason = _find_moved_away(rest, cwd)
            else:
                continue
            if reason is not None:
                several = re.search(r"[;&|\n]", command.strip()) is not None
                return Objection(reason, shorten_source(" ".join(words[start:])) if several else "")
    return None


def find_obeyed_name(words: Iterable[str]) -> str | None:
    """Return a reason if a command names a file that hooks, editors, builds or package managers obey.

    A sandboxed command could write such a file without approval.
    """
    for word in words:
        components = [component for component in word.lower().split("/") if component not in ("", ".", "..")]
        if components and needs_asking(components) and not _RUN_FROM.search(word):
            return f"it names {word}, which other programs run or obey"
    return None


def _git(words: Sequence[str], folders: Iterable[Path]) -> str | None:
    rest = words[subcommand_index(("git", *words)) - 1 :]
    text = " ".join(rest)
    found = next((why for why, pattern in _REWRITES if pattern.match(text)), None)
    if found is None and _CONTINUES.match(text) and any(map(_is_in_progress, folders)):
        found = "may end a merge or another operation in progress, which undo does not cover"
    return f"git {rest[0]} {found}" if found else None


def _is_in_progress(folder: Path) -> bool:
    top = repository_root(folder)
    return top is not None and any(os.path.lexists(git_folder(top)[0] / name) for name in _IN_PROGRESS)


def _removal(words: Sequence[str], cwd: Path, rebuildable: Rebuildable) -> str | None:
    targets = [word for word in words if word and not word.startswith("-")]
    count = 0
    for target in targets:
        names = expand_pattern(target, str(cwd)) if re.search(r"[*?\[]", target) else [target]
        if names is None:
            return f"{target} may match more than {MAX_REMOVED} files"
        for name in names:
            inside = _files_in(os.path.join(cwd, name))  # noqa: PTH118
            if count + inside > MAX_REMOVED and rebuildable.covers(name, cwd):
                continue
            count += inside
            if inside > MAX_REMOVED:
                return f"it removes the folder {name} with more than {MAX_REMOVED} files"
            if count > MAX_REMOVED:
                return f"it removes more than {MAX_REMOVED} files"
    return None


def _find_moved_away(words: Sequence[str], cwd: Path) -> str | None:
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
    while waiting and count <= MAX_REMOVED:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > MAX_REMOVED:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return count
