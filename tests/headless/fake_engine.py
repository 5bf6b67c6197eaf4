"""An engine that plays lists of events, for tests of what a front end does with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

from agentcli.agent.profile import Tuning
from agentcli.core.aio import AbortReason
from agentcli.core.events import Event, Result, SessionStarted
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.usage import Usage

SESSION = "11111111-1111-4111-8111-111111111111"

Step = Event | Callable[["FakeEngine"], Awaitable[Event | None]]


def started(**changes: Any) -> SessionStarted:
    base = SessionStarted(
        session_id=SESSION, cwd="/w", model="claude-x", tools=["Read"], permission_mode="default", api_key_source="env"
    )
    return replace(base, **changes)


def result(**changes: Any) -> Result:
    base = Result(
        subtype="success",
        is_error=False,
        terminal="completed",
        text="the answer",
        errors=[],
        turns=1,
        duration_ms=5,
        api_duration_ms=3,
        usage=Usage(input_tokens=2, output_tokens=1),
        total_cost_usd=0.5,
        fully_priced=True,
        model_usage={"claude-x": {"inputTokens": 2}},
        permission_denials=[],
        session_id=SESSION,
        uuid="22222222-2222-4222-8222-222222222222",
        stop_reason="end_turn",
    )
    return replace(base, **changes)


def failed(message: str, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "subtype": "error_during_execution",
        "is_error": True,
        "terminal": "model_error",
        "text": "",
        "errors": [message],
    }
    return result(**fields | changes)


class FakeQueue:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(f"queued-{n}" for n, _prompt in enumerate(self._engine.queued))

    def take(self) -> tuple[Any, ...]:
        left, self._engine.leftovers = self._engine.leftovers, []
        return tuple(SimpleNamespace(content=prompt, mentions=None) for prompt in left)


class FakeEngine:
    """Each submission plays the next list; a callable in it may wait and may give an event."""

    session_id = SESSION
    model = "claude-x"
    permissions = SimpleNamespace(mode=PermissionMode.DEFAULT)
    session = SimpleNamespace(definitions=None, plugins=None, mcp=None, settings=SimpleNamespace(tuning=Tuning()))

    def __init__(self, *plays: list[Step]) -> None:
        self._plays = list(plays)
        self.running = False
        self.closed = False
        self.background = SimpleNamespace(tasks=(), stop_all=self._stop_all)
        self.agents = SimpleNamespace(can_outlive_prompt=True)
        self.queue = FakeQueue(self)
        self.prompts: list[Any] = []
        self.queued: list[Any] = []
        self.leftovers: list[Any] = []
        self.answers: list[tuple[str, Answer]] = []
        self.aborted: asyncio.Event = asyncio.Event()
        self.abort_reason: AbortReason | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.closed = True

    async def submit(self, prompt: Any, mentions: str | None = None) -> AsyncGenerator[Event, None]:
        self.prompts.append(prompt)
        self.running = True
        try:
            for step in self._plays.pop(0) if self._plays else [started(), result()]:
                event = step if isinstance(step, Event) else await step(self)
                if event is not None:
                    yield event
        finally:
            self.running = False

    def answer(self, request_id: str, answer: Answer) -> bool:
        self.answers.append((request_id, answer))
        return True

    def enqueue(self, prompt: Any, priority: str = "next", mentions: str | None = None) -> str:
        self.queued.append(prompt)
        return "q"

    async def _stop_all(self) -> list[Event]:
        return []

    def abort(self, reason: AbortReason = AbortReason.USER_CANCEL) -> None:
        if self.running:
            self.abort_reason = self.abort_reason or reason
            self.aborted.set()


async def until_aborted(engine: FakeEngine) -> Event:
    await engine.aborted.wait()
    return failed("Interrupted.", terminal="aborted_streaming")
