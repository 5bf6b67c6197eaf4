"""Answer requests of MCP servers to the client: folders, input of the user, replies of the model.

Questions are shown by the running submission or an idle front end, one after the other. A question comes from a task of
the server's connection, so its events are queued here. A running turn takes them into its stream; at all other times
the front end does (`wait_for_events`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.mcp.sampling import ServerSampling
from agentcli.core import events as ev
from agentcli.core.aio import Aborted, AbortSignal, in_thread
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.processes.own_programs import open_in_browser
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.protocol import InputAnswer, InputRequest, SamplingReply, SamplingRequest, ServerRequests
from agentcli.mcp.user_input import AddressRefused, FormRefused, InputForm, VisitAddress, parse_address, parse_form

if TYPE_CHECKING:
    from agentcli.agent.session import Session

MAX_OPEN = 10
"""Maximum open questions of all servers; more are cancelled."""
MAX_ASKED = 20
"""Maximum questions of one server between two prompts; more are cancelled."""
CANCELLED = Answer("deny", updated_input={"action": "cancel"})
"""The user closed the question. Every other open question of servers is cancelled with it."""


class ServerQuestions:
    def __init__(self, session: Session) -> None:
        self._session = session
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
        signal = self._session.signal
        if not self._admits(server, signal):
            return None
        request_id = self._session.ids.new()
        answered = self._session.questions.ask(request_id)
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
            self._session.hooks.attention_needed("elicitation_dialog", title)
            answer = await (answered if signal is None else signal.run(answered))
            behavior = answer.behavior
        except Aborted:
            return None
        finally:
            self._session.questions.withdraw(request_id)
            self._open.discard(request_id)
            self.put(ev.PermissionResolved(request_id=request_id, tool_use_id="", behavior=behavior))
        if is_cancelled(answer):
            self.cancel_all()
            return None
        return answer

    def cancel_all(self) -> None:
        for request_id in list(self._open):
            self._session.questions.answer(request_id, CANCELLED)

    def _admits(self, server: str, signal: AbortSignal | None) -> bool:
        if signal is not self._asked_during:
            self._asked_during = signal
            self._asked.clear()
        if len(self._open) >= MAX_OPEN or (signal is None and not self._listeners):
            return False
        if signal is not None and signal.aborted:
            return False
        self._asked[server] = asked = self._asked.get(server, 0) + 1
        if asked == MAX_ASKED + 1:
            name = plain_line(server, 80)
            text = f"The MCP server {name} asked {MAX_ASKED} times. Its requests are cancelled until your next prompt."
            self.put(ev.NoticeRaised(text=text, level="warning", code="mcp"))
        return asked <= MAX_ASKED

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


MAX_MESSAGE = 20_000
"""Maximum characters of a server's message that are shown."""
_CANCEL = InputAnswer("cancel")
_DECLINE = InputAnswer("decline")


class SessionRequests(ServerRequests):
    """Created before the engine, which `bind` connects. `interactive`: whether a user can be asked."""

    def __init__(self, *, interactive: bool = False, sampling_budget_usd: float = 0.0) -> None:
        self._interactive = interactive
        self._sampling_budget = sampling_budget_usd
        self._session: Session | None = None
        self._sampling: ServerSampling | None = None
        self.questions: ServerQuestions | None = None
        """Questions of servers; None before `bind`."""

    def bind(self, session: Session) -> ServerQuestions:
        self._session = session
        self.questions = ServerQuestions(session)
        self._sampling = ServerSampling(session, self.questions, self._sampling_budget)
        return self.questions

    @property
    def elicits(self) -> bool:
        return self._interactive

    @property
    def samples(self) -> bool:
        return self._interactive and self._sampling_budget > 0

    def roots(self) -> Sequence[Path]:
        return self._session.tool_context.working_dirs if self._session is not None else ()

    async def sample(self, request: SamplingRequest) -> SamplingReply:
        if self._sampling is None or not self.samples:
            return await super().sample(request)
        reply = await self._sampling.reply(request)
        if reply.refused:
            self._log(request.server, f"sampling refused: {reply.refused}")
        return reply

    async def elicit(self, request: InputRequest) -> InputAnswer:
        if self._session is None or self.questions is None or not self._interactive:
            return _CANCEL
        try:
            if request.url:
                return await self._visit(request, parse_address(request.url))
            return await self._fill_in(request, parse_form(request.schema))
        except (FormRefused, AddressRefused) as refusal:
            self._log(request.server, f"request for input declined: {refusal}")
            name, why = plain_line(request.server, 80), plain_line(str(refusal))
            text = f"A request for input by the MCP server {name} was declined: {why}."
            self.questions.put(ev.NoticeRaised(text=text, level="warning", code="mcp"))
            return _DECLINE

    async def _ask(self, request: InputRequest, title: str, display: Json) -> Answer | InputAnswer:
        """The user's approval, or the server's answer if there is none."""
        assert self.questions is not None
        shown = {"server": request.server, "message": request.message[:MAX_MESSAGE], **display}
        answer = await self.questions.ask(request.server, title, shown)
        if answer is None:
            self._log(request.server, "request for input cancelled")
            return _CANCEL
        return _DECLINE if answer.behavior == "deny" else answer

    async def _fill_in(self, request: InputRequest, form: InputForm) -> InputAnswer:
        title = f"The MCP server {plain_line(request.server, 80)} asks for input"
        answer = await self._ask(request, title, {"kind": "mcp_form", "schema": request.schema})
        if isinstance(answer, InputAnswer):
            return answer
        content = dict((answer.updated_input or {}).get("content") or {})
        if problems := form.problems(content):
            self._log(request.server, f"request for input declined: the answer does not fit its form: {problems}")
            return _DECLINE
        return InputAnswer("accept", content)

    async def _visit(self, request: InputRequest, address: VisitAddress) -> InputAnswer:
        assert self._session is not None
        assert self.questions is not None
        title = f"The MCP server {plain_line(request.server, 80)} asks you to open an address"
        answer = await self._ask(request, title, {"kind": "mcp_url", "url": address.text})
        if isinstance(answer, InputAnswer):
            return answer
        if (answer.updated_input or {}).get("open") is False:
            self.questions.put(ev.NoticeRaised(text=f"The address to open: {address.text}", code="mcp"))
            return InputAnswer("accept")
        session = self._session
        if await in_thread(open_in_browser, address.text, session.environ, session.tool_context.working_dirs):
            return InputAnswer("accept")
        text = f"No browser could be started, so the request was cancelled. The address is {address.text}"
        self.questions.put(ev.NoticeRaised(text=text, level="warning", code="mcp"))
        self._log(request.server, "no browser could be started")
        return _CANCEL

    def _log(self, server: str, line: str) -> None:
        if self._session is not None and self._session.mcp is not None:
            self._session.mcp.note(server, line)
