"""Tools, permissions and an engine for loop tests: real loop, real provider machinery, scripted model, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.profile import Bounds, ModelSettings, Profile, Tuning
from agentcli.agent.session import Resumed, Session
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json
from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.policy import Policy
from agentcli.providers.catalog import Catalog
from agentcli.providers.script import ScriptedTransport
from agentcli.session.base import Store
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.registry import Registry
from tests.support.scripts import provider_on, transport_for
from tests.support.validate import problems

MODEL = "claude-sonnet-5-5"


class LoopClock:
    """The event loop's own time, so that durations are virtual where the loop is; 0.0 before a loop runs, where
    virtual time begins."""

    def monotonic(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    def timestamp(self) -> str:
        return "2026-01-01T00:00:00.000Z"


@dataclass
class FakeTool:
    """A scripted tool: takes `seconds`, reports `steps` of progress, then answers. Records what happened to it."""

    name: str = "Look"
    safe: bool = True
    seconds: float = 0.0
    steps: int = 0
    output: Output | Callable[[Json], Output] = field(default_factory=lambda: Output("looked"))
    need: str = "none"
    crash: Exception | None = None
    ignores_abort: bool = False
    runs: list[Json] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    description: str = "A tool for tests."

    @property
    def input_schema(self) -> Json:
        return {
            "type": "object",
            "properties": {"what": {"type": "string"}, "seconds": {"type": "number"}},
            "additionalProperties": False,
        }

    def title(self, input: Json) -> str:
        return f"{self.name} {input.get('what', '')}".strip()

    def is_safe(self, input: Json) -> bool:
        return self.safe

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need(self.need, str(context.cwd / "x")),)  # type: ignore[arg-type]

    def check(self, input: Json, context: ToolContext) -> str | None:
        return "That is forbidden." if input.get("what") == "forbidden" else None

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        self.runs.append(input)
        try:
            if self.crash is not None:
                raise self.crash
            for step in range(self.steps):
                yield Progress(f"step {step}")
            seconds = float(input.get("seconds", self.seconds))
            if self.ignores_abort:
                await asyncio.sleep(seconds)
            elif not await signal.sleep(seconds):
                self.ended.append("aborted")
                yield Output("stopped half way", is_error=True)
                return
            self.ended.append("done")
            yield self.output(input) if callable(self.output) else self.output
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise


@dataclass
class Bench:
    """An engine and what it talks to."""

    engine: Engine
    transport: ScriptedTransport
    store: Store
    refused: list[str]
    """What the API would have refused of the requests so far; must stay empty."""

    @property
    def requests(self) -> list[Json]:
        return self.transport.requests

    async def run(self, prompt: str = "go") -> list[ev.Event]:
        events = await collect(self.engine.submit(prompt))
        assert self.refused == []
        return events

    async def once(self, prompt: str = "go") -> list[ev.Event]:
        """Run one prompt, and close the engine."""
        async with self.engine:
            return await self.run(prompt)


async def collect(events: AsyncGenerator[ev.Event, None]) -> list[ev.Event]:
    async with aclosing(events) as stream:
        return [event async for event in stream]


def bench(*replies: Json | str, tools: Sequence[Any] = (), **rest: Any) -> Bench:
    """An engine on a script. Every request is checked against what the API refuses."""

    refused: list[str] = []

    def check(body: Json) -> None:
        refused.extend(problems(body))

    transport = rest.pop("transport", None) or transport_for(*replies, on_request=check)
    mode = rest.pop("mode", PermissionMode.BYPASS)
    cwd = rest.pop("cwd", Path("/work"))
    catalog = rest.pop("catalog", Catalog())
    profile = rest.pop("profile", Profile(model=MODEL, small_model="claude-haiku-5-5", system=("Be good.",)))
    store = rest.pop("store", None) or Store("session")
    bounds, tuning = rest.pop("bounds", Bounds()), rest.pop("tuning", Tuning())
    resumed = {name: rest.pop(name) for name in [each.name for each in fields(Resumed)] if name in rest}
    session = Session(
        provider=provider_on(transport, rest.pop("policy", None), rest.pop("timeouts", None), catalog),
        own_tools=Registry(tools),
        store=store,
        permissions=LivePermissions(Policy(mode=mode)),
        settings=ModelSettings(profile, catalog, bounds, tuning),
        tool_context=ToolContext(cwd=cwd, working_dirs=(cwd,)),
        ids=rest.pop("ids", None) or SequentialIds(1000),
        clock=LoopClock(),
        resumed=Resumed(**resumed),
        **rest,
    )
    return Bench(Engine(session), transport, store, refused)


def kinds(events: Sequence[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def only(events: Sequence[ev.Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def result_of(events: Sequence[ev.Event]) -> ev.Result:
    """The one Result, which must be last."""
    results = only(events, ev.Result)
    assert len(results) == 1
    assert events[-1] is results[0]
    return results[0]
