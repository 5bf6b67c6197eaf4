"""An engine on a script whose Task tool starts real child engines on the same script."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.agent.engine_setup import EngineSetup
from agentcli.agent.ports import Extensions
from agentcli.agent.profile import Bounds
from agentcli.agent.subagents.setup import AgentOrder, AgentSetup
from agentcli.agent.subagents.shared import AgentHooks, AgentWorkspace
from agentcli.agent.subagents.specs import AgentSpec, tools_of
from agentcli.context.view import ContextView
from agentcli.core.messages import Json, Message
from agentcli.session.base import Store
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.task import Task
from tests.support.fakes import Bench, bench
from tests.support.scripts import call

WORKER = "You work on one task"
"""Begins the system prompt of `general`: a reply that matches it is for such an agent."""


@dataclass
class Children:
    """Builds child engines, and keeps what is left of them."""

    session: EngineSetup | None = None
    built: list[weakref.ref[Engine]] = field(default_factory=list)
    logs: list[tuple[Message, ...]] = field(default_factory=list)
    """The messages of each child that was closed."""

    def build(self, order: AgentOrder) -> Engine:
        own = self.session
        assert own is not None
        is_copy = order.spec.shares_context
        hooks = AgentHooks([order.link.hooks()], order.link.agent, order.spec.name)
        engine = Engine(
            EngineSetup(
                provider=own.provider,
                registry=tools_of(order.spec, order.registry, order.link.depth),
                store=Store(own.ids.new()),
                permissions=own.permissions,
                profile=order.profile if is_copy else replace(order.profile, system=(order.spec.prompt,)),
                tool_context=replace(order.tool_context, read_cache=ReadCache()),
                catalog=own.catalog,
                ids=own.ids,
                clock=own.clock,
                interactive=own.interactive,
                bounds=Bounds(max_turns=order.spec.max_turns or own.bounds.max_turns),
                tuning=own.tuning,
                extensions=Extensions(hooks, workspace=AgentWorkspace(own.extensions.workspace)),
                view=order.view.copy() if is_copy else ContextView(),
                log=order.messages if is_copy else (),
                agents=own.agents,
                link=order.link,
            )
        )
        self.built.append(weakref.ref(engine))
        state, close = engine._state, engine._state.aclose

        async def closed() -> None:
            self.logs.append(tuple(state.log.messages))
            await close()

        state.aclose = closed  # type: ignore[method-assign]
        return engine


def agent_bench(
    *replies: Json | str, tools: Any = (), most: int = 10, defined: dict[str, AgentSpec] | None = None, **rest: Any
) -> tuple[Bench, Children]:
    children = Children()
    setup = AgentSetup(children.build, lambda: defined or {}, most)
    b = bench(*replies, tools=[Task(), *tools], agents=setup, **rest)
    children.session = b.engine._state.setup
    return b, children


def task(prompt: str = "work", /, **rest: Any) -> Json:
    return call("Task", **{"description": "some work", "prompt": prompt, **rest})
