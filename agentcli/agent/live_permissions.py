"""The active permission policy: decides, counts the uses of each rule, and follows changes by the user or settings
files."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import ModeChanged
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Approval, Behavior, Decision, Grant, Need, PermissionMode, RuleChoice, SaveTo
from agentcli.permissions.command_grant import USER_ONLY, USER_ONLY_ADVICE
from agentcli.permissions.policy import EVALUATORS, Policy
from agentcli.permissions.rules import Rule, RuleScope, parse_rule, parse_rules
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.config.save import RuleKeeper

BEHAVIORS: tuple[Behavior, ...] = ("deny", "ask", "allow")
EDITABLE: tuple[SaveTo, ...] = ("session", "local", "project", "user")
_SESSION = "this session"


@frozen
class RuleEntry:
    """One active rule, its source, and its use in this session."""

    behavior: Behavior
    text: str
    source: str
    scope: RuleScope
    count: int = 0
    last: float | None = None
    """Time of its last decision, in seconds since the epoch."""
    inactive: str = ""
    """Why it has no effect; "" if it is active."""

    @property
    def editable(self) -> bool:
        return self.scope in EDITABLE and not self.inactive


class LivePermissions:
    """Decides with an immutable policy, which is replaced on every change."""

    def __init__(
        self,
        policy: Policy,
        files: RuleKeeper | None = None,
        *,
        reread: Callable[[], Policy] | None = None,
        now: Callable[[], float] = time.time,
        before_plan: PermissionMode = PermissionMode.DEFAULT,
    ) -> None:
        """`reread` builds the policy again from the current settings files; None: they are read once. `before_plan`:
        the mode that a policy in plan mode returns to."""
        self._policy = policy
        self._files = files
        self._reread = reread
        self._now = now
        self._before_plan = before_plan
        self._session: list[tuple[Behavior, Rule]] = []
        """Rules of this session only; kept when the files are read again."""
        self._granted: list[Rule] = []
        """Allow rules of commands and skills that are in use."""
        self._uses: dict[tuple[str, str, str], tuple[int, float]] = {}
        self._notices: list[str] = []
        self._seen = self._signature()

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def before_plan(self) -> PermissionMode:
        """The mode that an approved plan returns to."""
        return self._before_plan

    @property
    def is_late(self) -> bool:
        """Whether the modules that decide are still to be imported; see `warm`."""
        return EVALUATORS not in sys.modules

    async def warm(self, after: float = 0.0) -> None:
        """Import what the first decision needs, after `after` seconds."""
        if self.is_late:
            await asyncio.sleep(after)
            await in_thread(import_module, EVALUATORS)

    @property
    def mode(self) -> PermissionMode:
        return self.policy.mode

    def set_mode(self, mode: PermissionMode) -> None:
        if mode is PermissionMode.PLAN and self.policy.mode is not PermissionMode.PLAN:
            self._before_plan = self.policy.mode
        self._policy = self.policy.with_mode(mode)

    def mode_changed(self, reason: str) -> ModeChanged:
        """The event that reports and records the current mode."""
        returns_to = self.before_plan.value if self.mode is PermissionMode.PLAN else ""
        return ModeChanged(mode=self.mode.value, reason=reason, returns_to=returns_to)

    def leave_plan(self) -> None:
        """Leave plan mode for the previous mode. An answer may have left it already."""
        if self.policy.mode is PermissionMode.PLAN:
            self._policy = self.policy.with_mode(self.before_plan)

    def decide(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> Decision:
        return self._count(self.preview(name, input, needs, context))

    def _count(self, decision: Decision) -> Decision:
        if decision.rule:
            key = (decision.behavior, decision.rule, decision.source)
            self._uses[key] = (self._uses.get(key, (0, 0.0))[0] + 1, self._now())
        return decision

    def preview(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> Decision:
        """Like `decide`, without counting it as a use of the rule."""
        self.refresh()
        return self.policy.decide(name, input, needs, context.folder_of(needs), context.working_dirs)

    def rule_choices(self, name: str, needs: tuple[Need, ...], context: ToolContext) -> list[RuleChoice]:
        """Rules that an "always" answer can save, the most useful first."""
        return self.policy.suggest(name, needs, context.folder_of(needs), context.working_dirs).choices()

    def suggest_prefix(self, name: str, needs: tuple[Need, ...], context: ToolContext) -> list[str]:
        """Rules for this call and similar ones (`Bash(npm test *)`), for the hint of a non-interactive refusal; the
        exact rules where no prefix is safe, none where no rule can cover the call."""
        return self.policy.suggest(name, needs, context.folder_of(needs), context.working_dirs).prefix()

    def paths_to_undo(self, needs: tuple[Need, ...], context: ToolContext) -> list[str]:
        """Resolved paths in the working directories that a call may change because auto mode relies on undo."""
        if self.mode is not PermissionMode.AUTO:
            return []
        from agentcli.permissions.command_verdicts import PermissionCall

        call = PermissionCall.of("Bash", needs, context.folder_of(needs), context.working_dirs, None)
        named = [need.target for need in needs if need.kind == "write" and call.is_inside(need.target)]
        for need in needs:
            if need.kind == "execute":
                named += [str(call.cwd), *(path for _word, path in call.list_named_paths(need.target))]
        return [call.resolve(path) for path in named]

    def grant(self, needs: tuple[Need, ...], context: ToolContext, *, approved: Approval) -> Grant:
        """The rights of an allowed command beyond its sandbox's ordinary limits. `approved`: what allowed it."""
        return self.policy.grant(needs, context.folder_of(needs), context.working_dirs, approved=approved)

    def credential_rules(self, needs: tuple[Need, ...], context: ToolContext) -> tuple[str, ...]:
        """Rules that would pass a command the credential variables of its program, where those are set."""
        return self.policy.credential_rules(needs, context.folder_of(needs), context.working_dirs)

    def reaches(self, host: str) -> bool:
        """Whether a rule `WebFetch(private:HOST)` allows fetching from a name that resolves to a private address. A
        domain rule is not enough: it is given for a public host, and the owner of the name decides where it resolves
        to."""
        return any(rule.tool == "WebFetch" and rule.spec == f"private:{host}" for rule in self.policy.allow)

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        """Add allow rules that a user gave with an answer. Returns where they are saved: `session` or a file's path.
        They apply to this session in any case; if they cannot be saved, the text says why."""
        where = "session"
        scope: SaveTo = "session"
        if save_to != "session" and self._files is not None:
            self.refresh()
            try:
                _refuse_project_file(save_to, "allow", parse_rules(rules))
                where, scope = self._files.change(save_to, "allow", add=rules), save_to
            except AgentError as error:
                where = f"session only: {error}"
            self._seen = self._signature()
        learned = parse_rules(rules, _SESSION if where == "session" else where, scope)
        self._session += [("allow", rule) for rule in learned]
        self._policy = self.policy.with_rules(allow=learned)
        return where

    # ---------------------------------------------------------------------------------- rules of commands and skills

    def grant_rules(self, texts: Sequence[str], source: str) -> list[str]:
        """Add allow rules until `revoke_rules`; deny and ask rules still take precedence. Returns problems in the
        texts."""
        rules, problems = parse_granted_rules(texts, source)
        new = [rule for rule in rules if rule not in self._granted]
        if new:
            self._granted += new
            self._policy = self.policy.with_rules(allow=new)
        return problems

    def revoke_rules(self, *, but_from: str = "") -> None:
        """Remove the granted rules, except those from one source."""
        revoked = [rule for rule in self._granted if not but_from or rule.source != but_from]
        if revoked:
            self._granted = [rule for rule in self._granted if rule not in revoked]
            self._policy = replace(self.policy, allow=tuple(rule for rule in self.policy.allow if rule not in revoked))

    # ------------------------------------------------------------------------------------------------ the user's rules

    def entries(self) -> list[RuleEntry]:
        """All active rules in order of precedence."""
        self.refresh()
        found = []
        for behavior in BEHAVIORS:
            for rule in dict.fromkeys(_rules(self.policy, behavior)):
                count, last = self._uses.get((behavior, rule.text, rule.source), (0, None))
                found.append(RuleEntry(behavior, rule.text, rule.source, rule.scope, count, last))
        return found

    def change(
        self,
        scope: SaveTo,
        behavior: Behavior,
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        source: str = _SESSION,
    ) -> str:
        """Remove and add rules; returns where. Raises `AgentError` (`UsageError` for an invalid rule); nothing is
        changed then. `source`: what questions name as the origin of a rule for the session."""
        self.refresh()
        added = parse_rules(add, source, "session")
        gone = {rule.text for rule in parse_rules(remove)}
        if scope != "session":
            if self._files is None:
                raise AgentError("There is no settings file to save rules in.")
            _refuse_project_file(scope, behavior, added)
            where = self._files.change(scope, behavior, add=[rule.text for rule in added], remove=sorted(gone))
            self._forget(behavior, gone, where)
            self.read_again()
            return where
        missing = gone - {rule.text for kind, rule in self._session if kind == behavior}
        if missing:
            raise AgentError(f"This session has no {behavior} rule {min(missing)} of its own.")
        self._forget(behavior, gone, None)
        self._session += [(behavior, rule) for rule in added]
        self._policy = self.policy.with_rules(**{behavior: added})
        return "this session"

    def _forget(self, behavior: Behavior, texts: set[str], source: str | None) -> None:
        """Remove rules from this session: those from one file, or the session's own (None)."""

        def goes(rule: Rule) -> bool:
            own = rule.scope == "session" if source is None else rule.source == source
            return rule.text in texts and own

        self._session = [(kind, rule) for kind, rule in self._session if kind != behavior or not goes(rule)]
        kept = tuple(rule for rule in _rules(self.policy, behavior) if not goes(rule))
        self._policy = _with_kind(self.policy, behavior, kept)

    # -------------------------------------------------------------------------------------------------- settings files

    def refresh(self) -> bool:
        """Reload settings files that have changed; returns whether one has. Costs a `stat` per file."""
        signature = self._signature()
        if signature == self._seen:
            return False
        self.reload()
        return True

    def reload(self, fresh: Policy | None = None) -> None:
        """Use the rules of the settings files as they are now, and report what has changed. `fresh`: a policy that was
        just built from them."""
        before = self.policy
        self.read_again(fresh)
        if text := _changes(before, self.policy):
            self._notices.append(text)

    def take_notice(self) -> str | None:
        return self._notices.pop(0) if self._notices else None

    def read_again(self, fresh: Policy | None = None) -> None:
        """Load the settings files, whether they have changed or not. `fresh` as for `reload`."""
        if self._reread is None:
            return
        if fresh is None:
            # Taken before reading, so that a change in between is found the next time.
            self._seen = self._signature()
            try:
                fresh = self._reread()
            except AgentError as error:
                self._notices.append(f"Permission rules could not be reloaded, the old ones apply: {error}")
                return
        # The running sandbox does not hide the files of a new deny rule.
        hidden = self.policy.hidden_from_commands if set(fresh.deny) <= set(self.policy.deny) else None
        policy = replace(
            self.policy,
            allow=(*fresh.allow, *self._granted),
            ask=fresh.ask,
            deny=fresh.deny,
            trusted=fresh.trusted,
            hidden_from_commands=hidden or fresh.hidden_from_commands,
        )
        # In a folder that was never trusted, its files allow nothing, so rules saved there stay session rules.
        untrusted = not (self.policy.trusted or fresh.trusted)
        scopes = ("session", "local", "project") if untrusted else ("session",)
        own = [(kind, rule) for kind, rule in self._session if rule.scope in scopes]
        for kind, rule in own:
            policy = _with_kind(policy, kind, (*_rules(policy, kind), rule))
        self._policy, self._session = policy, own

    def _signature(self) -> tuple[object, ...]:
        if self._files is None or self._reread is None:
            return ()
        found: list[object] = []
        for path in self._files.paths.values():
            try:
                status = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        return tuple(found)


def _rules(policy: Policy, behavior: Behavior) -> tuple[Rule, ...]:
    return {"allow": policy.allow, "ask": policy.ask, "deny": policy.deny}[behavior]


def _with_kind(policy: Policy, behavior: Behavior, rules: tuple[Rule, ...]) -> Policy:
    kind: dict[str, Any] = {behavior: rules}
    return replace(policy, **kind)


def _changes(before: Policy, after: Policy) -> str:
    """`Permission rules reloaded: +1 allow from FILE`; empty when the same rules are active."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for behavior in BEHAVIORS:
        old = {(rule.text, rule.source) for rule in _rules(before, behavior)}
        new = {(rule.text, rule.source) for rule in _rules(after, behavior)}
        counts.update((source, "+", behavior) for _text, source in new - old)
        counts.update((source, "−", behavior) for _text, source in old - new)
    by_source: dict[str, list[str]] = {}
    for (source, sign, kind), count in sorted(counts.items()):
        by_source.setdefault(source, []).append(f"{sign}{count} {kind}")
    if not by_source:
        return ""
    listed = "; ".join(f"{', '.join(parts)} from {source}" for source, parts in by_source.items())
    lost = before.trusted and not after.trusted
    trust = " The settings of this folder changed: run agentcli trust to apply their allow rules again." if lost else ""
    return f"Permission rules reloaded: {listed}.{trust}"


def parse_granted_rules(texts: Sequence[str], source: str) -> tuple[list[Rule], list[str]]:
    """The rules that a command or skill lends, each once, and the problems of invalid texts."""
    rules: dict[Rule, None] = {}
    problems = []
    for text in texts:
        try:
            rule = parse_rule(text, source)
        except UsageError as error:
            problems.append(str(error))
            continue
        if rule.tool in USER_ONLY:
            problems.append(f"{rule.text} is ignored. {USER_ONLY_ADVICE}")
        else:
            rules[rule] = None
    return list(rules), problems


def _refuse_project_file(save_to: SaveTo, behavior: Behavior, rules: Sequence[Rule]) -> None:
    """Raise `AgentError` for a rule that would not apply from a file of the project."""
    if behavior == "allow" and save_to in ("local", "project") and any(rule.tool in USER_ONLY for rule in rules):
        raise AgentError(USER_ONLY_ADVICE)
