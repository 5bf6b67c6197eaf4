"""A tool call as the policy sees it, and verdicts of the rules and the mode on each part of a command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.permission import Need, PartFinding
from agentcli.core.text.plaintext import show_command
from agentcli.permissions.rules import READING_TOOLS, Rule
from agentcli.shell.command_context import CommandContext, FileExposure, Restriction
from agentcli.shell.commands.command_parts import CommandPart, analyse
from agentcli.shell.commands.file_commands import CommandChanges, EarlierEffects, is_plain_removal, part_changes
from agentcli.shell.commands.read_only import ASSIGNMENT
from agentcli.shell.git_config import hooks_folders, obeyed_by_git
from agentcli.shell.parser.loose_parser import loose_segments, loose_words
from agentcli.shell.parser.programs import runs_input
from agentcli.shell.parser.strict_parser import NotPlain
from agentcli.shell.paths import MAX_PATH_LENGTH, Resolved, expand_pattern, is_inside, is_protected

if TYPE_CHECKING:
    from agentcli.permissions.policy import Policy

_MAX_BASES = 4


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
        return PartFinding(show_command(self.text), show_command(self.clause), self.allowed)


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
        given = {name for name in (os.path.normpath(path), resolve(path)) if len(name) <= MAX_PATH_LENGTH}
        return any(expression.fullmatch(name) for name in given for expression in expressions)

    def list_named_paths(self, command: str) -> list[tuple[str, str]]:
        """Every word of a command that may name a file, as written and as a path.

        Patterns are expanded as well, and all words are resolved against each folder that a `cd` in the command names.
        """
        found = self._named.get(command)
        if found is None:
            found = self._named[command] = self.paths_of(loose_words(command), command)
        return found

    def paths_of(self, words: Iterable[str], command: str) -> list[tuple[str, str]]:
        """Like `list_named_paths`, for some words of a command."""
        words = tuple(words)
        found: list[tuple[str, str]] = []
        for base in self._bases(command):
            patterns = (word for word in words if any(c in word for c in "*?["))
            matches = (expand_pattern(pattern, base) or () for pattern in patterns)
            every = (*words, *(name for group in matches for name in group))
            found += [(word, self._absolute(word, base)) for word in every]
        return found

    def _bases(self, command: str) -> list[str]:
        bases = [str(self.cwd)]
        for segment in loose_segments(command):
            program, _blank, folder = segment.text.partition(" ")
            moves = program in ("cd", "pushd") or (program == "git" and folder.startswith("-C "))
            if moves and folder and len(bases) < _MAX_BASES:
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


ACCEPTED = "edits in the working directories are accepted"
_NEW_TEMP_FILE = (("mktemp",), ("mktemp", "-d"))
SCRATCH = "it writes only to the session's temp folder"


@frozen
class CommandJudge:
    policy: Policy
    call: PermissionCall

    def verdicts(self, command: str) -> list[PartVerdict]:
        """One verdict per part of a command; a command that cannot be parsed is one part that needs approval."""
        found = self.call.judged.get(command)
        if found is None:
            found = self.call.judged[command] = self._judge(command)
        return found

    def parts(self, command: str) -> list[CommandPart]:
        """The parts of a command; none if it cannot be parsed."""
        return [verdict.part for verdict in self.verdicts(command) if verdict.part is not None]

    def _judge(self, command: str) -> list[PartVerdict]:
        parts = analyse(command, self._place(command))
        if isinstance(parts, NotPlain):
            return [PartVerdict(command, str(parts), allowed=False)]
        changed = EarlierEffects(self.call.resolve, self._is_guarded, parts)
        verdicts: list[PartVerdict] = []
        for part in parts:
            verdict = self._judge_part(part)
            if verdict.allowed:
                by_rule = part.objection is not None and self.rule_for(part) is not None
                later = changed.objection(part, by_rule=by_rule)
                if later is not None:
                    verdict = PartVerdict(part.command.text, later, allowed=False, part=part)
            changed.note(part)
            verdicts.append(verdict)
        return verdicts

    def _place(self, command: str) -> CommandContext:
        policy, call = self.policy, self.call
        search_path = os.environ.get("PATH", "") if policy.search_path is None else policy.search_path
        folders = tuple(call.resolve(str(folder)) for folder in call.working_dirs)
        deny, ask = (self._restriction(rules, folders) for rules in (policy.deny, policy.ask))
        # A search outside the working directories needs approval anyway.
        concealed = (path for path in (*policy.private, *policy.secrets) if is_below(path, folders))
        private = Restriction(policy.find_concealed, tuple(concealed))
        every = _union([deny, ask, private])
        exposure = None
        if every.specs:
            hidden = policy.hidden_from_commands(command)
            visible = _union([ask] if hidden else [deny, ask, private])
            exposure = FileExposure(
                visible=visible if visible.specs else None,
                stored=every,
                files=policy.restricted_files,
                tracked=policy.tracked_files,
                working_dirs=folders,
                scope=(str(call.cwd), *map(str, call.working_dirs)),
                search_path=search_path,
                resolve=call.resolve,
            )

        def resolve(path: str) -> str:
            return call.resolve(policy.locate(command, path))

        return CommandContext(
            cwd=str(call.cwd),
            working_dirs=tuple(resolve(str(folder)) for folder in call.working_dirs),
            readable=(*policy.readable, *policy.scratch, *policy.memory, *policy.skill_folders()),
            hides=every.hides if every.specs else None,
            resolve=resolve,
            search_path=search_path,
            home=str(policy.home or ""),
            temp=str(policy.temp or ""),
            trusted=policy.trusted,
            exposure=exposure,
            relocate=(lambda path: policy.locate(command, path)) if policy.scratch else str,
            scratch=tuple(map(str, policy.scratch)),
            contained=self._is_contained(command),
        )

    def _is_contained(self, command: str) -> bool:
        """Whether a read-only command may read whatever names it gets: it has no network, secrets and denied files are
        hidden from it, and no ask rule is about reading files, which a link may lead to."""
        policy = self.policy
        asks = any(rule.spec is not None and rule.tool in READING_TOOLS for rule in policy.ask)
        return not asks and policy.contains(command) and policy.hidden_from_commands(command)

    def _restriction(self, rules: tuple[Rule, ...], folders: tuple[str, ...]) -> Restriction:
        reading = [
            rule
            for rule in rules
            if rule.spec is not None and rule.tool in READING_TOOLS and self._concerns(rule.spec, folders)
        ]

        def rule_for(path: str) -> str | None:
            return next((rule.shown for rule in reading if self.call.restricted_by(rule, path)), None)

        return Restriction(rule_for, tuple(rule.spec for rule in reading if rule.spec is not None))

    def _concerns(self, spec: str, folders: tuple[str, ...]) -> bool:
        """False for a rule such as `Read(~/.ssh/**)`, which matches nothing in the working directories."""
        home = self.policy.home
        if spec.startswith("//"):
            start = "/" + spec.lstrip("/")
        elif spec.startswith("~/") and home is not None:
            start = f"{home}/{spec[2:]}"
        else:
            return True
        # The path up to the first wildcard; `..` could lead anywhere.
        literal = re.split(r"/[^/]*[*?\[{]", start)[0] or "/"
        if ".." in literal.split("/"):
            return True
        real = self.call.resolve(literal)
        return any(is_below(real, [folder]) or is_below(folder, [real, literal]) for folder in folders)

    def _judge_part(self, part: CommandPart) -> PartVerdict:
        text, rule, clause = part.command.text, None, "it is read-only"
        if part.objection is not None:
            rule = self.rule_for(part)
            if rule is not None:
                clause = f"it matches {origin(rule)}"
            elif self.changes_accepted(part):
                clause = ACCEPTED if self.policy.accepts_edits else SCRATCH
            else:
                return PartVerdict(text, part.objection, allowed=False, part=part)
        for redirection in part.command.redirections:
            if redirection.kind == "read" and not part.input_allowed:
                return PartVerdict(text, f"it redirects input from {redirection.target}", allowed=False, part=part)
            if redirection.kind == "write":
                writing = self.redirection_rule(redirection.target, part)
                if isinstance(writing, str):
                    return PartVerdict(text, writing, allowed=False, part=part)
                rule = rule or writing
                accepted = ACCEPTED if self.policy.accepts_edits else SCRATCH
                clause = f"{clause} and {f'it matches {origin(writing)}' if writing else accepted}"
        return PartVerdict(text, clause, allowed=True, rule=rule, part=part)

    def rule_for(self, part: CommandPart) -> Rule | None:
        """The allow rule that matches a part or the command inside its wrappers. Assignments are never covered."""
        if part.objection is not None and part.objection.startswith(ASSIGNMENT):
            return None
        # Files in the temp folder were written without approval, so a rule must not run them.
        if self.policy.scratch and any(self.in_scratch(self.locate(folder, part)) for folder in part.folders):
            return None
        # `Bash(python3)` would run any program that is piped into it.
        needs_wildcard = runs_input(part.inner)
        spellings = ((part.rule_texts, (*part.command.words, *part.inner)), (self._spellings(part), part.inner[1:]))
        for rule in self.policy.allow:
            if not rule.names(self.call.tool_name) or (needs_wildcard and not is_wild(rule)):
                continue
            for texts, words in spellings:
                matches = any(rule.matches_command(text, extended=extended) for text, extended in texts)
                if matches and not self._names_other_files(rule.list_named_words(words), part):
                    return rule
        return None

    def _names_other_files(self, words: Iterable[str], part: CommandPart) -> bool:
        """Whether words that a rule names are other files where the part runs than in the session's folder, for which
        the rule was made: `sh build.sh` does not cover `cd vendor && sh build.sh`."""
        start, resolve = str(self.call.start), self.call.resolve
        elsewhere = [folder for folder in part.folders or ("",) if not folder or resolve(folder) != resolve(start)]
        names = {name for word in words for name in (word, word.partition("=")[2]) if name} if elsewhere else ()
        for folder, name in product(elsewhere, names):
            ours, theirs = (resolve(os.path.join(base, name)) for base in (start, folder or "/"))  # noqa: PTH118
            if ours != theirs and (os.path.isfile(ours) or os.path.isfile(theirs)):  # noqa: PTH113
                return True
        return False

    def _spellings(self, part: CommandPart) -> list[tuple[str, bool]]:
        """Other spellings of a project's program for rule matching: relative to the session's folder, and absolute.

        `./.venv/bin/python` and, after `cd tests`, `../.venv/bin/python` are `.venv/bin/python`.
        """
        program, start = part.inner[0], str(self.call.start)
        if "/" not in program or not part.folders:
            return []
        given = [os.path.join(folder, program) for folder in part.folders]  # noqa: PTH118
        paths = {os.path.normpath(path) for path in given}
        path = paths.pop()
        # `..` behind a link leads to another folder.
        parents = {self.call.resolve(os.path.dirname(each)) for each in (path, *given)}  # noqa: PTH120
        if paths or len(parents) != 1 or not is_below(path, (start,)) or not self.call.is_inside(parents.pop()):
            return []
        name = os.path.relpath(path, start)
        return [
            (spelling + text[len(program) :], extended)
            for text, extended in part.rule_texts
            if text == program or text.startswith(program + " ")
            for spelling in (name, f"./{name}", path)
            if "/" in spelling
        ]

    def path_rule(self, need: Need) -> Rule | None:
        for rule in self.policy.allow:
            # Permission to edit a file includes reading it.
            about = rule.covers_path(need) or (need.kind == "read" and rule.covers_path(Need("write")))
            matches = about and rule.matches_path(need.target, self.call.start, self.policy.home, strict=True)
            if matches and self._may_open(rule):
                return rule
        return None

    def _may_open(self, rule: Rule) -> bool:
        """Whether a rule may allow what the call reads and writes: places of credentials are opened by the user's own
        rules only, not by those of a project or of a skill."""
        named = (need.target for need in self.call.needs if need.kind in ("read", "write"))
        return rule.is_of_user or not any(self.policy.find_concealed(self.call.resolve(path)) for path in named)

    def is_protected(self, path: str, *, scripts: bool = True) -> bool:
        """Whether other programs, or agentcli itself, run or obey the file at a path."""
        if self.call.is_protected(path, scripts=scripts):
            return True
        real = self.call.resolve(path)
        return is_below(real, self.policy.own_folders) and not is_inside(real, self.policy.readable)

    def runs_agentcli(self, path: str) -> bool:
        # Some file systems ignore case; asking too often does no harm.
        return is_below(self.call.resolve(path).lower(), (str(part).lower() for part in self.policy.installation))

    def changes_accepted(self, part: CommandPart) -> bool:
        if not (self.policy.accepts_edits or self.policy.scratch) or not part.folders:
            return False
        if part.command.assignments or part.has_unknown_words:
            return False
        if part.inner in _NEW_TEMP_FILE:
            return self.in_scratch(str(self.policy.temp or ""))
        for folder in part.folders:
            # The folder differs outside the sandbox, so the matches of the pattern are unknown here.
            if part.command.globs and self.locate(folder, part) != folder:
                return False
            changes = part_changes(part, folder)
            if changes is None:
                return False
            writes, reads, removes = (
                [self.locate(path, part) for path in paths]
                for paths in (changes.writes, changes.reads, changes.removes)
            )
            if not all(map(self._may_write, writes)) or not all(map(self._may_remove, removes)):
                return False
            if changes.moved and not self._may_move(changes, part):
                return False
            readable = (self.call.is_inside(path) or self.in_scratch(path) for path in reads)
            if not all(readable) or any(map(self._needs_asking, reads)):
                return False
        return True

    def locate(self, path: str, part: CommandPart) -> str:
        """Path of a file that a part names, as seen outside the sandbox: inside, `/tmp` is another folder."""
        return self.policy.locate(part.command.text, os.path.normpath(path)) if self.policy.scratch else path

    def in_scratch(self, path: str) -> bool:
        return bool(path) and is_inside(self.call.resolve(path), self.policy.scratch)

    def _may_write(self, path: str) -> bool:
        accepted = self.in_scratch(path) or (self.policy.accepts_edits and self.call.is_inside(path))
        return accepted and not self._is_guarded(path) and not self._needs_asking(path)

    def _is_guarded(self, path: str) -> bool:
        return self.is_protected(path) or self.runs_agentcli(path)

    def _may_remove(self, path: str) -> bool:
        """Whether a path may be removed. Removing a link removes the link itself, so its own location counts."""
        folder, name = os.path.split(os.path.normpath(path))
        inside = self.in_scratch(folder) or (self.policy.accepts_edits and self.call.is_inside(folder))
        return inside and name not in ("", ".", "..") and not self._is_guarded(path) and not self._needs_asking(path)

    def _may_move(self, changes: CommandChanges, part: CommandPart) -> bool:
        """Whether files may be moved. A move to the temp folder is a removal: that folder is deleted at the end."""
        if not self.in_scratch(self.locate(changes.target, part)):
            return True
        return is_plain_removal([path for path in changes.moved if not self.in_scratch(self.locate(path, part))])

    def _needs_asking(self, path: str) -> bool:
        rules = (
            rule
            for rule in (*self.policy.deny, *self.policy.ask)
            if rule.covers_path(Need("read")) or rule.covers_path(Need("write"))
        )
        restricted = any(self.call.restricted_by(rule, path) for rule in rules)
        return restricted or self.policy.find_concealed(self.call.resolve(path)) is not None

    def redirection_rule(self, target: str, part: CommandPart) -> Rule | str | None:
        """The rule that allows writing the target, None if the mode allows it, or a reason why it needs approval."""
        clause = f"it redirects output to {target}"
        rule: Rule | None = None
        for folder in part.folders or (None,):
            path = self.locate(os.path.join(folder, target), part) if folder is not None else ""  # noqa: PTH118
            if not path or self._is_guarded(path) or self._needs_asking(path):
                return clause
            rule = self.path_rule(Need("write", path))
            accepted = self.in_scratch(path) or (self.policy.accepts_edits and self.call.is_inside(path))
            if rule is None and not accepted:
                return clause
        return rule


def _union(restrictions: list[Restriction]) -> Restriction:
    def rule_for(path: str) -> str | None:
        return next((rule for one in restrictions if (rule := one.rule_for(path)) is not None), None)

    return Restriction(rule_for, tuple(spec for one in restrictions for spec in one.specs))
