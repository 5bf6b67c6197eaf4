"""The decision: may this call run, must a person be asked, or is it refused, and why.

`Policy` is immutable and decides in one fixed order: deny rules, what is asked about in every mode, ask rules, plan
mode, protected paths, allow rules, the mode. It looks at links on disk but changes nothing, runs nothing and asks
nobody; whoever cannot ask treats "ask" as "deny".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.core.shell import (
    SimpleCommand,
    has_control_characters,
    is_read_only_part,
    loose_words,
    plain_commands,
    reads_unnamed_files,
)
from agentcli.permissions import suggest
from agentcli.permissions.paths import is_inside, is_protected, real_path
from agentcli.permissions.removal import removed_essential
from agentcli.permissions.rules import READING_TOOLS, Rule, parse_rules

_MOST_WORDS = 400
"""A read-only command with more words than this is asked about rather than having every word looked up on disk."""


@frozen
class _Call:
    """One call and where it would run."""

    tool_name: str
    needs: tuple[Need, ...]
    cwd: Path
    working_dirs: tuple[Path, ...]

    @property
    def start(self) -> Path:
        """Where the session started: what relative allow patterns mean, wherever `cd` has led since."""
        return self.working_dirs[0] if self.working_dirs else self.cwd


@frozen
class Policy:
    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    home: Path | None = None
    readable: tuple[Path, ...] = ()
    """Folders beside the working directories that may be read without asking, such as the session's stored results."""

    def with_mode(self, mode: PermissionMode) -> Policy:
        return replace(self, mode=mode)

    def with_rules(self, *, allow: Iterable[Rule] = (), ask: Iterable[Rule] = (), deny: Iterable[Rule] = ()) -> Policy:
        return replace(self, allow=(*self.allow, *allow), ask=(*self.ask, *ask), deny=(*self.deny, *deny))

    def with_allowed(self, texts: Iterable[str], source: str) -> Policy:
        """With allow rules as a person's answer gives them. Raises `UsageError` for what is no rule."""
        return self.with_rules(allow=parse_rules(texts, source))

    def suggestions(self, tool_name: str, input: Json, needs: Sequence[Need]) -> list[str]:
        """Allow rules that would have made the question unnecessary, narrowest first."""
        return suggest.suggestions(tool_name, needs)

    def refuses_always(self, tool_name: str) -> bool:
        """Whether a deny rule takes the tool away altogether, so that the model need not be told of it."""
        return any(rule.spec is None and rule.names(tool_name) for rule in self.deny)

    def hides(self, path: str, cwd: Path, working_dirs: Sequence[Path]) -> bool:
        """Whether a deny rule keeps this file from being read: then a search of its folder must not show it either."""
        call = _Call("Read", (Need("read", path),), cwd, tuple(working_dirs))
        return any(rule.spec is not None and self._restricts(rule, call) for rule in self.deny)

    @property
    def hides_anything(self) -> bool:
        return any(rule.spec is not None and rule.tool in READING_TOOLS for rule in self.deny)

    def decide(
        self,
        tool_name: str,
        input: Json,
        needs: Sequence[Need],
        cwd: Path,
        working_dirs: Sequence[Path],
    ) -> Decision:
        call = _Call(tool_name, tuple(needs), cwd, tuple(working_dirs))
        decision = (
            self._by_restriction("deny", self.deny, call)
            or self._by_always_asking(call)
            or self._by_restriction("ask", self.ask, call)
            or self._by_plan_mode(call)
            or self._by_protected_path(call)
            or self._by_allow_rules(call)
            or self._by_mode(call)
        )
        if decision.behavior == "ask" and self.mode is PermissionMode.DONT_ASK:
            return replace(decision, behavior="deny", reason=f"{decision.reason}; in dontAsk mode that means no")
        return decision

    # ------------------------------------------------------------------------------------------ in every mode

    def _by_restriction(self, behavior: str, rules: tuple[Rule, ...], call: _Call) -> Decision | None:
        for rule in rules:
            if not self._restricts(rule, call):
                continue
            if behavior == "deny":
                return Decision("deny", f"denied by {_origin(rule)}", rule.text, rule.source)
            return Decision("ask", f"{_origin(rule)} asks first", rule.text, rule.source)
        return None

    def _restricts(self, rule: Rule, call: _Call) -> bool:
        if rule.spec is None:
            return rule.names(call.tool_name)
        for need in call.needs:
            if need.kind == "execute":
                if rule.names(call.tool_name) and rule.matches_somewhere(need.target):
                    return True
                if self._names_path(rule, need.target, call):
                    return True
            elif need.kind in ("read", "write"):
                # What may not be read may not be written either: an edit shows what it replaces.
                about = rule.covers_path(need) or rule.tool in READING_TOOLS
                if about and self._path_restricted(rule, need.target, call):
                    return True
            elif rule.names(call.tool_name) and rule.spec in (need.target, need.target.rpartition(":")[2]):
                return True
        return False

    def _path_restricted(self, rule: Rule, path: str, call: _Call) -> bool:
        return any(
            rule.matches_path(path, base, self.home, strict=False)
            for base in dict.fromkeys((call.cwd, *call.working_dirs))
        )

    def _names_path(self, rule: Rule, command: str, call: _Call) -> bool:
        """File rules bind the shell as far as its text shows which files it names (S7)."""
        if not (rule.covers_path(Need("read")) or rule.covers_path(Need("write"))):
            return False
        return any(self._path_restricted(rule, self._absolute(word, call), call) for word in loose_words(command))

    def _by_always_asking(self, call: _Call) -> Decision | None:
        for need in call.needs:
            if need.kind != "execute":
                continue
            if has_control_characters(need.target):
                return Decision("deny", "the command contains control characters; write it without them")
            removed = removed_essential(need.target, call.cwd, call.working_dirs, self.home)
            if removed is not None:
                return Decision(
                    "ask", f"this would remove {removed}, which holds your files; that is asked about in every mode"
                )
        return None

    # -------------------------------------------------------------------------------------------- by mode, rules

    def _by_plan_mode(self, call: _Call) -> Decision | None:
        if self.mode is not PermissionMode.PLAN:
            return None
        for need in call.needs:
            changes = need.kind in ("write", "other") or (
                need.kind == "execute" and not self._reads_only(need.target, call)
            )
            if changes:
                return Decision("deny", "plan mode is on, in which nothing is changed or run; finish the plan first")
        return None

    def _by_protected_path(self, call: _Call) -> Decision | None:
        if self.mode is PermissionMode.BYPASS:
            return None
        for need in call.needs:
            if need.kind == "write" and self._is_protected(need.target, call):
                return Decision("ask", f"{need.target} is a protected path: other programs run or obey what is in it")
            if need.kind == "execute" and not self._reads_only(need.target, call):
                for word in sorted(loose_words(need.target)):
                    if is_protected(word, scripts=False):
                        return Decision(
                            "ask", f"the command names {word}, a protected path: other programs run or obey it"
                        )
        return None

    @staticmethod
    def _is_protected(path: str, call: _Call) -> bool:
        """By the name and by what it leads to; what stands above a working directory does not count."""
        for given in (path, real_path(path)):
            relative = given
            for folder in call.working_dirs:
                for base in (str(folder), os.path.realpath(folder)):
                    relative = min(relative, given.removeprefix(base.rstrip("/") + "/"), key=len)
            if is_protected(relative):
                return True
        return False

    def _by_allow_rules(self, call: _Call) -> Decision | None:
        for rule in self.allow:
            if rule.spec is None and rule.names(call.tool_name):
                return self._allowed_by(rule)
        deciding: list[Rule] = []
        for need in call.needs:
            rules = self._rules_covering(need, call)
            if rules is None:
                return None
            deciding += rules
        return self._allowed_by(deciding[0]) if deciding else None

    def _rules_covering(self, need: Need, call: _Call) -> list[Rule] | None:
        """The rules that together allow a need: empty if it is harmless without any, None if it is not allowed."""
        if self._harmless(need, call):
            return []
        if need.kind == "execute":
            parts = plain_commands(need.target, redirections=True)
            if parts is None:
                return None
            found: list[Rule] = []
            for part in parts:
                rule = next((r for r in self.allow if r.names(call.tool_name) and r.matches_part(part)), None)
                if rule is not None:
                    found.append(rule)
                elif not self._part_reads_only(part, call):
                    return None
            return found
        for rule in self.allow:
            if need.kind in ("read", "write"):
                # Who may edit a file may read it.
                about = rule.covers_path(need) or (need.kind == "read" and rule.covers_path(Need("write")))
                if about and rule.matches_path(need.target, call.start, self.home, strict=True):
                    return [rule]
            elif rule.names(call.tool_name) and rule.spec is not None and rule.spec == need.target:
                return [rule]
        return None

    @staticmethod
    def _allowed_by(rule: Rule) -> Decision:
        return Decision("allow", f"allowed by {_origin(rule)}", rule.text, rule.source)

    def _by_mode(self, call: _Call) -> Decision:
        if self.mode is PermissionMode.BYPASS:
            return Decision("allow", "allowed because permissions are bypassed")
        for need in call.needs:
            if self._harmless(need, call):
                continue
            if self.mode is PermissionMode.ACCEPT_EDITS and need.kind == "write" and self._inside(need.target, call):
                continue
            return Decision("ask", _question(need, inside=self._inside(need.target, call)))
        if any(need.kind == "write" for need in call.needs):
            return Decision("allow", "allowed because edits in the working directories are accepted")
        return Decision("allow", "allowed because it only reads what it may")

    # --------------------------------------------------------------------------------------------- what is harmless

    def _harmless(self, need: Need, call: _Call) -> bool:
        if need.kind == "none":
            return True
        if need.kind == "read":
            return self._inside(need.target, call) or is_inside(real_path(need.target), self.readable)
        return need.kind == "execute" and self._reads_only(need.target, call)

    def _inside(self, path: str, call: _Call) -> bool:
        return bool(path) and is_inside(real_path(path), call.working_dirs)

    def _reads_only(self, command: str, call: _Call) -> bool:
        parts = plain_commands(command)
        return parts is not None and all(self._part_reads_only(part, call) for part in parts)

    def _part_reads_only(self, part: SimpleCommand, call: _Call) -> bool:
        """Read-only by its words, and every file it names is one that could be read without asking."""
        if not is_read_only_part(part.words) or len(part.words) > _MOST_WORDS:
            return False
        # A search may bring out what a rule hides, and nothing in its text would show it.
        hidden = any(rule.spec is not None and rule.tool in READING_TOOLS for rule in (*self.deny, *self.ask))
        if hidden and reads_unnamed_files(part.words):
            return False
        return all(self._word_is_inside(word, call) for word in part.words[1:])

    def _word_is_inside(self, word: str, call: _Call) -> bool:
        value = word.partition("=")[2] if word.startswith("-") else word
        path = self._absolute(value, call)
        # What is not there cannot be read: a search pattern such as /api/v1 is no reason to ask.
        return (
            not value or not os.path.lexists(path) or is_inside(real_path(path), (*call.working_dirs, *self.readable))
        )

    def _absolute(self, word: str, call: _Call) -> str:
        if self.home is not None and (word == "~" or word.startswith("~/")):
            word = str(self.home) + word[1:]
        return os.path.normpath(call.cwd / word)


def _origin(rule: Rule) -> str:
    return f"rule {rule.text} from {rule.source or 'this session'}"


def _question(need: Need, *, inside: bool) -> str:
    match need.kind:
        case "read":
            return f"{need.target} is outside the working directories"
        case "write":
            return f"writing {need.target} needs your approval" + (
                "" if inside else "; it is outside the working directories"
            )
        case "execute":
            return "this command is not known to be read-only"
        case "fetch":
            return f"fetching {need.target} needs your approval"
        case _:
            return "this tool needs your approval"
