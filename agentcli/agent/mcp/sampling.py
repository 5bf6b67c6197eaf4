"""Sampling: replies of the model for MCP servers, only after a question and within a budget per server.

No tools, no thinking, nothing of the conversation: the request contains only what the server sent. Its cost counts
towards the session's totals and the server's own budget, which is a hard limit whatever was allowed.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from typing import TYPE_CHECKING, cast

from agentcli.agent.profile import Profile
from agentcli.agent.side_call import SideCall
from agentcli.context.estimate import text_tokens
from agentcli.core import events as ev
from agentcli.core.aio import AbortController
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, clean_text
from agentcli.core.text.format import money
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Usage
from agentcli.mcp.protocol import McpContent, SamplingReply, SamplingRequest
from agentcli.providers import base as model

if TYPE_CHECKING:
    from agentcli.agent.mcp.requests import ServerQuestions
    from agentcli.agent.session import Session

MAX_TOKENS = 4_096
"""Maximum output tokens of one reply, whatever a server requests."""
MAX_REQUEST = 400_000
"""Maximum characters of all messages and the system prompt."""
MAX_WAITING = 10
"""Maximum queued requests of one server; more are refused."""
_IMAGE_TOKENS = 1_600
_MAX_IMAGE_TOKENS = 5_000
_MESSAGE_TOKENS = 8
"""Tokens of a message besides its text."""
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_GENERIC = frozenset({"claude", "anthropic", "model", "latest"})
_STOP_REASONS = {"end_turn": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


class _Refused(Exception):
    """There is no reply; the text, which is sent to the server, says why."""


@frozen
class _Plan:
    request: model.Request
    most_usd: float | None
    """Estimated maximum cost in dollars; None: the model's price is unknown."""
    is_affordable: bool = False
    """Whether the server's budget pays for it even if the estimate is wrong."""


class ServerSampling:
    def __init__(self, session: Session, questions: ServerQuestions, budget_usd: float) -> None:
        self._session = session
        self._questions = questions
        self._budget = budget_usd
        self._spent: dict[str, float] = defaultdict(float)
        """Dollars that each server has used in this session."""
        self._allowed: set[str] = set()
        """Servers that need no further question in this session."""
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One request of a server at a time: each decision needs the cost of the previous one."""
        self._waiting: dict[str, int] = defaultdict(int)

    async def reply(self, request: SamplingRequest) -> SamplingReply:
        server = request.server
        if self._waiting[server] >= MAX_WAITING:
            return SamplingReply(refused="too many requests at a time")
        self._waiting[server] += 1
        try:
            async with self._turns[server]:
                plan = self._plan(request)
                await self._approve(request, plan)
                return await self._run(server, plan)
        except _Refused as refusal:
            return SamplingReply(refused=str(refusal))
        finally:
            self._waiting[server] -= 1

    # ---------------------------------------------------------------------------------------------------- decision

    def _plan(self, request: SamplingRequest) -> _Plan:
        if self._session.costs.budget.is_spent:
            raise _Refused("the session's budget is spent")
        messages = _wire_messages(request)
        size = len(request.system) + sum(len(message.content.text) for message in request.messages)
        if size > MAX_REQUEST:
            raise _Refused(f"the request has {size:,} characters, and at most {MAX_REQUEST:,} are sent")
        name = _model_for(request.hints, self._session.profile)
        images = sum(message.content.kind == "image" for message in request.messages)
        texts = (request.system, *(message.content.text for message in request.messages))
        around = len(texts) * _MESSAGE_TOKENS
        tokens = round(sum(map(text_tokens, texts))) + images * _IMAGE_TOKENS + around
        output = max(1, min(request.max_tokens, MAX_TOKENS))
        price = self._session.catalog.get(name).price
        most, is_affordable = None, False
        if price is not None:
            left = self._budget - self._spent[request.server]
            at = price.at(tokens)
            # The request is sent with a cache breakpoint, and writing to the cache costs more than plain input.
            prompt = price.cost(Usage(cache_write_5m_tokens=tokens))
            affordable = (left - prompt) * 1_000_000 / at.output if at.output else output
            if affordable < 1:
                self._note_spent(request.server)
                raise _Refused(f"the sampling budget of this server ({money(self._budget)} per session) is spent")
            output = min(output, int(affordable))
            most = price.cost(Usage(cache_write_5m_tokens=tokens, output_tokens=output))
            # No tokenizer makes more tokens than there are bytes.
            size = sum(len(text.encode("utf-8", "replace")) for text in texts) + images * _MAX_IMAGE_TOKENS + around
            is_affordable = price.cost(Usage(cache_write_5m_tokens=size, output_tokens=output)) <= left
        system = (clean_text(request.system),) if request.system.strip() else ()
        thinking = model.Thinking("disabled")
        sent = model.Request(name, messages, system, max_tokens=output, thinking=thinking, purpose="sampling")
        return _Plan(sent, most, is_affordable)

    def _note_spent(self, server: str) -> None:
        text = (
            f"The MCP server {plain_line(server, 80)} has spent its budget for model replies, "
            f"{money(self._budget)} per session. Raise mcp.samplingBudgetUsd to allow more."
        )
        self._questions.put(ev.NoticeRaised(text=text, level="warning", code="mcp"))

    async def _approve(self, request: SamplingRequest, plan: _Plan) -> None:
        """Ask the user unless the server is allowed and the reply cannot exceed its budget."""
        server = request.server
        if server in self._allowed and plan.is_affordable:
            return
        title = f"The MCP server {plain_line(server, 80)} requests a model reply"
        answer = await self._questions.ask(server, title, self._display(request, plan))
        if answer is None:
            raise _Refused("the user cancelled the request")
        if answer.behavior == "deny":
            raise _Refused("the user declined the request")
        # "once" allows only this request, "session" all requests of the server within its budget.
        if (answer.updated_input or {}).get("scope") == "session" and plan.most_usd is not None:
            self._allowed.add(server)

    def _display(self, request: SamplingRequest, plan: _Plan) -> Json:
        return {
            "kind": "mcp_sampling",
            "server": request.server,
            "system": request.system,
            "messages": [{"role": message.role, "text": _show(message.content)} for message in request.messages],
            "model": plan.request.model,
            "max_tokens": plan.request.max_tokens,
            "most_usd": plan.most_usd,
            "spent_usd": self._spent[request.server],
            "budget_usd": self._budget,
        }

    # ------------------------------------------------------------------------------------------------------- reply

    async def _run(self, server: str, plan: _Plan) -> SamplingReply:
        call = SideCall(self._session)

        def take(event: ev.Event) -> None:
            if isinstance(event, ev.UsageReported):
                self._spent[server] += event.cost_usd or 0.0
                self._session.costs.take(event)

        async def emit(event: ev.Event) -> None:
            take(event)

        with AbortController(parent=self._session.signal) as controller:
            await call.run(plan.request, controller.signal, emit, take)
            if controller.signal.aborted:
                raise _Refused("the user cancelled the request")
        if call.failure is not None:
            raise _Refused(f"the model did not reply: {call.failure.message}")
        used = f"{money(self._spent[server])} of {money(self._budget)} used"
        text = f"The MCP server {plain_line(server, 80)} got a reply from {plan.request.model}; {used}."
        self._questions.put(ev.NoticeRaised(text=text, code="mcp"))
        stop = call.stop_reason or "end_turn"
        return SamplingReply(call.text or "", plan.request.model, _STOP_REASONS.get(stop, stop))


def _model_for(hints: tuple[str, ...], profile: Profile) -> str:
    """The small model or the session's model, whichever the first matching hint names; the small model without a
    match."""
    for hint in hints:
        for name in (profile.small_model, profile.model):
            if _is_meant(hint.lower(), name.lower()):
                return name
    return profile.small_model


def _is_meant(hint: str, name: str) -> bool:
    words = set(re.findall(r"[a-z]+", hint)) - _GENERIC
    return bool(words) and (hint in name or any(word in name for word in words))


def _wire_messages(request: SamplingRequest) -> tuple[Json, ...]:
    """The messages as the API accepts them: alternating roles, the user's first. Raises `_Refused`."""
    found: list[Json] = []
    for message in request.messages:
        block = _wire_block(message.content)
        if block is None:
            continue
        if found and found[-1]["role"] == message.role:
            cast("list[Json]", found[-1]["content"]).append(block)
        else:
            found.append({"role": message.role, "content": [block]})
    if not found or found[0]["role"] != "user":
        raise _Refused("the messages must begin with one of the user")
    if found[-1]["role"] != "user":
        raise _Refused("the messages must end with one of the user")
    return tuple(found)


def _wire_block(content: McpContent) -> Json | None:
    if content.kind == "text":
        return {"type": "text", "text": clean_text(content.text)} if content.text.strip() else None
    if content.kind == "image" and content.mime_type in _IMAGE_TYPES:
        return {"type": "image", "source": {"type": "base64", "media_type": content.mime_type, "data": content.data}}
    raise _Refused(f"messages with content of the kind {content.kind} are not supported")


def _show(content: McpContent) -> str:
    if content.kind == "text":
        return content.text
    return f"[{content.kind} {content.mime_type}, {len(content.data) * 3 // 4:,} bytes]"
