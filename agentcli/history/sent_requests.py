"""Requests of a session, rebuilt from its file and proven by their recorded digests.

The file has no request bodies. Messages are rebuilt as the loop does it, from the log with its edits and repairs. Of
the system prompt and the tools the file has digests (`request-front`): `digest_texts` of the known ones finds the texts
that match them. A request is proven if the digest of all its parts is the recorded one; else it says what is not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any

from agentcli.agent.costs.cache_watch import (
    Front,
    RequestDigests,
    digest_front,
    digest_value,
    find_changed_message,
    front_from,
    list_front_changes,
)
from agentcli.assemble.sessions import view_of
from agentcli.context.view import ContextView
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Block, Json, Message
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import redact_values, without_secrets
from agentcli.providers.base import Request
from agentcli.providers.body import build_body, collect_referenced_tools
from agentcli.providers.catalog import Catalog
from agentcli.session.base import NoHistory
from agentcli.session.load import LoadedSession, RecordReader, read_records
from agentcli.session.timeline import RequestStep, Timeline

_NO_MODEL = Front(model="")


@frozen
class SentRequest:
    request: Request
    front: Front
    doubts: tuple[str, ...] = ()
    """Why it may differ from what was sent; empty if its digest is the recorded one."""

    def body(self, catalog: Catalog) -> Json:
        """The body for the Messages API, without secrets."""
        body, _betas = build_body(self.request, catalog.get(self.request.model))
        made: Json = redact_values(body)
        return made


@frozen
class OpenedStep:
    """A request with what is known of its answer and of the one before it."""

    step: RequestStep
    sent: SentRequest
    before: SentRequest | None
    response: tuple[Block, ...]


Texts = Mapping[str, Any]
"""Texts of system prompts, and definitions of tools, by their digests."""


def digest_texts(known: Iterable[str | Json]) -> dict[str, Any]:
    return {digest_value(one): one for one in known}


def open_step(timeline: Timeline, step: RequestStep, texts: Texts) -> OpenedStep:
    """Rebuild a request of the conversation and the one before it on its branch. Blocking. Raises `AgentError` if the
    file is damaged, and `OSError`."""
    turns = [one for one in timeline.requests() if one.purpose == "turn" and not one.agent]
    place = next(number for number, one in enumerate(turns) if one.position == step.position)
    wanted = {one.position for one in turns[max(0, place - 1) : place + 1]}
    rebuilt, loaded = _rebuild(timeline.path, wanted, texts, turns)
    before = rebuilt.get(turns[place - 1].position) if place else None
    content = next((one.content for one in loaded.messages if one.id == step.message_id), ())
    return OpenedStep(step, rebuilt[step.position], before, content)


def _rebuild(
    path: Path, wanted: Collection[int], texts: Texts, turns: Sequence[RequestStep]
) -> tuple[dict[int, SentRequest], LoadedSession]:
    steps, known = {one.position: one for one in turns}, dict(texts)
    reader = RecordReader(LoadedSession(path, path.stem), NoHistory())
    session, fronts = reader.session, [_NO_MODEL]
    pending: dict[int, tuple[ContextView, tuple[Message, ...]]] = {}
    found: dict[int, SentRequest] = {}

    def complete() -> None:
        for position, (view, log) in pending.items():
            found[position] = _prove(steps[position], view, log, fronts, known)
        pending.clear()

    for position, record in enumerate(read_records(path), 1):
        if position in steps:
            # The front of a request is recorded after its usage, if it is another one.
            complete()
            if position in wanted:
                pending[position] = (_view_of(session), tuple(session.messages))
        reader.take(record)
        if record.get("type") == "mcp-tools":
            known |= digest_texts(session.server_tools)
        elif isinstance(text := record.get("systemContext"), str):
            known |= digest_texts([text])
        if record.get("type") == "request-front" and (front := front_from(session.front)) is not None:
            fronts.append(front)
    complete()
    reader.settle()
    return found, session


def _view_of(session: LoadedSession) -> ContextView:
    view = view_of(session)
    for boundary, (text, _sources) in session.user_contexts.items():
        view.set_user_context(text, boundary)
    return view


def _prove(
    step: RequestStep, view: ContextView, log: Sequence[Message], fronts: Sequence[Front], texts: Texts
) -> SentRequest:
    front = fronts[-1]
    try:
        messages = view.wire(log)
    except AssertionError as error:
        raise AgentError(f"The session file is damaged, so that the request cannot be rebuilt: {error}.") from error
    doubts = []
    if (names := list(collect_referenced_tools().of(messages))) and names != ["advisor"]:
        doubts.append("the definitions of tools that ToolSearch loaded are not recorded")
    recorded_front, _dash, recorded_messages = step.request.partition("-")
    parts = Request(front.model, messages.to_tuple(), max_tokens=step.max_tokens)
    # A fallback model that answered is in the front, while the request names the one that it was sent for.
    models = dict.fromkeys((front.model, *(one.model for one in reversed(fronts) if one.model)))
    asked = [replace(front, model=model, context="") for model in models]
    model = next((one.model for one in asked if digest_front(one, parts) == recorded_front), None)
    if not step.request:
        doubts.append("no digest was recorded")
    else:
        if RequestDigests().digest(parts).partition("-")[2] != recorded_messages:
            doubts.append("the messages differ from what was sent")
        if model is None:
            doubts.append("the model or its parameters differ from what was sent")
    system = [texts.get(digest) for digest in front.system]
    if None in system:
        doubts.append("the text of the system prompt has changed since")
    tools = {name: texts.get(digest) for name, digest in front.tools}
    if unknown := [plain_line(name, 60) for name, tool in tools.items() if tool is None]:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        doubts.append(f"the definitions of {', '.join(unknown[:3])}{more} have changed since")
    request = Request(
        model=model or front.model or step.model,
        messages=messages.to_tuple(),
        system=tuple(part or "[not known]" for part in system),
        tools=tuple(tool or {"name": name, "description": "[not known]"} for name, tool in tools.items()),
        max_tokens=step.max_tokens,
        thinking=front.thinking,
        effort=front.effort,
        fast=front.fast,
    )
    return SentRequest(request, front, tuple(doubts))


class MessageDigests:
    """The digests of the messages of requests, while the records of a session are read in order."""

    def __init__(self, path: Path) -> None:
        self._reader = RecordReader(LoadedSession(path, path.stem), NoHistory())
        self._digests = RequestDigests()
        self._view = ContextView()
        self._basis: object = None
        """What the view was made from. As long as it is the same, only new messages are encoded."""

    def take(self, record: Json) -> None:
        self._reader.take(record)

    def digest(self) -> str:
        """That of a request after the records so far; "" if they cannot be sent."""
        session = self._reader.session
        basis = [*session.redactions], [*session.edits], {**session.user_contexts}
        if basis != self._basis:
            self._view, self._basis = _view_of(session), basis
        try:
            messages = self._view.wire(tuple(session.messages))
        except AssertionError:
            return ""
        return self._digests.digest(Request("", messages.to_tuple(), max_tokens=0)).partition("-")[2]


# ------------------------------------------------------------------------------------------------------------ display


def describe_proof(sent: SentRequest, step: RequestStep) -> str:
    if sent.doubts:
        return f"Not proven: {'; '.join(sent.doubts)}."
    return f"Proven: the digest of this request is the recorded one ({step.request})."


def describe_parameters(sent: SentRequest) -> str:
    request = sent.request
    fast = " · fast mode" if request.fast else ""
    return (
        f"model {request.model} · effort {request.effort or 'auto'} · thinking {request.thinking.mode}{fast} · "
        f"at most {request.max_tokens:,} tokens\nsystem prompt of {sum(map(len, request.system)):,} characters · "
        f"{counted(len(request.tools), 'tool')} · {counted(len(request.messages), 'message')}"
    )


def describe_changes(opened: OpenedStep) -> list[str]:
    """What differs from the request before."""
    if opened.before is None:
        return ["This is the first request of the conversation."]
    before, now = opened.before, opened.sent
    lines = [f"{block}: {why}" if why else block for block, why in list_front_changes(before.front, now.front)]
    if before.request.max_tokens != now.request.max_tokens:
        lines.append(f"the output limit: {before.request.max_tokens:,} → {now.request.max_tokens:,} tokens")
    if changed := find_changed_message(before.request, now.request):
        lines.append(changed)
    lines = [f"changed: {line}" for line in lines]
    new = len(now.request.messages) - count_same(opened)
    return [*lines, f"{counted(new, 'new message')} after {count_same(opened):,} unchanged"]


def count_same(opened: OpenedStep) -> int:
    """How many messages the request begins with as the one before it."""
    if opened.before is None:
        return 0
    return sum(takewhile(bool, map(eq, opened.before.request.messages, opened.sent.request.messages)))


def show_block(block: Json, role: str) -> tuple[str, str]:
    """A block of a message as heading and text, without secrets. The text may come from a model."""
    match block.get("type"):
        case "text":
            return role, without_secrets(str(block["text"]))
        case "tool_use":
            return f"call {block['name']}", json.dumps(redact_values(block["input"]), ensure_ascii=False, indent=2)
        case "tool_result":
            content = block.get("content")
            parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
            texts = [str(part.get("text", f"[{part.get('type')}]")) for part in parts]
            return "result (error)" if block.get("is_error") else "result", without_secrets("\n".join(texts))
        case "thinking":
            return "thinking", without_secrets(str(block.get("thinking", "")))
    return str(block.get("type")), ""
