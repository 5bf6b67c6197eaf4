"""The session's hooks, permissions and workspace, wrapped for a sub-agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.live_permissions import LivePermissions, parse_granted_rules
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import HookChain, Hooks, HookVerdict
from agentcli.core.messages import Json, Origin
from agentcli.core.permission import Decision, PermissionMode, SaveTo
from agentcli.permissions.policy import Policy
from agentcli.workspace.base import Workspace

if TYPE_CHECKING:
    from agentcli.hooks.runner import HookRun


class AgentHooks(HookChain):
    """Hooks of a sub-agent: SubagentStart and SubagentStop at its start and end, the session's hooks around its
    tools."""

    def __init__(self, sources: Iterable[Hooks], agent: str, name: str) -> None:
        super().__init__(sources)
        self._agent = agent
        self._name = name

    def with_sources(self, sources: Iterable[Hooks]) -> HookChain:
        return AgentHooks(sources, self._agent, self._name)

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        """Do nothing: the session's hooks are bound already."""

    async def before_session(self, source: str) -> tuple[str, ...]:
        return ()

    async def after_session(self, reason: str) -> None: ...

    async def after_failure(self, text: str) -> None: ...

    async def aclose(self) -> None:
        """Do nothing: the session closes them."""

    @property
    def checks_prompts(self) -> bool:
        return False

    async def before_prompt(self, text: str) -> HookVerdict:
        return HookVerdict(context=await self.before_agent(self._agent, self._name, text))

    async def before_stop(self, state: LoopState) -> HookVerdict:
        replies = (message.text for message in reversed(state.messages) if message.origin is Origin.REPLY)
        return await self.after_agent(self._agent, self._name, next(replies, ""), is_active=state.stop_hook_active)


class AgentPermissions(LivePermissions):
    """Shares mode and rules with the session; the user's answers apply to the session too. Rules that a skill lends
    apply only to this agent and end with it. It writes no memory notes: what misled it must not persist unseen."""

    def __init__(self, session: LivePermissions) -> None:
        super().__init__(session.policy)
        self._of_session = session
        self._made: tuple[Policy, Policy] | None = None
        """The session's policy, and the one made from it."""

    @property
    def policy(self) -> Policy:
        shared = self._of_session.policy
        if self._made is None or self._made[0] is not shared:
            own = replace(shared, memory=(), readable=(*shared.readable, *shared.memory)) if shared.memory else shared
            self._made = (shared, own.with_rules(allow=self._granted) if self._granted else own)
        return self._made[1]

    def grant_rules(self, texts: Sequence[str], source: str) -> list[str]:
        rules, problems = parse_granted_rules(texts, source)
        self._granted = list(dict.fromkeys((*self._granted, *rules)))
        self._made = None
        return problems

    def revoke_rules(self, *, but_from: str = "") -> None:
        self._granted = [rule for rule in self._granted if but_from and rule.source == but_from]
        self._made = None

    def set_mode(self, mode: PermissionMode) -> None:
        self._of_session.set_mode(mode)

    @property
    def before_plan(self) -> PermissionMode:
        return self._of_session.before_plan

    def leave_plan(self) -> None:
        self._of_session.leave_plan()

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        return self._of_session.learn(rules, save_to)

    def refresh(self) -> bool:
        return self._of_session.refresh()

    def take_notice(self) -> str | None:
        return self._of_session.take_notice()

    def _count(self, decision: Decision) -> Decision:
        return self._of_session._count(decision)


class AgentWorkspace(Workspace):
    """Records the changes of an agent as part of the prompt that the session works on. So submissions of the agent have
    no start and end here, and only the session can undo."""

    def __init__(self, inner: Workspace) -> None:
        super().__init__("An agent cannot undo changes.")
        self._inner = inner

    async def find_gap(self, working_dirs: Sequence[Path], paths: Sequence[str]) -> str:
        return await self._inner.find_gap(working_dirs, paths)

    def uncovered(self) -> tuple[Path, ...]:
        return self._inner.uncovered()

    async def before_change(self, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        await self._inner.before_change(input, cwd, working_dirs)

    async def after_change(
        self, only: Sequence[str] | None = None, background: bool = False, call_id: str = "", *, reports: bool = False
    ) -> bool:
        return await self._inner.after_change(only, background, call_id)
