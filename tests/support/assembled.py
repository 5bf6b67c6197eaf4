"""The assembled engine in a folder, on a scripted model, with a user who answers its questions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message
from agentcli.core.permission import Answer, PermissionMode
from tests.support.scripts import provider_on, transport_for
from tests.support.validate import problems

SEARCH_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
"""With the interpreter of the tests first: a `python3` that a version manager chooses takes ten times as long."""


def yes(_event: ev.PermissionRequested) -> Answer:
    return Answer("allow")


def engine_on(project: Path, *replies: Json | str, **rest: Any) -> Engine:
    """An engine that asks for nothing, with the project's parent as home."""
    options: dict[str, Any] = {
        "cwd": project,
        "environ": {"PATH": SEARCH_PATH, "HOME": str(project.parent)},
        "provider": provider_on(transport_for(*replies)),
        "permission_mode": PermissionMode.BYPASS,
        "model": "claude-sonnet-5-5",
        "settings": '{"sandbox": {"mode": "off"}}',
    }
    return build_engine(Options(**{**options, **rest}))


@dataclass
class Assembled:
    """Every request is checked against what the API refuses."""

    project: Path
    replies: list[Json | str]
    answers: Callable[[ev.PermissionRequested], Answer] = yes
    options: dict[str, Any] = field(default_factory=dict)
    asked: list[ev.PermissionRequested] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)
    engine: Engine = field(init=False)

    async def __aenter__(self) -> Self:
        home = self.project.parent / "home"
        home.mkdir(exist_ok=True)
        options: dict[str, Any] = {
            "cwd": self.project,
            "environ": {"PATH": SEARCH_PATH, "HOME": str(home)},
            "provider": provider_on(transport_for(*self.replies, on_request=self._take)),
            "permission_mode": PermissionMode.DEFAULT,
            "interactive": True,
            "model": "claude-sonnet-5-5",
            "settings": '{"sandbox": {"mode": "off"}}',
            "trust": True,
            **self.options,
        }
        self.engine = build_engine(Options(**options))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.engine.aclose()

    def _take(self, body: Json) -> None:
        assert problems(body) == []
        self.requests.append(body)

    async def run(self, prompt: Any = "go", **rest: Any) -> list[ev.Event]:
        return await self.follow(self.engine.submit(prompt, **rest))

    async def follow(self, work: Any) -> list[ev.Event]:
        """Everything that a submission yields, its questions answered."""
        events: list[ev.Event] = []
        async with aclosing(work) as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, ev.PermissionRequested):
                    self.asked.append(event)
                    assert self.engine.answer(event.request_id, self.answers(event))
        self.events += events
        return events

    @property
    def log(self) -> tuple[Message, ...]:
        return self.engine.messages

    @property
    def results(self) -> list[str]:
        return [result.text for message in self.log for result in message.tool_results]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ev.NoticeRaised)]

    def last_content(self) -> list[Json]:
        """The blocks of the last user message of the last request."""
        content: list[Json] = self.requests[-1]["messages"][-1]["content"]
        return content
