"""Questions that wait for the user's answer: events go out, answers come in as calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from agentcli.agent.ports import EmitEvent
from agentcli.core.abort import Aborted, AbortSignal
from agentcli.core.aio import Outlet
from agentcli.core.events import Event, PermissionRequested, PermissionResolved
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
