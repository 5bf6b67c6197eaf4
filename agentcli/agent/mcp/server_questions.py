"""Questions of MCP servers to the user: shown by the running submission or an idle front end, one after the other.

A question comes from a task of the server's connection, so its events are queued here. A running turn takes them into
its stream; at all other times the front end does (`wait_for_events`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from agentcli.agent.questions import Questions
from agentcli.core import events as ev
from agentcli.core.abort import Aborted, AbortSignal
from agentcli.core.ids import Ids
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.text.plaintext import plain_line

MOST_OPEN = 10
"""Maximum open questions of all servers; more are cancelled."""
MOST_ASKED = 20
"""Maximum questions of one server between two prompts; more are cancelled."""
CANCELLED = Answer("deny", updated_input={"action": "cancel"})
"""The user closed the question. Every other open question of servers is cancelled with it."""


class ServerQuestions:
    def __init__(
        self,
        questions: Questions,
        ids: Ids,
        signal: Callable[[], AbortSignal | None],
        call_for_attention: Callable[[str], None],
    ) -> None:
        """`signal`: that of the running submission; None: nothing runs."""
        self._questions = questions
        self._ids = ids
        self._signal = signal
        self._call_for_attention = call_for_attention
        self._events: deque[ev.Event] = deque()
        self._news = asyncio.Event()
        self._wake: Callable[[], object] | None = None
        self._listeners = 0
        self._open: set[str] = set()
        """Ids of questions that the user has not answered."""
        self._asked: dict[str, int] = {}
        self._asked_during: AbortSignal | None = None

    # ------------------------------------------------------------------------------------------------------ asking

    async def ask(self, server: str, title: str, display: Json) -> Answer | None:
        """The user's answer. None: the question was closed, the work was stopped, nothing can show it, or the server
        asks too often."""
        signal = self._signal()
        if not self._admits(server, signal):
            return None
        request_id = self._ids.new()
        answered = self._questions.ask(request_id)
        self._open.add(request_id)
        behavior = "withdrawn"
        try:
            question = ev.PermissionRequested(
                request_id=request_id,
                tool_use_id="",
                name="agentcli",
                input={},
                title=title,
                reason="",
                display=display,
            )
            self.put(question)
            self._call_for_attention(title)
            answer = await (answered if signal is None else signal.run(answered))
            behavior = answer.behavior
        except Aborted:
            return None
        finally:
            self._questions.withdraw(request_id)
            self._open.discard(request_id)
            self.put(ev.PermissionResolved(request_id=request_id, tool_use_id="", behavior=behavior))
        if is_cancelled(answer):
            self.cancel_all()
            return None
        return answer

    def cancel_all(self) -> None:
        for request_id in list(self._open):
            self._questions.answer(request_id, CANCELLED)

    def _admits(self, server: str, signal: AbortSignal | None) -> bool:
        if signal is not self._asked_during:
            self._asked_during = signal
            self._asked.clear()
        if len(self._open) >= MOST_OPEN or (signal is None and not self._listeners):
            return False
        if signal is not None and signal.aborted:
            return False
        self._asked[server] = asked = self._asked.get(server, 0) + 1
        if asked == MOST_ASKED + 1:
            name = plain_line(server, 80)
            text = f"The MCP server {name} asked {MOST_ASKED} times. Its requests are cancelled until your next prompt."
            self.put(ev.NoticeRaised(text=text, level="warning", code="mcp"))
        return asked <= MOST_ASKED

    # ------------------------------------------------------------------------------------------------------ events

    def put(self, event: ev.Event) -> None:
        """Queue an event to be shown."""
        self._events.append(event)
        if self._wake is not None:
            self._wake()
        else:
            self._news.set()

    def take_events(self) -> Sequence[ev.Event]:
        taken = tuple(self._events)
        self._events.clear()
        self._news.clear()
        return taken

    def on_event(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` for each new event, until the returned function is called. Used by a turn; nothing else takes
        events meanwhile."""
        self._wake = wake
        self._news.clear()
        if self._events:
            wake()

        def unhook() -> None:
            self._wake = None
            if self._events:
                self._news.set()

        return unhook

    async def wait_for_events(self) -> Sequence[ev.Event]:
        """Wait for events that no turn takes, and take them; cancel it. Outside of submissions, questions are asked
        only while a caller waits here."""
        self._listeners += 1
        try:
            await self._news.wait()
        finally:
            self._listeners -= 1
        return self.take_events()


def is_cancelled(answer: Answer) -> bool:
    return answer.behavior == "deny" and (answer.updated_input or {}).get("action") == "cancel"
