"""The permission decision: whether a call may run, needs approval or is denied, and why.

`CallReview` decides in one fixed order: deny rules, checks that apply in every mode, ask rules, plan mode,
protected paths, allow rules, the mode. It reads links on disk but changes nothing, runs nothing and asks nobody; a
non-interactive caller treats "ask" as "deny".
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.permission import (
    ORDINARY,
    TOOL_VERSION,
    Approval,
    Decision,
    Grant,
    Need,
    PartFinding,
    PermissionMode,
)
from agentcli.core.text.plaintext import has_control_characters, plain_line, show_command
from agentcli.permissions import auto_mode
from agentcli.permissions.command_grant import (
    CREDENTIALS,
    credential_variables,
    grant_for,
    names_git_settings,
    written_paths,
)
from agentcli.permissions.command_verdicts import ACCEPTED, SCRATCH, CommandJudge, PermissionCall, is_wild, origin
from agentcli.permissions.rules import READING_TOOLS, Rule, host_of, is_private_host, rule_text
from agentcli.shell.commands.file_commands import counted_text
from agentcli.shell.commands.removal import Rebuildable, find_removed_essential
from agentcli.shell.parser.loose_parser import loose_words, unclear_program
from agentcli.shell.parser.syntax_tree import too_long
from agentcli.shell.paths import has_other_names, is_inside, real_path

_PLANNING = (
    "Plan mode is active, and this call may change something: keep exploring with calls that only read, then present "
    "the plan with ExitPlanMode, or as your answer where there is no such tool."
)


_BUILT_IN = ("always asks", "agentcli")
"""Rule and source of built-in questions: no rule and no hook can answer them."""
_MAX_MATCHED = 100_000
"""Characters of an overlong command that are still checked against deny rules."""


@frozen
class CallReview(CommandJudge):
    """The decision about one call, with everything that depends on its policy and its place."""

    def decide(self) -> Decision:
        decision = (
            self._by_length()
            or self._by_privacy()
            or self._by_restriction("deny", self.policy.deny)
            or self._by_question()
            or self._by_always_asking()
            or self._by_restriction("ask", self.policy.ask)
            or self._by_plan_mode()
            or self._by_protected_path()
            or self._by_allow_rules()
            or self._by_mode()
        )
        if decision.behavior == "ask" and self.policy.mode is PermissionMode.DONT_ASK:
            cause = decision.cause or decision.reason
            reason = f"The mode dontAsk denies calls that need approval: {cause}"
            return replace(decision, behavior="deny", reason=reason, denied_by="dontAsk mode")
        return decision

    # ------------------------------------------------------------------------------------------ in every mode

    def _by_privacy(self) -> Decision | None:
        for need in self.call.needs if self.policy.private else ():
            named = [need.target] if need.kind in ("read", "write") else []
            if need.kind == "execute":
                named = [path for _word, path in self.call.list_named_paths(need.target)]
            if any(self.policy.private_file(self.call.resolve(path)) is not None for path in named):
                return Decision("deny", "denied: agentcli keeps API keys there", *_BUILT_IN)
        return None

    def _by_restriction(self, behavior: str, rules: tuple[Rule, ...]) -> Decision | None:
        for rule in rules:
            if not self._restricts(rule):
                continue
            if behavior == "deny":
                return _deny_by(rule)
            return replace(_make_question(f"it matches {origin(rule)}"), rule=rule.text, source=rule.source)
        return None

    def _by_length(self) -> Decision | None:
        """Decide on a command too long to parse: deny rules apply, otherwise ask. None: the other checks decide."""
        if not any(need.kind == "execute" and too_long(need.target) for need in self.call.needs):
            return None
        about = [
            rule
            for rule in (*self.policy.deny, *self.policy.ask)
            if rule.names(self.call.tool_name) or rule.spec is not None
        ]
        if self.policy.refuses_always(self.call.tool_name) or self.policy.mode is PermissionMode.PLAN:
            return None
        if self.policy.mode is PermissionMode.BYPASS and not about:
            return None
        texts = [need.target for need in self.call.needs if need.kind == "execute"]
        if any(map(has_control_characters, texts)):
            return self._by_always_asking()
        for rule in self.policy.deny:
            if rule.names(self.call.tool_name) and any(rule.matches_somewhere(text[:_MAX_MATCHED]) for text in texts):
                return _deny_by(rule)
        reason = "the command is too long to check; put it into a file or split it"
        return Decision("ask", reason, *_BUILT_IN)

    def _restricts(self, rule: Rule) -> bool:
        if rule.spec is None:
            return rule.names(self.call.tool_name)
        for need in self.call.needs:
            if need.kind == "execute":
                if rule.names(self.call.tool_name) and rule.matches_somewhere(need.target):
                    return True
                if self._names_path(rule, need.target):
                    return True
            elif need.kind in ("read", "write"):
                # A rule against reading also forbids writing: an edit shows the text that it replaces.
                about = rule.covers_path(need) or rule.tool in READING_TOOLS
                if about and self.call.restricted_by(rule, need.target):
                    return True
            elif need.kind == "fetch":
                if rule.names(self.call.tool_name) and (
                    rule.matches_host(host_of(need.target)) or rule.spec == need.target
                ):
                    return True
            elif rule.names(self.call.tool_name) and any(
                rule.matches_value(value) for value in (need.target, need.target.rpartition(":")[2])
            ):
                return True
        return False

    def _names_path(self, rule: Rule, command: str) -> bool:
        if not (rule.covers_path(Need("read")) or rule.covers_path(Need("write"))):
            return False
        return any(self.call.restricted_by(rule, path) for _word, path in self.call.list_named_paths(command))

    def _by_question(self) -> Decision | None:
        if any(need.kind == "question" for need in self.call.needs):
            return replace(_make_question(f"{self.call.tool_name} asks the user"), self_evident=True)
        return None

    def _by_always_asking(self) -> Decision | None:
        for need in self.call.needs:
            # Plan mode refuses every write anyway.
            if need.kind == "write" and self.policy.mode is not PermissionMode.PLAN and self.runs_agentcli(need.target):
                reason = f"Needs approval in every mode: {need.target} is part of the installation that runs agentcli"
                return Decision("ask", reason, *_BUILT_IN)
            if need.kind != "execute":
                continue
            if has_control_characters(need.target):
                return Decision("deny", "the command contains control characters; write it without them")
            removed = find_removed_essential(need.target, self.call.cwd, self.call.working_dirs, self.policy.home)
            if removed is not None:
                reason = f"Needs approval in every mode: this would remove {removed}, which may hold your files"
                return Decision("ask", show_command(reason), *_BUILT_IN)
            # Plan mode refuses such a command anyway.
            denying = self.policy.mode is not PermissionMode.PLAN and any(
                rule.spec is not None and rule.names(self.call.tool_name) for rule in self.policy.deny
            )
            unclear = unclear_program(need.target) if denying else None
            if unclear is not None:
                clause = f"{unclear} runs an unknown program, and {self.call.tool_name} has deny rules"
                return replace(_make_question(clause), rule=_BUILT_IN[0], source=_BUILT_IN[1])
        return None

    # -------------------------------------------------------------------------------------------- by mode, rules

    def _by_plan_mode(self) -> Decision | None:
        if self.policy.mode is not PermissionMode.PLAN:
            return None
        for need in self.call.needs:
            changes = need.kind == "write" or (need.kind == "other" and not need.is_declared_read_only)
            if changes or (need.kind == "execute" and not self._reads_only(need.target)):
                return Decision("deny", _PLANNING, findings=self._findings(), denied_by="plan mode")
        return None

    def _by_protected_path(self) -> Decision | None:
        if self.policy.mode is PermissionMode.BYPASS:
            return None
        for need in self.call.needs:
            if (
                need.kind == "write"
                and self.is_protected(need.target)
                and (self.call.is_protected(need.target) or not self._is_note(need.target))
            ):
                where = f"{need.target}, which leads to {need.real}," if need.real else need.target
                return replace(
                    _make_question(f"{where} is a protected path that other programs run or obey"), protected=True
                )
            if need.kind == "execute" and not self._reads_only(need.target):
                # A command that runs inside a protected folder may name its files without a path.
                named = self.call.paths_of(self._list_counted_words(need.target), need.target)
                for word, path in (*sorted(named), (str(self.call.cwd), str(self.call.cwd))):
                    if self.is_protected(path, scripts=False):
                        clause = f"{word} is a protected path that other programs run or obey"
                        return replace(_make_question(clause), findings=self._findings(), protected=True)
        return None

    def _list_counted_words(self, command: str) -> frozenset[str]:
        """The words of a command that could name a file it changes."""
        text = counted_text([verdict.part for verdict in self.verdicts(command)])
        return loose_words(command if text is None else text)

    def _by_allow_rules(self) -> Decision | None:
        private = any(need.kind == "fetch" and is_private_host(host_of(need.target)) for need in self.call.needs)
        for rule in self.policy.allow:
            # An address in a private network must be named by a rule.
            if rule.spec is None and rule.names(self.call.tool_name) and not private and self._may_open(rule):
                return self._allow_by(rule)
        deciding: list[Rule] = []
        for need in self.call.needs:
            rules = self.rules_covering(need)
            if rules is None:
                return None
            deciding += rules
        return replace(self._allow_by(deciding[0]), findings=self._findings()) if deciding else None

    def rules_covering(self, need: Need) -> list[Rule] | None:
        """The rules that together allow a need: empty if it is harmless without any, None if it is not allowed."""
        if self._harmless(need):
            return []
        if need.kind == "execute":
            verdicts = self.verdicts(need.target)
            if not all(verdict.allowed for verdict in verdicts):
                return None
            return [verdict.rule for verdict in verdicts if verdict.rule is not None]
        rule = self.path_rule(need) if need.kind in ("read", "write") else self._value_rule(need)
        return None if rule is None else [rule]

    def _value_rule(self, need: Need) -> Rule | None:
        for rule in self.policy.allow:
            if not rule.names(self.call.tool_name):
                continue
            if need.kind == "fetch":
                host = host_of(need.target)
                # A rule for a parent domain does not cover an address in a private network.
                exact = rule.spec in (need.target, f"domain:{host}", f"private:{host}")
                if exact or (rule.matches_host(host) and not is_private_host(host)):
                    return rule
            elif rule.matches_value(need.target):
                return rule
        return None

    @staticmethod
    def _allow_by(rule: Rule) -> Decision:
        return Decision("allow", f"allowed by {origin(rule)}", rule.text, rule.source)

    def _by_mode(self) -> Decision:
        if self.policy.mode is PermissionMode.BYPASS:
            return Decision("allow", "allowed because permission checks are off")
        for need in self.call.needs:
            if self._harmless(need) or self._accepted(need) or self._readable_by_commands(need):
                continue
            if need.kind == "execute":
                contained = self._by_containment(need.target)
                if contained is None or contained.behavior == "ask":
                    return contained or self._ask_about(need.target)
                continue
            if need.kind == "other" and need.target.startswith(TOOL_VERSION):
                allowed = next((rule for rule in self.policy.allow if rule.names(self.call.tool_name)), None)
                if allowed is not None:
                    return _make_question(f"its server has changed it since it was allowed by {origin(allowed)}")
            return _make_question_about(
                need, self.call, concealed=self.policy.find_concealed(self.call.resolve(need.target)) is not None
            )
        if any(need.kind == "agent" for need in self.call.needs):
            return Decision("allow", "allowed because each call of the agent is decided on its own")
        if all(self._harmless(need) for need in self.call.needs):
            return Decision("allow", "allowed because it is read-only", findings=self._findings())
        if all(self._harmless(need) or self._readable_by_commands(need) for need in self.call.needs):
            return Decision("allow", "allowed because sandboxed commands can read it too", findings=self._findings())
        if any(need.kind == "write" and self._is_note(need.target) for need in self.call.needs):
            return Decision("allow", "allowed because it is a note in this project's memory")
        commands = (need.target for need in self.call.needs if need.kind == "execute")
        by_sandbox = next((found for text in commands if (found := self._by_containment(text))), None)
        accepted = ACCEPTED if self.policy.accepts_edits else SCRATCH
        return by_sandbox or Decision("allow", f"allowed because {accepted}", findings=self._findings())

    def _accepted(self, need: Need) -> bool:
        """Whether the mode accepts this edit, made by a file tool or by a simple file command (see `file_commands`)."""
        if need.kind == "write" and is_inside(real_path(need.target), self.policy.scratch):
            return True
        if need.kind == "write" and self._is_note(need.target):
            return True
        if need.kind == "write":
            secret = self.policy.find_concealed(self.call.resolve(need.target)) is not None
            return (
                self.policy.accepts_edits
                and self.call.is_inside(need.target)
                and not (secret or has_other_names(need.target))
            )
        return need.kind == "execute" and all(verdict.allowed for verdict in self.verdicts(need.target))

    def _readable_by_commands(self, need: Need) -> bool:
        """Auto mode: a file tool may read whatever a sandboxed command could read."""
        if need.kind != "read" or self.policy.mode is not PermissionMode.AUTO or not self.policy.contains(""):
            return False
        real = self.call.resolve(need.target)
        # Searching a folder could show files in it that an ask rule matches.
        asking = any(rule.spec is not None and rule.tool in READING_TOOLS for rule in self.policy.ask)
        return self.policy.commands_can_read(real) and not (asking and os.path.isdir(real))  # noqa: PTH112

    def _is_note(self, path: str) -> bool:
        return bool(self.policy.memory) and is_inside(real_path(path), self.policy.memory) and not has_other_names(path)

    def _by_containment(self, command: str) -> Decision | None:
        """Auto mode: allow a command that runs in a sandbox without network, unless undo does not cover its effects."""
        if self.policy.mode is not PermissionMode.AUTO or not self.policy.contains(command):
            return None
        rebuildable = Rebuildable(self.policy.installation, self.policy.search_path, self.call.working_dirs)
        if (objection := auto_mode.objection(command, self.call.cwd, rebuildable)) is not None:
            return _make_question(objection.clause, objection.part)
        words = (*self._list_counted_words(command), str(self.call.cwd))
        clause = auto_mode.find_obeyed_name(words) or self._writes_outside(command)
        if clause is not None:
            return _make_question(clause)
        return Decision("allow", "allowed because a sandbox without network contains it", findings=self._findings())

    def _writes_outside(self, command: str) -> str | None:
        open_folders = (*self.policy.scratch, *self.policy.writable)
        for part in self.parts(command):
            for path in written_paths(part):
                place = self.locate(str(path), part)
                if place.startswith("/dev/") or self.call.is_inside(place):
                    continue
                if not is_inside(self.call.resolve(place), open_folders):
                    return f"it writes {path}, outside the working directories"
        return None

    def grant(self, approved: Approval) -> Grant:
        """See `Policy.grant`."""
        command = next((need.target for need in self.call.needs if need.kind == "execute"), None)
        if command is None:
            return ORDINARY
        parts, only_reads = self.parts(command), self._reads_only(command)
        rules = (self.policy.allow, self.policy.deny)
        grant = grant_for(parts, self.policy.mode, rules, approved=approved != "mode", only_reads=only_reads)
        if approved == "answer":
            opened = (Path(path) for _word, path in self.call.list_named_paths(command) if self.is_protected(path))
            return replace(grant, guards_obeyed_names=False, opened_names=tuple(dict.fromkeys(opened)))
        if approved == "mode":
            return grant
        # A broad rule such as Bash(git *) grants neither paths to write nor settings to change.
        rules_of_parts = [self.rule_for(part) for part in parts]
        if all(rule is not None and rule.spec is not None and not is_wild(rule) for rule in rules_of_parts):
            return grant
        covered = (path for path in grant.write if self.path_rule(Need("write", str(path))) is not None)
        named = any(rule is not None and names_git_settings(rule) for rule in rules_of_parts)
        return replace(grant, write=tuple(covered), git_settings=grant.git_settings and named)

    def credential_rules(self) -> tuple[str, ...]:
        """See `Policy.credential_rules`."""
        commands = [need.target for need in self.call.needs if need.kind == "execute"]
        verdicts = self.verdicts(commands[0]) if len(commands) == 1 else []
        parts = [verdict.part for verdict in verdicts if verdict.part is not None]
        names = credential_variables(parts, self.policy.credentials) if len(parts) == len(verdicts) else ()
        return tuple(rule_text(CREDENTIALS, f"{parts[0].inner[0].rpartition('/')[2]}:{name}") for name in names)

    def hides(self, path: str) -> bool:
        """See `Policy.hides`."""
        return self.policy.find_concealed(self.call.resolve(path)) is not None or any(
            rule.spec is not None and self._restricts(rule) for rule in self.policy.deny
        )

    def _ask_about(self, command: str) -> Decision:
        verdicts = self.verdicts(command)
        first = next(verdict for verdict in verdicts if not verdict.allowed)
        part = first.text if len(verdicts) > 1 and first.text not in first.clause else ""
        return replace(_make_question(first.clause, part), findings=self._findings(), cause_listed=True)

    def _findings(self) -> tuple[PartFinding, ...]:
        commands = (need.target for need in self.call.needs if need.kind == "execute")
        return tuple(verdict.finding for command in commands for verdict in self.verdicts(command))

    # -------------------------------------------------------------------------------------- calls without approval

    def _harmless(self, need: Need) -> bool:
        if need.kind in ("none", "agent"):
            return True
        if need.kind == "read":
            inside = (
                self.call.is_inside(need.target) and self.policy.find_concealed(self.call.resolve(need.target)) is None
            )
            return inside or is_inside(
                real_path(need.target),
                (*self.policy.readable, *self.policy.scratch, *self.policy.memory, *self.policy.skill_folders()),
            )
        return need.kind == "execute" and self._reads_only(need.target)

    def _reads_only(self, command: str) -> bool:
        """Whether a command is read-only and every file it names may be read without approval."""
        parts = [verdict.part for verdict in self.verdicts(command)]
        return bool(parts) and all(part is not None and part.only_reads for part in parts)


def _deny_by(rule: Rule) -> Decision:
    return Decision("deny", f"denied by {origin(rule)}", rule.text, rule.source, denied_by=origin(rule))


def _make_question(clause: str, part: str = "") -> Decision:
    """The permission question for a call; `part`: the part of its command that needs approval, if there are several."""
    where = f" (in `{part}`)" if part else ""
    cause = show_command(f"{clause}{where}")
    return Decision("ask", f"Needs approval: {cause}", cause=cause, part=show_command(part))


def _make_question_about(need: Need, call: PermissionCall, *, concealed: bool) -> Decision:
    """The question about a call that no rule and no mode allows. `concealed`: it is about a place of credentials."""
    where = "is outside the working directories"
    real = need.real or (call.resolve(need.target) if need.kind in ("read", "write") else "")
    given = os.path.normpath(need.target)
    if real and real != given and is_below(given, (str(folder) for folder in call.working_dirs)):
        where = f"leads to {real}, which is outside the working directories"
    if need.kind in ("read", "write") and call.is_inside(need.target) and concealed:
        return _make_question(f"{need.target} is a known place of credentials")
    match need.kind:
        case "read":
            return _make_question(f"{need.target} {where}")
        case "write":
            if call.is_inside(need.target):
                if has_other_names(need.target):
                    return _make_question(f"{need.target} has hard links elsewhere, which would also change")
                return Decision("ask", f"writing {need.target} needs approval", self_evident=True)
            return _make_question(f"{need.target} {where}")
        case "fetch":
            query = need.target.removeprefix("search:")
            what = f"of {need.target}" if query == need.target else f'for "{plain_line(query, 200)}"'
            return Decision("ask", f"{call.tool_name} {what} needs approval", self_evident=True)
        case _:
            return Decision("ask", f"{call.tool_name} needs approval", self_evident=True)
