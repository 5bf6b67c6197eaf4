"""One call as the policy looks at it: where it runs, which paths it names, and what was found out on the way.

Everything is remembered for the length of one decision only: links and files may change after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.permission import Need
from agentcli.core.shell import shown_command
from agentcli.permissions.commands.parts import Part
from agentcli.permissions.git.obeyed_files import hooks_folders, obeyed_by_git
from agentcli.permissions.paths import LONGEST_PATH, Resolved, expanded_pattern, is_below, is_protected
from agentcli.permissions.rules.rule import Rule
from agentcli.permissions.shell.loose import loose_segments, loose_words

_MOST_BASES = 4


def origin(rule: Rule) -> str:
    return f"rule {rule.text} from {rule.source or 'this session'}"


def is_wild(rule: Rule) -> bool:
    """Whether a rule covers more than one exact command."""
    return rule.spec is None or "*" in rule.spec


@frozen
class PartVerdict:
    """What was found about one part of a command. `clause` goes after `because`."""

    text: str
    clause: str
    allowed: bool
    rule: Rule | None = None
    part: Part | None = None

    @property
    def line(self) -> str:
        return shown_command(f"{self.text}: {'allowed' if self.allowed else 'needs approval'} because {self.clause}")


@frozen
class Call:
    tool_name: str
    needs: tuple[Need, ...]
    cwd: Path
    working_dirs: tuple[Path, ...]
    home: Path | None = None
    judged: dict[str, list[PartVerdict]] = field(default_factory=dict)
    """One command is looked at several times on the way to a decision."""
    _resolved: Resolved = field(default_factory=Resolved)
    _patterns: dict[int, list[re.Pattern[str]]] = field(default_factory=dict)
    """By the identity of a rule: what it matches, loosely."""
    _named: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _hooks: list[tuple[str, ...]] = field(default_factory=list)
    """Once it is known: the folders that git's configuration names for hooks."""

    @classmethod
    def of(
        cls, tool_name: str, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path], home: Path | None
    ) -> Call:
        # Where a path leads through links is a need of its own: a rule must hold for both, a restriction for either.
        real = (Need(need.kind, need.real) for need in needs if need.real)
        return cls(tool_name, (*needs, *real), cwd, tuple(working_dirs), home)

    @property
    def start(self) -> Path:
        """Where the session started: what relative allow patterns mean, wherever `cd` has led since."""
        return self.working_dirs[0] if self.working_dirs else self.cwd

    def resolve(self, path: str) -> str:
        return self._resolved[path]

    def restricted_by(self, rule: Rule, path: str) -> bool:
        """Loose: whether a path rule is about this path, by its name or by what it leads to."""
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
        """Everything in a command that may be the name of a file: as it is written, and as a path.

        Patterns also as what they match, and all relative to each folder that a `cd` in the same command names.
        """
        found = self._named.get(command)
        if found is None:
            found = self._named[command] = self.paths_of(loose_words(command), command)
        return found

    def paths_of(self, words: Iterable[str], command: str) -> list[tuple[str, str]]:
        """The same for some words of a command."""
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
        """By the name and by what it leads to; what stands above a working directory does not count."""
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
