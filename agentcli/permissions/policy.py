"""The permission decision: whether a call may run, needs approval or is denied, and why.

`Policy` is immutable and decides in one fixed order: deny rules, checks that apply in every mode, ask rules, plan mode,
protected paths, allow rules, the mode. It reads links on disk but changes nothing, runs nothing and asks nobody; a
non-interactive caller treats "ask" as "deny".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.files.links import is_below
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
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
from agentcli.core.text.plaintext import has_control_characters, plain_line, shown_command
from agentcli.permissions import auto_mode
from agentcli.permissions.command_grant import (
    CREDENTIALS,
    credential_variables,
    grant_for,
    names_git_settings,
    written_paths,
)
from agentcli.permissions.command_verdicts import (
    ACCEPTED,
    SCRATCH,
    CommandJudge,
    PartVerdict,
    PermissionCall,
    is_wild,
    origin,
)
from agentcli.permissions.late_policy import LatePolicy
from agentcli.permissions.rules import READING_TOOLS, Rule, host_of, is_private_host, rule_text
from agentcli.shell.commands.changed_words import counted_text
from agentcli.shell.commands.removal import Rebuildable, removed_essential
from agentcli.shell.parser.loose_parser import loose_words, unclear_program
from agentcli.shell.parser.syntax_tree import too_long
from agentcli.shell.paths import has_other_names, is_inside, real_path

if TYPE_CHECKING:
    from agentcli.permissions.suggest import Suggestions

_PLANNING = (
    "Plan mode is active, and this call may change something: keep exploring with calls that only read, then present "
    "the plan with ExitPlanMode, or as your answer where there is no such tool."
)


_BUILT_IN = ("always asks", "agentcli")
"""Rule and source of built-in questions: no rule and no hook can answer them."""
_MAX_MATCHED = 100_000
"""Characters of an overlong command that are still checked against deny rules."""


@frozen
class Policy(LatePolicy):
    def ready(self) -> Policy:
        return self

    def suggest(self, tool_name: str, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]) -> Suggestions:
        from agentcli.permissions.suggest import Suggestions

        call = PermissionCall.of(tool_name, needs, cwd, working_dirs, self.home)
        return Suggestions(self, call, tuple(needs))

    def hides(self, path: str, cwd: Path, working_dirs: Sequence[Path]) -> bool:
        """Whether a deny rule forbids reading this file; searches of its folder must not show it either."""
        call = PermissionCall.of("Read", (Need("read", path),), cwd, working_dirs, self.home)
        return self.concealed(call.resolve(path)) is not None or any(
            rule.spec is not None and self._restricts(rule, call) for rule in self.deny
        )

    def is_protected(self, path: str, call: PermissionCall, *, scripts: bool = True) -> bool:
        """Whether other programs, or agentcli itself, run or obey the file at a path."""
        if call.is_protected(path, scripts=scripts):
            return True
        real = call.resolve(path)
        return is_below(real, self.own_folders) and not is_inside(real, self.readable)

    def decide(
        self,
        tool_name: str,
        input: Json,
        needs: Sequence[Need],
        cwd: Path,
        working_dirs: Sequence[Path],
    ) -> Decision:
        call = PermissionCall.of(tool_name, needs, cwd, working_dirs, self.home)
        decision = (
            self._by_length(call)
            or self._by_privacy(call)
            or self._by_restriction("deny", self.deny, call)
            or self._by_question(call)
            or self._by_always_asking(call)
            or self._by_restriction("ask", self.ask, call)
            or self._by_plan_mode(call)
            or self._by_protected_path(call)
            or self._by_allow_rules(call)
            or self._by_mode(call)
        )
        if decision.behavior == "ask" and self.mode is PermissionMode.DONT_ASK:
            cause = decision.cause or decision.reason
            reason = f"The mode dontAsk denies calls that need approval: {cause}"
            return replace(decision, behavior="deny", reason=reason, denied_by="dontAsk mode")
        return decision

    # ------------------------------------------------------------------------------------------ in every mode

    def _by_privacy(self, call: PermissionCall) -> Decision | None:
        for need in call.needs if self.private else ():
            named = [need.target] if need.kind in ("read", "write") else []
            if need.kind == "execute":
                named = [path for _word, path in call.named_paths(need.target)]
            if any(self.private_file(call.resolve(path)) is not None for path in named):
                return Decision("deny", "denied: agentcli keeps API keys there", *_BUILT_IN)
        return None

    def _by_restriction(self, behavior: str, rules: tuple[Rule, ...], call: PermissionCall) -> Decision | None:
        for rule in rules:
            if not self._restricts(rule, call):
                continue
            if behavior == "deny":
                return _denied_by(rule)
            return replace(_asked(f"it matches {origin(rule)}"), rule=rule.text, source=rule.source)
        return None

    def _by_length(self, call: PermissionCall) -> Decision | None:
        """Decide on a command too long to parse: deny rules apply, otherwise ask. None: the other checks decide."""
        if not any(need.kind == "execute" and too_long(need.target) for need in call.needs):
            return None
        about = [rule for rule in (*self.deny, *self.ask) if rule.names(call.tool_name) or rule.spec is not None]
        if self.refuses_always(call.tool_name) or self.mode is PermissionMode.PLAN:
            return None
        if self.mode is PermissionMode.BYPASS and not about:
            return None
        texts = [need.target for need in call.needs if need.kind == "execute"]
        if any(map(has_control_characters, texts)):
            return self._by_always_asking(call)
        for rule in self.deny:
            if rule.names(call.tool_name) and any(rule.matches_somewhere(text[:_MAX_MATCHED]) for text in texts):
                return _denied_by(rule)
        reason = "the command is too long to check; put it into a file or split it"
        return Decision("ask", reason, *_BUILT_IN)

    def _restricts(self, rule: Rule, call: PermissionCall) -> bool:
        if rule.spec is None:
            return rule.names(call.tool_name)
        for need in call.needs:
            if need.kind == "execute":
                if rule.names(call.tool_name) and rule.matches_somewhere(need.target):
                    return True
                if self._names_path(rule, need.target, call):
                    return True
            elif need.kind in ("read", "write"):
                # A rule against reading also forbids writing: an edit shows the text that it replaces.
                about = rule.covers_path(need) or rule.tool in READING_TOOLS
                if about and call.restricted_by(rule, need.target):
                    return True
            elif need.kind == "fetch":
                if rule.names(call.tool_name) and (rule.matches_host(host_of(need.target)) or rule.spec == need.target):
                    return True
            elif rule.names(call.tool_name) and any(
                rule.matches_value(value) for value in (need.target, need.target.rpartition(":")[2])
            ):
                return True
        return False

    def _names_path(self, rule: Rule, command: str, call: PermissionCall) -> bool:
        if not (rule.covers_path(Need("read")) or rule.covers_path(Need("write"))):
            return False
        return any(call.restricted_by(rule, path) for _word, path in call.named_paths(command))

    @staticmethod
    def _by_question(call: PermissionCall) -> Decision | None:
        if any(need.kind == "question" for need in call.needs):
            return replace(_asked(f"{call.tool_name} asks the user"), self_evident=True)
        return None

    def _by_always_asking(self, call: PermissionCall) -> Decision | None:
        for need in call.needs:
            # Plan mode refuses every write anyway.
            if need.kind == "write" and self.mode is not PermissionMode.PLAN and self.runs_agentcli(need.target, call):
                reason = f"Needs approval in every mode: {need.target} is part of the installation that runs agentcli"
                return Decision("ask", reason, *_BUILT_IN)
            if need.kind != "execute":
                continue
            if has_control_characters(need.target):
                return Decision("deny", "the command contains control characters; write it without them")
            removed = removed_essential(need.target, call.cwd, call.working_dirs, self.home)
            if removed is not None:
                reason = f"Needs approval in every mode: this would remove {removed}, which may hold your files"
                return Decision("ask", shown_command(reason), *_BUILT_IN)
            # Plan mode refuses such a command anyway.
            denying = self.mode is not PermissionMode.PLAN and any(
                rule.spec is not None and rule.names(call.tool_name) for rule in self.deny
            )
            unclear = unclear_program(need.target) if denying else None
            if unclear is not None:
                clause = f"{unclear} runs an unknown program, and {call.tool_name} has deny rules"
                return replace(_asked(clause), rule=_BUILT_IN[0], source=_BUILT_IN[1])
        return None

    # -------------------------------------------------------------------------------------------- by mode, rules

    def _by_plan_mode(self, call: PermissionCall) -> Decision | None:
        if self.mode is not PermissionMode.PLAN:
            return None
        for need in call.needs:
            changes = need.kind == "write" or (need.kind == "other" and not need.is_declared_read_only)
            if changes or (need.kind == "execute" and not self._reads_only(need.target, call)):
                return Decision("deny", _PLANNING, findings=self._findings(call), denied_by="plan mode")
        return None

    def _by_protected_path(self, call: PermissionCall) -> Decision | None:
        if self.mode is PermissionMode.BYPASS:
            return None
        for need in call.needs:
            if (
                need.kind == "write"
                and self.is_protected(need.target, call)
                and (call.is_protected(need.target) or not self._is_note(need.target))
            ):
                where = f"{need.target}, which leads to {need.real}," if need.real else need.target
                return replace(_asked(f"{where} is a protected path that other programs run or obey"), protected=True)
            if need.kind == "execute" and not self._reads_only(need.target, call):
                # A command that runs inside a protected folder may name its files without a path.
                named = call.paths_of(self._counted_words(need.target, call), need.target)
                for word, path in (*sorted(named), (str(call.cwd), str(call.cwd))):
                    if self.is_protected(path, call, scripts=False):
                        clause = f"{word} is a protected path that other programs run or obey"
                        return replace(_asked(clause), findings=self._findings(call), protected=True)
        return None

    def _counted_words(self, command: str, call: PermissionCall) -> frozenset[str]:
        """The words of a command that could name a file it changes."""
        text = counted_text([verdict.part for verdict in self.verdicts(command, call)])
        return loose_words(command if text is None else text)

    def _by_allow_rules(self, call: PermissionCall) -> Decision | None:
        private = any(need.kind == "fetch" and is_private_host(host_of(need.target)) for need in call.needs)
        for rule in self.allow:
            # An address in a private network must be named by a rule.
            if rule.spec is None and rule.names(call.tool_name) and not private and self._may_open(rule, call):
                return self._allowed_by(rule)
        deciding: list[Rule] = []
        for need in call.needs:
            rules = self.rules_covering(need, call)
            if rules is None:
                return None
            deciding += rules
        return replace(self._allowed_by(deciding[0]), findings=self._findings(call)) if deciding else None

    def rules_covering(self, need: Need, call: PermissionCall) -> list[Rule] | None:
        """The rules that together allow a need: empty if it is harmless without any, None if it is not allowed."""
        if self._harmless(need, call):
            return []
        if need.kind == "execute":
            verdicts = self.verdicts(need.target, call)
            if not all(verdict.allowed for verdict in verdicts):
                return None
            return [verdict.rule for verdict in verdicts if verdict.rule is not None]
        rule = self.path_rule(need, call) if need.kind in ("read", "write") else self._value_rule(need, call)
        return None if rule is None else [rule]

    def path_rule(self, need: Need, call: PermissionCall) -> Rule | None:
        for rule in self.allow:
            # Permission to edit a file includes reading it.
            about = rule.covers_path(need) or (need.kind == "read" and rule.covers_path(Need("write")))
            matches = about and rule.matches_path(need.target, call.start, self.home, strict=True)
            if matches and self._may_open(rule, call):
                return rule
        return None

    def _may_open(self, rule: Rule, call: PermissionCall) -> bool:
        """Whether a rule may allow what the call reads and writes: places of credentials are opened by the user's own
        rules only, not by those of a project or of a skill."""
        named = (need.target for need in call.needs if need.kind in ("read", "write"))
        return rule.is_of_user or not any(self.concealed(call.resolve(path)) for path in named)

    def _value_rule(self, need: Need, call: PermissionCall) -> Rule | None:
        for rule in self.allow:
            if not rule.names(call.tool_name):
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
    def _allowed_by(rule: Rule) -> Decision:
        return Decision("allow", f"allowed by {origin(rule)}", rule.text, rule.source)

    def _by_mode(self, call: PermissionCall) -> Decision:
        if self.mode is PermissionMode.BYPASS:
            return Decision("allow", "allowed because permission checks are off")
        for need in call.needs:
            if self._harmless(need, call) or self._accepted(need, call) or self._readable_by_commands(need, call):
                continue
            if need.kind == "execute":
                contained = self._by_containment(need.target, call)
                if contained is None or contained.behavior == "ask":
                    return contained or self._asked_about(need.target, call)
                continue
            if need.kind == "other" and need.target.startswith(TOOL_VERSION):
                allowed = next((rule for rule in self.allow if rule.names(call.tool_name)), None)
                if allowed is not None:
                    return _asked(f"its server has changed it since it was allowed by {origin(allowed)}")
            return _question(need, call, concealed=self.concealed(call.resolve(need.target)) is not None)
        if any(need.kind == "agent" for need in call.needs):
            return Decision("allow", "allowed because each call of the agent is decided on its own")
        if all(self._harmless(need, call) for need in call.needs):
            return Decision("allow", "allowed because it is read-only", findings=self._findings(call))
        if all(self._harmless(need, call) or self._readable_by_commands(need, call) for need in call.needs):
            return Decision(
                "allow", "allowed because sandboxed commands can read it too", findings=self._findings(call)
            )
        if any(need.kind == "write" and self._is_note(need.target) for need in call.needs):
            return Decision("allow", "allowed because it is a note in this project's memory")
        commands = (need.target for need in call.needs if need.kind == "execute")
        by_sandbox = next((found for text in commands if (found := self._by_containment(text, call))), None)
        accepted = ACCEPTED if self.accepts_edits else SCRATCH
        return by_sandbox or Decision("allow", f"allowed because {accepted}", findings=self._findings(call))

    def _accepted(self, need: Need, call: PermissionCall) -> bool:
        """Whether the mode accepts this edit, made by a file tool or by a simple file command (see `file_commands`)."""
        if need.kind == "write" and is_inside(real_path(need.target), self.scratch):
            return True
        if need.kind == "write" and self._is_note(need.target):
            return True
        if need.kind == "write":
            secret = self.concealed(call.resolve(need.target)) is not None
            return self.accepts_edits and call.is_inside(need.target) and not (secret or has_other_names(need.target))
        return need.kind == "execute" and all(verdict.allowed for verdict in self.verdicts(need.target, call))

    def _readable_by_commands(self, need: Need, call: PermissionCall) -> bool:
        """Auto mode: a file tool may read whatever a sandboxed command could read."""
        if need.kind != "read" or self.mode is not PermissionMode.AUTO or not self.contains(""):
            return False
        real = call.resolve(need.target)
        # Searching a folder could show files in it that an ask rule matches.
        asking = any(rule.spec is not None and rule.tool in READING_TOOLS for rule in self.ask)
        return self.commands_can_read(real) and not (asking and os.path.isdir(real))  # noqa: PTH112

    def _is_note(self, path: str) -> bool:
        return bool(self.memory) and is_inside(real_path(path), self.memory) and not has_other_names(path)

    @property
    def accepts_edits(self) -> bool:
        return self.mode in (PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO)

    def _by_containment(self, command: str, call: PermissionCall) -> Decision | None:
        """Auto mode: allow a command that runs in a sandbox without network, unless undo does not cover its effects."""
        if self.mode is not PermissionMode.AUTO or not self.contains(command):
            return None
        rebuildable = Rebuildable(self.installation, self.search_path, call.working_dirs)
        if (objection := auto_mode.objection(command, call.cwd, rebuildable)) is not None:
            return _asked(objection.clause, objection.part)
        clause = auto_mode.obeyed_name((*self._counted_words(command, call), str(call.cwd))) or self._writes_outside(
            command, call
        )
        if clause is not None:
            return _asked(clause)
        return Decision("allow", "allowed because a sandbox without network contains it", findings=self._findings(call))

    def _writes_outside(self, command: str, call: PermissionCall) -> str | None:
        judge = CommandJudge(self, call)
        open_folders = (*self.scratch, *self.writable)
        for verdict in judge.verdicts(command):
            for path in written_paths(verdict.part) if verdict.part is not None else ():
                place = judge.located(str(path), verdict.part) if verdict.part is not None else str(path)
                if place.startswith("/dev/") or call.is_inside(place) or is_inside(call.resolve(place), open_folders):
                    continue
                return f"it writes {path}, outside the working directories"
        return None

    def grant(self, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path], *, approved: Approval) -> Grant:
        """What an allowed call may do beyond the limits of its sandbox."""
        command = next((need.target for need in needs if need.kind == "execute"), None)
        if command is None:
            return ORDINARY
        call = PermissionCall.of("Bash", needs, cwd, working_dirs, self.home)
        verdicts = self.verdicts(command, call)
        parts = [verdict.part for verdict in verdicts if verdict.part is not None]
        only_reads = self._reads_only(command, call)
        rules = (self.allow, self.deny)
        grant = grant_for(parts, self.mode, rules, approved=approved != "mode", only_reads=only_reads)
        if approved == "answer":
            opened = (Path(path) for _word, path in call.named_paths(command) if self.is_protected(path, call))
            return replace(grant, guards_obeyed_names=False, opened_names=tuple(dict.fromkeys(opened)))
        if approved == "mode":
            return grant
        # A broad rule such as Bash(git *) grants neither paths to write nor settings to change.
        judge = CommandJudge(self, call)
        rules_of_parts = [judge.rule_for(part) for part in parts]
        if all(rule is not None and rule.spec is not None and not is_wild(rule) for rule in rules_of_parts):
            return grant
        covered = (path for path in grant.write if self.path_rule(Need("write", str(path)), call) is not None)
        named = any(rule is not None and names_git_settings(rule) for rule in rules_of_parts)
        return replace(grant, write=tuple(covered), git_settings=grant.git_settings and named)

    def credential_rules(self, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]) -> tuple[str, ...]:
        """Rules that would pass the credential variables that are set to the command's program."""
        call = PermissionCall.of("Bash", needs, cwd, working_dirs, self.home)
        commands = [need.target for need in needs if need.kind == "execute"]
        verdicts = self.verdicts(commands[0], call) if len(commands) == 1 else []
        parts = [verdict.part for verdict in verdicts if verdict.part is not None]
        names = credential_variables(parts, self.credentials) if len(parts) == len(verdicts) else ()
        return tuple(rule_text(CREDENTIALS, f"{parts[0].inner[0].rpartition('/')[2]}:{name}") for name in names)

    def _asked_about(self, command: str, call: PermissionCall) -> Decision:
        verdicts = self.verdicts(command, call)
        first = next(verdict for verdict in verdicts if not verdict.allowed)
        part = first.text if len(verdicts) > 1 and first.text not in first.clause else ""
        return replace(_asked(first.clause, part), findings=self._findings(call), cause_listed=True)

    def _findings(self, call: PermissionCall) -> tuple[PartFinding, ...]:
        commands = (need.target for need in call.needs if need.kind == "execute")
        return tuple(verdict.finding for command in commands for verdict in self.verdicts(command, call))

    # -------------------------------------------------------------------------------------- calls without approval

    def _harmless(self, need: Need, call: PermissionCall) -> bool:
        if need.kind in ("none", "agent"):
            return True
        if need.kind == "read":
            inside = call.is_inside(need.target) and self.concealed(call.resolve(need.target)) is None
            return inside or is_inside(
                real_path(need.target), (*self.readable, *self.scratch, *self.memory, *self.skill_folders())
            )
        return need.kind == "execute" and self._reads_only(need.target, call)

    def _reads_only(self, command: str, call: PermissionCall) -> bool:
        """Whether a command is read-only and every file it names may be read without approval."""
        parts = [verdict.part for verdict in self.verdicts(command, call)]
        return bool(parts) and all(part is not None and part.only_reads for part in parts)

    def verdicts(self, command: str, call: PermissionCall) -> list[PartVerdict]:
        """One verdict per part of a command; a command that cannot be parsed is one part that needs approval."""
        return CommandJudge(self, call).verdicts(command)

    def runs_agentcli(self, path: str, call: PermissionCall) -> bool:
        # Some file systems ignore case; asking too often does no harm.
        return is_below(call.resolve(path).lower(), (str(part).lower() for part in self.installation))


def _denied_by(rule: Rule) -> Decision:
    return Decision("deny", f"denied by {origin(rule)}", rule.text, rule.source, denied_by=origin(rule))


def _asked(clause: str, part: str = "") -> Decision:
    """The permission question for a call; `part`: the part of its command that needs approval, if there are several."""
    where = f" (in `{part}`)" if part else ""
    cause = shown_command(f"{clause}{where}")
    return Decision("ask", f"Needs approval: {cause}", cause=cause, part=shown_command(part))


def _question(need: Need, call: PermissionCall, *, concealed: bool) -> Decision:
    """The question about a call that no rule and no mode allows. `concealed`: it is about a place of credentials."""
    where = "is outside the working directories"
    real = need.real or (call.resolve(need.target) if need.kind in ("read", "write") else "")
    given = os.path.normpath(need.target)
    if real and real != given and is_below(given, (str(folder) for folder in call.working_dirs)):
        where = f"leads to {real}, which is outside the working directories"
    if need.kind in ("read", "write") and call.is_inside(need.target) and concealed:
        return _asked(f"{need.target} is a known place of credentials")
    match need.kind:
        case "read":
            return _asked(f"{need.target} {where}")
        case "write":
            if call.is_inside(need.target):
                if has_other_names(need.target):
                    return _asked(f"{need.target} has hard links elsewhere, which would also change")
                return Decision("ask", f"writing {need.target} needs approval", self_evident=True)
            return _asked(f"{need.target} {where}")
        case "fetch":
            query = need.target.removeprefix("search:")
            what = f"of {need.target}" if query == need.target else f'for "{plain_line(query, 200)}"'
            return Decision("ask", f"{call.tool_name} {what} needs approval", self_evident=True)
        case _:
            return Decision("ask", f"{call.tool_name} needs approval", self_evident=True)
