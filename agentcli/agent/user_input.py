"""Input of the user while a submission runs: answers to questions, and queued prompts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

from agentcli.agent.ports import EmitEvent
from agentcli.core.abort import Aborted, AbortSignal
from agentcli.core.aio import Outlet
from agentcli.core.events import Event, PermissionRequested, PermissionResolved
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, TextBlock, clean_text
from agentcli.core.permission import Answer


class Questions:
    """The open questions of a session, by request id."""

    def __init__(self, *, interactive: bool) -> None:
        """`interactive`: whether a user can answer."""
        self.interactive = interactive
        self._open: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, request_id: str) -> asyncio.Future[Answer]:
        """Register a question and return the future of its answer. Call it before the question is shown, or a fast
        answer is lost."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request_id] = future
        return future

    def withdraw(self, request_id: str) -> None:
        """Cancel a question; does nothing once it is answered."""
        future = self._open.pop(request_id, None)
        if future is not None and not future.done():
            future.cancel()

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a question. False: it does not exist, or was answered or withdrawn before."""
        future = self._open.pop(request_id, None)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True


class UserQuestion:
    """A question to the user about something other than a tool call."""

    def __init__(self, question: PermissionRequested, questions: Questions, signal: AbortSignal | None) -> None:
        self._question = question
        self._questions = questions
        self._signal = signal
        self.answer: Answer | None = None
        """None until it is asked, and if `signal` aborted."""

    async def ask(self, emit: EmitEvent) -> Answer | None:
        request_id = self._question.request_id
        future = self._questions.ask(request_id)
        try:
            await emit(self._question)
            try:
                self.answer = await (future if self._signal is None else self._signal.run(future))
            except Aborted:
                self.answer = None
        finally:
            self._questions.withdraw(request_id)
        behavior = self.answer.behavior if self.answer is not None else "withdrawn"
        await emit(PermissionResolved(request_id=request_id, tool_use_id="", behavior=behavior))
        return self.answer

    def run(self) -> AsyncGenerator[Event, None]:
        """Ask in a command, which yields events."""
        outlet: Outlet[Event] = Outlet()
        return outlet.deliver(self.ask(outlet.emit))


Priority = Literal["now", "next", "later"]
"""When the running work takes a prompt in: `next` after the next tool results, `later` when the work would end, `now`
at the first of both. What is `next` when the work ends stays queued, for a submission of its own."""
_RANK: dict[Priority, int] = {"now": 0, "next": 1, "later": 2}

Prompt = str | tuple[Block, ...]


@frozen
class QueuedPrompt:
    id: str
    content: tuple[Block, ...]
    priority: Priority
    mentions: str | None = None
    """Text whose `@path` mentions are attached; None: the prompt's own."""

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


def prompt_blocks(prompt: Prompt) -> tuple[Block, ...]:
    return (TextBlock(clean_text(prompt)),) if isinstance(prompt, str) else tuple(prompt)


class PromptQueue:
    def __init__(self) -> None:
        self._waiting: list[QueuedPrompt] = []

    def add(self, prompt: QueuedPrompt) -> None:
        self._waiting.append(prompt)

    def take(self, most: Priority = "later") -> tuple[QueuedPrompt, ...]:
        """Remove and return all prompts up to a priority, `now` first, in order of arrival within one priority."""
        taken = sorted(
            (p for p in self._waiting if _RANK[p.priority] <= _RANK[most]), key=lambda prompt: _RANK[prompt.priority]
        )
        self._waiting = [p for p in self._waiting if p not in taken]
        return tuple(taken)

    def first(self, most: Priority = "later") -> QueuedPrompt | None:
        """The next prompt up to a priority. The caller that logs it removes it in the same step, so that it is never
        lost."""
        waiting = [p for p in self._waiting if _RANK[p.priority] <= _RANK[most]]
        return min(waiting, key=lambda prompt: _RANK[prompt.priority], default=None)

    @property
    def holds_back_end(self) -> bool:
        """Whether the work may not end before the queued prompts are taken in."""
        return any(prompt.priority != "next" for prompt in self._waiting)

    def remove(self, prompt_id: str) -> QueuedPrompt | None:
        found = next((prompt for prompt in self._waiting if prompt.id == prompt_id), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(prompt.id for prompt in self._waiting)
