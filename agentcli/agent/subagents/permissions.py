"""The session's permissions, as a sub-agent has them."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.live_permissions import LivePermissions, lent_rules
from agentcli.core.permission import Decision, PermissionMode, SaveTo
from agentcli.permissions.late_policy import LatePolicy
from agentcli.permissions.rules.rule import Rule


class AgentPermissions(LivePermissions):
    """Mode and rules are shared with the session, and what the user answers holds for it. Rules that a skill lends are
    the agent's alone and end with it: nobody else loaded that skill."""

    def __init__(self, session: LivePermissions) -> None:
        self._of_session = session
        self._lent_here: tuple[Rule, ...] = ()

    @property
    def policy(self) -> LatePolicy:  # type: ignore[override]
        shared = self._of_session.policy
        return shared.with_rules(allow=self._lent_here) if self._lent_here else shared

    def lend(self, texts: Sequence[str], source: str) -> list[str]:
        rules, problems = lent_rules(texts, source)
        self._lent_here = tuple(dict.fromkeys((*self._lent_here, *rules)))
        return problems

    def set_mode(self, mode: PermissionMode) -> None:
        self._of_session.set_mode(mode)

    def leave_plan(self) -> PermissionMode:
        return self._of_session.leave_plan()

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        return self._of_session.learn(rules, save_to)

    def refresh(self) -> bool:
        return self._of_session.refresh()

    def take_notice(self) -> str | None:
        return self._of_session.take_notice()

    def _counted(self, decision: Decision) -> Decision:
        return self._of_session._counted(decision)
