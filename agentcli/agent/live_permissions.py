"""The active policy: it decides, counts what each rule decided, and changes when the user or a settings file does."""

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
from agentcli.core.frozen import frozen
from agentcli.core.grant import Approval, Grant
from agentcli.core.messages import Json
from agentcli.core.permission import Behavior, Decision, Need, PermissionMode, RuleChoice, SaveTo
from agentcli.permissions.late_policy import EVALUATORS, LatePolicy
from agentcli.permissions.rules.rule import Rule, RuleScope, parse_rule, parse_rules
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.config.save import RuleKeeper

BEHAVIORS: tuple[Behavior, ...] = ("deny", "ask", "allow")
EDITABLE: tuple[SaveTo, ...] = ("session", "local", "project", "user")
_SESSION = "this session"
_POLL_SECONDS = 2.0
"""Three `stat` calls: cheaper than a watcher, and it finds files in folders that do not exist yet."""


@frozen
class RuleEntry:
    """One active rule, where it is from, and what it decided in this session."""

    behavior: Behavior
    text: str
    source: str
    scope: RuleScope
    count: int = 0
    last: float | None = None
    """When it last decided something, in seconds since the epoch."""

    @property
    def editable(self) -> bool:
        return self.scope in EDITABLE


class LivePermissions:
    """Decides with an immutable policy that is replaced, never changed."""

    def __init__(
        self,
        policy: LatePolicy,
        files: RuleKeeper | None = None,
        *,
        reread: Callable[[], LatePolicy] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`reread` makes the policy again from the settings files as they are now; None: they are read once."""
        self.policy = policy
        self._files = files
        self._reread = reread
        self._now = now
        self._before_plan = PermissionMode.DEFAULT if policy.mode is PermissionMode.PLAN else policy.mode
        self._session: list[tuple[Behavior, Rule]] = []
        """Rules of this session only, which survive that the files are read again."""
        self._lent: list[Rule] = []
        """Allow rules of commands and skills that are in use."""
        self._uses: dict[tuple[str, str, str], tuple[int, float]] = {}
        self._notices: list[str] = []
        self._seen = self._signature()

    @property
    def is_late(self) -> bool:
        """Whether the code that decides is still to be imported; see `warm`."""
        return type(self.policy) is LatePolicy

    async def warm(self, after: float = 0.0) -> None:
        """Import what the first decision needs, some seconds from now. Not for the permissions of a sub-agent, which
        uses those of the session."""
        if EVALUATORS not in sys.modules:
            await asyncio.sleep(after)
            await in_thread(import_module, EVALUATORS)
        self.policy = self.policy.ready()

    @property
    def mode(self) -> PermissionMode:
        return self.policy.mode

    def set_mode(self, mode: PermissionMode) -> None:
        if mode is PermissionMode.PLAN and self.policy.mode is not PermissionMode.PLAN:
            self._before_plan = self.policy.mode
        self.policy = self.policy.with_mode(mode)

    def leave_plan(self) -> PermissionMode:
        """Leave plan mode for the mode before it; returns the active mode. An answer may have left it already."""
        if self.policy.mode is PermissionMode.PLAN:
            self.policy = self.policy.with_mode(self._before_plan)
        return self.policy.mode

    def decide(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> Decision:
        return self._counted(self.preview(name, input, needs, context))

    def _counted(self, decision: Decision) -> Decision:
        if decision.rule:
            key = (decision.behavior, decision.rule, decision.source)
            self._uses[key] = (self._uses.get(key, (0, 0.0))[0] + 1, self._now())
        return decision

    def preview(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> Decision:
        """What `decide` would say, without counting it."""
        self.refresh()
        return self.policy.decide(name, input, needs, context.folder_of(needs), context.working_dirs)

    def rule_choices(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[RuleChoice]:
        """What an "always" answer can save, narrowest first."""
        return self.policy.suggest(name, needs, context.folder_of(needs), context.working_dirs).choices()

    def suggest_prefix(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[str]:
        """Rules for this call and similar ones (`Bash(npm test *)`), for the hint of a non-interactive refusal; the
        exact rules where no prefix is safe, none where no rule can cover the call."""
        return self.policy.suggest(name, needs, context.folder_of(needs), context.working_dirs).prefix()

    def grant(self, needs: tuple[Need, ...], context: ToolContext, *, approved: Approval) -> Grant:
        """What an allowed command may do beyond its sandbox's ordinary limits. `approved`: what allowed it."""
        return self.policy.grant(needs, context.folder_of(needs), context.working_dirs, approved=approved)

    def credential_rules(self, needs: tuple[Need, ...], context: ToolContext) -> tuple[str, ...]:
        """Rules that would give a command the variables that its program signs in with, where those are set."""
        return self.policy.credential_rules(needs, context.folder_of(needs), context.working_dirs)

    def reaches(self, host: str) -> bool:
        """Whether a rule `WebFetch(private:HOST)` lets a name be fetched from that leads to a private address. A domain
        rule is not enough: it is given for a public place, and whoever owns the name decides where it leads."""
        return any(rule.tool == "WebFetch" and rule.spec == f"private:{host}" for rule in self.policy.allow)

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        """Allow rules that a user gave with an answer. Returns where they are kept: `session` or a file's path. They
        hold for this session in any case; if they cannot be kept beyond it, the text says why."""
        where = "session"
        scope: SaveTo = "session"
        if save_to != "session" and self._files is not None:
            self.refresh()
            try:
                where, scope = self._files.change(save_to, "allow", add=rules), save_to
            except AgentError as error:
                where = f"session only: {error}"
            self._seen = self._signature()
        learned = parse_rules(rules, _SESSION if where == "session" else where, scope)
        self._session += [("allow", rule) for rule in learned]
        self.policy = self.policy.with_rules(allow=learned)
        return where

    # ---------------------------------------------------------------------------------- rules of commands and skills

    def lend(self, texts: Sequence[str], source: str) -> list[str]:
        """Add allow rules until `take_back`; deny and ask rules are still looked at before them. Returns why texts are
        no rules."""
        rules, problems = lent_rules(texts, source)
        new = [rule for rule in rules if rule not in self._lent]
        if new:
            self._lent += new
            self.policy = self.policy.with_rules(allow=new)
        return problems

    def take_back(self, *, but_from: str = "") -> None:
        """Remove the lent rules, but for those from one source."""
        lent = [rule for rule in self._lent if not but_from or rule.source != but_from]
        if lent:
            self._lent = [rule for rule in self._lent if rule not in lent]
            self.policy = replace(self.policy, allow=tuple(rule for rule in self.policy.allow if rule not in lent))

    # ------------------------------------------------------------------------------------------------ the user's rules

    def entries(self) -> list[RuleEntry]:
        """All active rules in the order in which they are looked at."""
        self.refresh()
        found = []
        for behavior in BEHAVIORS:
            for rule in dict.fromkeys(_rules(self.policy, behavior)):
                count, last = self._uses.get((behavior, rule.text, rule.source), (0, None))
                found.append(RuleEntry(behavior, rule.text, rule.source, rule.scope, count, last))
        return found

    def change(self, scope: SaveTo, behavior: Behavior, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> str:
        """Remove and add rules; returns where. Raises `AgentError` (`UsageError` for what is no rule), and nothing was
        changed then."""
        self.refresh()
        added = parse_rules(add, _SESSION, "session")
        gone = {rule.text for rule in parse_rules(remove)}
        if scope != "session":
            if self._files is None:
                raise AgentError("There is no settings file to save rules in.")
            where = self._files.change(scope, behavior, add=[rule.text for rule in added], remove=sorted(gone))
            self._forget(behavior, gone, where)
            self.read_again()
            return where
        missing = gone - {rule.text for kind, rule in self._session if kind == behavior}
        if missing:
            raise AgentError(f"This session has no {behavior} rule {min(missing)} of its own.")
        self._forget(behavior, gone, None)
        self._session += [(behavior, rule) for rule in added]
        self.policy = self.policy.with_rules(**{behavior: added})
        return "this session"

    def _forget(self, behavior: Behavior, texts: set[str], source: str | None) -> None:
        """Take rules out of this session: those from one file, or its own (None)."""

        def goes(rule: Rule) -> bool:
            own = rule.scope == "session" if source is None else rule.source == source
            return rule.text in texts and own

        self._session = [(kind, rule) for kind, rule in self._session if kind != behavior or not goes(rule)]
        kept = tuple(rule for rule in _rules(self.policy, behavior) if not goes(rule))
        self.policy = _with_kind(self.policy, behavior, kept)

    # -------------------------------------------------------------------------------------------------- settings files

    def refresh(self) -> bool:
        """Take in settings files that were changed since; whether one was. Costs a `stat` for each file."""
        signature = self._signature()
        if signature == self._seen:
            return False
        before = self.policy
        self.read_again()
        if text := _changes(before, self.policy):
            self._notices.append(text)
        return True

    def take_notice(self) -> str | None:
        return self._notices.pop(0) if self._notices else None

    async def wait_for_notice(self) -> str:
        """Wait until a settings file has changed the rules; returns how. For between submissions; cancel it."""
        while True:
            self.refresh()
            if (text := self.take_notice()) is not None:
                return text
            await asyncio.sleep(_POLL_SECONDS)

    def read_again(self) -> None:
        """Take in the settings files, whether they have changed or not."""
        # Before reading: a change in between is then seen the next time.
        self._seen = self._signature()
        if self._reread is None:
            return
        try:
            fresh = self._reread()
        except AgentError as error:
            self._notices.append(f"Permission rules could not be reloaded, the old ones apply: {error}")
            return
        # The running sandbox does not hide what a new rule denies.
        hidden = self.policy.hidden_from_commands if set(fresh.deny) <= set(self.policy.deny) else None
        policy = replace(
            self.policy,
            allow=(*fresh.allow, *self._lent),
            ask=fresh.ask,
            deny=fresh.deny,
            trusted=fresh.trusted,
            hidden_from_commands=hidden or fresh.hidden_from_commands,
        )
        # In a folder that was never trusted its files allow nothing, so what they learned holds for this session.
        untrusted = not (self.policy.trusted or fresh.trusted)
        scopes = ("session", "local", "project") if untrusted else ("session",)
        own = [(kind, rule) for kind, rule in self._session if rule.scope in scopes]
        for kind, rule in own:
            policy = _with_kind(policy, kind, (*_rules(policy, kind), rule))
        self.policy, self._session = policy, own

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


def _rules(policy: LatePolicy, behavior: Behavior) -> tuple[Rule, ...]:
    return {"allow": policy.allow, "ask": policy.ask, "deny": policy.deny}[behavior]


def _with_kind(policy: LatePolicy, behavior: Behavior, rules: tuple[Rule, ...]) -> LatePolicy:
    kind: dict[str, Any] = {behavior: rules}
    return replace(policy, **kind)


def _changes(before: LatePolicy, after: LatePolicy) -> str:
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


def lent_rules(texts: Sequence[str], source: str) -> tuple[list[Rule], list[str]]:
    """The rules that a command or skill lends, each once, and why the other texts are no rules."""
    rules: dict[Rule, None] = {}
    problems = []
    for text in texts:
        try:
            rules[parse_rule(text, source)] = None
        except UsageError as error:
            problems.append(str(error))
    return list(rules), problems
