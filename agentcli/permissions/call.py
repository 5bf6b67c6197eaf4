"""One tool call for the policy: where it runs, which paths it names, and cached findings about it.

The caches last for one decision only, because links and files may change after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from agentcli.core.files.links import is_below
from agentcli.core.frozen import frozen
from agentcli.core.permission import Need, PartFinding
from agentcli.core.processes.shell import shown_command
from agentcli.permissions.rules.rule import Rule
from agentcli.shell.commands.command_parts import CommandPart
from agentcli.shell.git.obeyed_files import hooks_folders, obeyed_by_git
from agentcli.shell.parser.loose_parser import loose_segments, loose_words
from agentcli.shell.paths import LONGEST_PATH, Resolved, expanded_pattern, is_protected

_MOST_BASES = 4


def origin(rule: Rule) -> str:
    return f"rule {rule.shown} from {rule.source or 'this session'}"


def is_wild(rule: Rule) -> bool:
    """Whether a rule covers more than one exact command."""
    return rule.spec is None or "*" in rule.spec


@frozen
class PartVerdict:
    """The verdict on one part of a command. `clause` is the reason, as the rest of "allowed because …"."""

    text: str
    clause: str
    allowed: bool
    rule: Rule | None = None
    part: CommandPart | None = None

    @property
    def finding(self) -> PartFinding:
        return PartFinding(shown_command(self.text), shown_command(self.clause), self.allowed)


@frozen
class PermissionCall:
    tool_name: str
    needs: tuple[Need, ...]
    cwd: Path
    working_dirs: tuple[Path, ...]
    home: Path | None = None
    judged: dict[str, list[PartVerdict]] = field(default_factory=dict)
    """Verdicts by command: one decision needs them several times."""
    _resolved: Resolved = field(default_factory=Resolved)
    _patterns: dict[int, list[re.Pattern[str]]] = field(default_factory=dict)
    """Loose patterns of path rules, by the rule's `id()`."""
    _named: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _hooks: list[tuple[str, ...]] = field(default_factory=list)
    """Hook folders in git's configuration; empty until first needed."""

    @classmethod
    def of(
        cls, tool_name: str, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path], home: Path | None
    ) -> PermissionCall:
        # The target of a link is a second need: an allow rule must match both, a restriction either.
        real = (Need(need.kind, need.real) for need in needs if need.real)
        return cls(tool_name, (*needs, *real), cwd, tuple(working_dirs), home)

    @property
    def start(self) -> Path:
        """Base of relative allow patterns: the folder in which the session started, independent of `cd`."""
        return self.working_dirs[0] if self.working_dirs else self.cwd

    def resolve(self, path: str) -> str:
        return self._resolved[path]

    def restricted_by(self, rule: Rule, path: str) -> bool:
        """Whether a path rule matches this path or the path it resolves to, loosely."""
        resolve = self.resolve
        expressions = self._patterns.get(id(rule))
        if expressions is None:
            bases = dict.fromkeys((self.cwd, *self.working_dirs))
            every = (rule.pattern(base, self.home).expressions(strict=False, resolve=resolve) for base in bases)
            expressions = self._patterns[id(rule)] = [expression for group in every for expression in group]
        # A longer word of a command is text, not a path: no program can open it.
        given = {name for name in (os.path.normpath(path), resolve(path)) if len(name) <= LONGEST_PATH}
        return any(expression.fullmatch(name) for name in given for expression in expressions)

    def named_paths(self, command: str) -> list[tuple[str, str]]:
        """Every word of a command that may name a file, as written and as a path.

        Patterns are expanded as well, and all words are resolved against each folder that a `cd` in the command names.
        """
        found = self._named.get(command)
        if found is None:
            found = self._named[command] = self.paths_of(loose_words(command), command)
        return found

    def paths_of(self, words: Iterable[str], command: str) -> list[tuple[str, str]]:
        """Like `named_paths`, for some words of a command."""
        words = tuple(words)
        found: list[tuple[str, str]] = []
        for base in self._bases(command):
            patterns = (word for word in words if any(c in word for c in "*?["))
            matches = (expanded_pattern(pattern, base) or () for pattern in patterns)
            every = (*words, *(name for group in matches for name in group))
            found += [(word, self._absolute(word, base)) for word in every]
        return found

    def _bases(self, command: str) -> list[str]:
        bases = [str(self.cwd)]
        for segment in loose_segments(command):
            program, _blank, folder = segment.text.partition(" ")
            moves = program in ("cd", "pushd") or (program == "git" and folder.startswith("-C "))
            if moves and folder and len(bases) < _MOST_BASES:
                bases.append(self._absolute(folder.removeprefix("-C ").split(" ")[0], bases[0]))
        return list(dict.fromkeys(bases))

    def is_inside(self, path: str) -> bool:
        return bool(path) and is_below(self.resolve(path), (self.resolve(str(f)) for f in self.working_dirs))

    def is_protected(self, path: str, *, scripts: bool = True) -> bool:
        """Whether the path or its target is protected; folders above a working directory do not count."""
        for given in (path, self._resolved[path]):
            relative = given
            for folder in self.working_dirs:
                for base in (str(folder), self._resolved[str(folder)]):
                    inside = "" if given == base else given.removeprefix(base.rstrip("/") + "/")
                    relative = min(relative, inside, key=len)
            if is_protected(relative, scripts=scripts):
                return True
        roots = [self._resolved[str(folder)] for folder in self.working_dirs]
        if not self._hooks:
            self._hooks.append(hooks_folders(roots))
        return obeyed_by_git(self._resolved[path], roots, self._hooks[0])

    def _absolute(self, word: str, base: str) -> str:
        if self.home is not None and (word == "~" or word.startswith("~/")):
            word = str(self.home) + word[1:]
        return os.path.join(base, word)  # noqa: PTH118 - `..` must stay for what links make of it
