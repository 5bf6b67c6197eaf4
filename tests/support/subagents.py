"""An engine on a script whose Task tool starts real child engines on the same script."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.agent.profile import Bounds, ModelSettings
from agentcli.agent.session import Resumed, Session
from agentcli.agent.subagents.shared import AgentHooks, AgentWorkspace
from agentcli.agent.subagents.specs import AgentOrder, AgentSetup, AgentSpec, tools_of
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

    built: list[weakref.ref[Engine]] = field(default_factory=list)
    logs: list[tuple[Message, ...]] = field(default_factory=list)
    """The messages of each child that was closed."""

    def build(self, starter: Session, order: AgentOrder) -> Engine:
        main, spec, is_copy = starter.main, order.spec, order.spec.shares_context
        messages = tuple(starter.log.messages)
        profile = starter.profile if is_copy else replace(starter.profile, system=(spec.prompt,))
        bounds = Bounds(max_turns=spec.max_turns or main.settings.bounds.max_turns)
        engine = Engine(
            starter.child(
                order.id,
                own_tools=tools_of(spec, starter.registry, starter.depth + 1),
                store=Store(starter.ids.new()),
                permissions=main.permissions,
                settings=ModelSettings(profile, main.catalog, bounds, main.settings.tuning),
                tool_context=replace(starter.tool_context, read_cache=ReadCache()),
                hooks=AgentHooks([main.hooks], order.id, spec.name),
                workspace=AgentWorkspace(main.workspace),
                view=starter.view.copy() if is_copy else ContextView(),
                resumed=Resumed(log=messages[: -1 if messages[-1].tool_uses else None] if is_copy else ()),
            )
        )
        self.built.append(weakref.ref(engine))
        session, close = engine.session, engine.session.aclose

        async def closed() -> None:
            self.logs.append(tuple(session.log.messages))
            await close()

        session.aclose = closed  # type: ignore[method-assign]
        return engine


def agent_bench(
    *replies: Json | str, tools: Any = (), most: int = 10, defined: dict[str, AgentSpec] | None = None, **rest: Any
) -> tuple[Bench, Children]:
    children = Children()
    setup = AgentSetup(children.build, lambda: defined or {}, most)
    b = bench(*replies, tools=[Task(), *tools], agent_setup=setup, **rest)
    return b, children


def task(prompt: str = "work", /, **rest: Any) -> Json:
    return call("Task", **{"description": "some work", "prompt": prompt, **rest})
