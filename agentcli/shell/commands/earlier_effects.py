"""Effects of earlier parts of a command on later ones, which are not visible on disk yet.

`mv a b && cat b/x` reads the future `b/x`, not the current one. `policy` calls this part by part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from agentcli.core.files.links import is_below
from agentcli.shell.commands.command_parts import CommandPart
from agentcli.shell.commands.file_commands import CommandChanges, part_changes
from agentcli.shell.commands.read_only_table import STEERED_BY
from agentcli.shell.git.obeyed_files import steers_git

_MAKES_PLAIN_FILES = frozenset({"mkdir", "touch"})
_CHANGES_PLAIN_FILES = frozenset({"rm", "sed", "tee"})
"""Programs that create no links or folders, but depend on existing files."""
_COPIES = frozenset({"cp", "mv"})
_MOVES = frozenset({"cp", "mv", "ln", "install", "rsync", "tar", "unzip"})
"""Programs that can create links and folder trees anywhere."""
_USES_NO_FILES = frozenset({"echo", "printf", "true", "false", ":", "exit", "sleep", "date", "whoami", "seq"}) | {
    *("read", "export", "set")
}

_MOST_TARGETS = 200
_CLAUSE = "an earlier part changes files that this part may use"


class EarlierEffects:
    """Tracks the effects of a command's allowed parts, in order."""

    def __init__(
        self, resolve: Callable[[str], str], is_obeyed: Callable[[str], bool], parts: Iterable[CommandPart] = ()
    ) -> None:
        """`is_obeyed`: whether other programs, such as git, run or obey the file at a path."""
        self._resolve = resolve
        self._is_obeyed = is_obeyed
        self._anything = False
        self._steers_git = False
        """Whether git may run or obey something that an earlier part wrote, or that part's targets are unknown."""
        self._targets: list[str] = []
        self._moved: list[str] = []
        """Paths below which anything may have become a link."""
        for part in parts:
            # In a loop, later parts run before earlier ones run again.
            if part.command.looped:
                self.note(part)

    def objection(self, part: CommandPart, *, by_rule: bool) -> str | None:
        """Reason why a part that is allowed now may act differently when it runs."""
        program = part.inner[0]
        changes = program in _MAKES_PLAIN_FILES | _CHANGES_PLAIN_FILES | _MOVES and part.objection is not None
        beside = part.command.piped or part.command.feeds or part.command.concurrent
        # `tee` writes one regular file, like a redirection.
        if changes and program != "tee" and not by_rule and beside:
            # All parts of a pipeline run at the same time.
            return "it changes files while the rest of the pipeline runs"
        if not self._anything:
            return None
        if not by_rule and not self._still_proven(part, changes=changes):
            return _CLAUSE
        return None if all(map(self._is_plain, self._written(part, changes=changes and not by_rule))) else _CLAUSE

    def note(self, part: CommandPart) -> None:
        redirected = any(redirection.kind == "write" for redirection in part.command.redirections)
        program = part.inner[0]
        changes = part.objection is not None and program in _MAKES_PLAIN_FILES | _CHANGES_PLAIN_FILES | _MOVES
        if not redirected and not changes:
            return
        self._anything = True
        plain = bool(part.folders) and not (changes and ((part.extended and part.known is None) or part.command.others))
        for folder in part.folders or ("/",):
            found = part_changes(part, folder) if changes else CommandChanges(())
            if program in _MOVES and changes:
                self._moved += [self._resolve(path) for path in found.writes] if found else ["/"]
            plain = plain and found is not None
        self._note_targets(self._written(part, changes=changes) if plain else None)

    def _note_targets(self, paths: list[str] | None) -> None:
        if paths is None or self._steers_git or len(self._targets) + len(paths) > _MOST_TARGETS:
            self._steers_git = True
            return
        self._targets += (self._resolve(path) for path in paths)
        self._steers_git = any(map(self._is_obeyed, paths)) or steers_git(self._targets)

    def _still_proven(self, part: CommandPart, *, changes: bool) -> bool:
        program = part.inner[0]
        if program in _USES_NO_FILES and not part.command.globs and not changes:
            return True
        if part.command.globs or (part.extended and part.known is None):
            return False
        if changes:
            return program in _MAKES_PLAIN_FILES or (program in _CHANGES_PLAIN_FILES | _COPIES and not self._moved)
        if program == "git":
            return not self._moved and not self._steers_git
        # New folders, files and contents do not redirect a path, but these programs depend on which files exist.
        return not self._moved and program not in STEERED_BY

    def _written(self, part: CommandPart, *, changes: bool) -> list[str]:
        paths: list[str] = []
        for folder in part.folders:
            names = (r.target for r in part.command.redirections if r.kind == "write")
            paths += [os.path.join(folder, name) for name in names]  # noqa: PTH118
            found = part_changes(part, folder) if changes else None
            paths += (*found.writes, *found.removes) if found else ()
        return paths

    def _is_plain(self, path: str) -> bool:
        """Whether a path passes through no link, now or later."""
        real = self._resolve(path)
        return real == os.path.normpath(path) and not is_below(real, self._moved)
