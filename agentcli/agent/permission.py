"""The policy in force, which a person may change while the agent works."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need, PermissionMode, RuleChoice, SaveTo
from agentcli.permissions.policy import Policy
from agentcli.tools.base import ToolContext


class LivePermissions:
    """Implements `Permissions` on an immutable policy that is replaced, never changed."""

    def __init__(self, policy: Policy, save: Callable[[Sequence[str], str], str] | None = None) -> None:
        """`save` writes rules to the settings file of that name and returns its path; it may raise `AgentError`."""
        self.policy = policy
        self._save = save
        self._before_plan = PermissionMode.DEFAULT if policy.mode is PermissionMode.PLAN else policy.mode

    @property
    def mode(self) -> PermissionMode:
        return self.policy.mode

    def set_mode(self, mode: PermissionMode) -> None:
        if mode is PermissionMode.PLAN and self.policy.mode is not PermissionMode.PLAN:
            self._before_plan = self.policy.mode
        self.policy = self.policy.with_mode(mode)

    def leave_plan(self) -> PermissionMode:
        if self.policy.mode is PermissionMode.PLAN:
            self.policy = self.policy.with_mode(self._before_plan)
        return self.policy.mode

    def decide(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> Decision:
        return self.policy.decide(name, input, needs, context.cwd, context.working_dirs)

    def suggest(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[str]:
        return self.policy.suggestions(name, needs, context.cwd, context.working_dirs)

    def rule_choices(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[RuleChoice]:
        return self.policy.rule_choices(name, needs, context.cwd, context.working_dirs)

    def suggest_prefix(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[str]:
        return self.policy.suggest_prefix(name, needs, context.cwd, context.working_dirs)

    def reaches(self, host: str) -> bool:
        """Whether a rule `WebFetch(private:HOST)` lets a name be fetched from that leads to a private address. A domain
        rule is not enough: it is given for a public place, and whoever owns the name decides where it leads."""
        return any(rule.tool == "WebFetch" and rule.spec == f"private:{host}" for rule in self.policy.allow)

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        """The rules hold for this session in any case; if they cannot be kept beyond it, the text says why."""
        where = "session"
        if save_to != "session" and self._save is not None:
            try:
                where = self._save(rules, save_to)
            except AgentError as error:
                where = f"session only: {error}"
        self.policy = self.policy.with_allowed(rules, "your answer" if where == "session" else where)
        return where
