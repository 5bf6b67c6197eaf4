"""The session's hooks, as an agent's loop calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import (
    Hooks,
    PromptVerdict,
    StopVerdict,
)
from agentcli.agent.wrapped_hooks import WrappedHooks
from agentcli.core.messages import Json, Origin

if TYPE_CHECKING:
    from agentcli.hooks.runner import HookRun


class AgentHooks(WrappedHooks):
    """An agent begins and ends with hooks of its own kind; around its tools the session's are called."""

    def __init__(self, inner: Hooks, agent: str, name: str) -> None:
        super().__init__(inner)
        self._agent = agent
        self._name = name

    def around(self, inner: Hooks) -> Hooks:
        return AgentHooks(inner, self._agent, self._name)

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        """The session's hooks know their session already."""

    async def before_session(self, source: str) -> tuple[str, ...]:
        return ()

    async def after_session(self, reason: str) -> None: ...

    async def after_failure(self, text: str) -> None: ...

    async def aclose(self) -> None:
        """The session closes them."""

    @property
    def checks_prompts(self) -> bool:
        return False

    async def before_prompt(self, text: str) -> PromptVerdict:
        return PromptVerdict(await self._inner.before_agent(self._agent, self._name, text))

    async def before_stop(self, state: LoopState) -> StopVerdict:
        replies = (message.text for message in reversed(state.messages) if message.origin is Origin.REPLY)
        return await self._inner.after_agent(
            self._agent, self._name, next(replies, ""), is_active=state.stop_hook_active
        )
