"""What a step of a trace sent and got, as pieces of text for every front end. Secrets are redacted.

The texts come from models, tools and files: whoever shows them makes them safe.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from agentcli.core.messages import Json, block_to_dict
from agentcli.core.text.format import counted
from agentcli.core.text.secret_text import redact_values, without_secrets
from agentcli.history.sent_requests import (
    OpenedStep,
    Texts,
    count_same,
    describe_changes,
    describe_parameters,
    describe_proof,
    open_step,
    show_block,
    show_message,
)
from agentcli.history.steps import StepText
from agentcli.history.trace import TraceRow, note_row
from agentcli.providers.catalog import Catalog


def can_open(row: TraceRow) -> bool:
    """Whether a step is a request that can be rebuilt: one of a conversation whose file exists."""
    return row.request is not None and row.request.purpose == "turn" and row.timeline is not None


class StepReader:
    """Opens the steps of one session and its sub-agents. All methods are blocking and raise `AgentError` or
    `OSError`. `open` and `body` need a step that `can_open`."""

    def __init__(self, find_texts: Callable[[], Texts], catalog: Catalog) -> None:
        self._find_texts = find_texts
        self._catalog = catalog
        self._last: tuple[TraceRow, OpenedStep] | None = None

    @cached_property
    def _texts(self) -> Texts:
        return self._find_texts()

    def open(self, row: TraceRow) -> OpenedStep:
        assert row.request is not None
        assert row.timeline is not None
        if self._last is None or self._last[0] is not row:
            self._last = row, open_step(row.timeline, row.request, self._texts)
        return self._last[1]

    def body(self, row: TraceRow) -> Json:
        """The exact request of a step."""
        return self.open(row).sent.body(self._catalog)

    def show_request(self, row: TraceRow, *, only_new: bool = False) -> list[StepText]:
        """`only_new`: without what the request before had too."""
        if row.call is not None:
            return [StepText(row.call.name, "heading"), StepText(_format_json(row.call.input))]
        if not can_open(row):
            return _show_notes(row)
        opened = self.open(row)
        facts = (describe_proof(opened.sent, opened.step), *describe_parameters(opened.sent))
        head = [StepText("\n".join(facts), "muted")]
        if only_new and count_same(opened):
            return [*head, StepText(""), *self.show_changes(row)]
        body = self.body(row)
        for number, part in enumerate(body.get("system", ()), 1):
            head += _titled(f"system prompt, part {number}", without_secrets(str(part.get("text", ""))))
        tools = body.get("tools", ())
        head += _titled(counted(len(tools), "tool"), ", ".join(str(tool.get("name")) for tool in tools))
        return [*head, *self._show_messages(row, 0)]

    def show_response(self, row: TraceRow) -> list[StepText]:
        if row.call is not None:
            return _show_result(row)
        if not can_open(row):
            return _show_notes(row)
        opened = self.open(row)
        pieces = _show_notes(row)
        for block in opened.response:
            pieces += _titled(*show_block(block_to_dict(block), "assistant"))
        if not opened.response:
            pieces.append(StepText("Nothing of the reply was kept.", "muted"))
        return pieces

    def show_changes(self, row: TraceRow) -> list[StepText]:
        """What differs from the request before, and the messages that are new."""
        if not can_open(row):
            return [StepText("Only requests of the conversation are compared with the one before.", "muted")]
        opened = self.open(row)
        return [StepText("\n".join(describe_changes(opened))), *self._show_messages(row, count_same(opened))]

    def _show_messages(self, row: TraceRow, first: int) -> Iterator[StepText]:
        for message in self.body(row)["messages"][first:]:
            for title, text in show_message(message):
                yield from _titled(title, text)

    def record(self, row: TraceRow) -> Json:
        """For programs: the exact request with its proof, and the reply; of a call its input and its result."""
        if row.call is not None:
            result = row.call.end.result.text if row.call.end is not None else None
            return {"input": redact_values(row.call.input), "result": result and without_secrets(result)}
        if not can_open(row):
            return {}
        opened = self.open(row)
        return {
            "proven": not opened.sent.doubts,
            "doubts": opened.sent.doubts,
            "changes": describe_changes(opened),
            "request": opened.sent.body(self._catalog),
            "response": redact_values([block_to_dict(block) for block in opened.response]),
        }


def format_pieces(pieces: Sequence[StepText]) -> str:
    """The pieces as plain text."""
    return "\n".join(f"── {piece.text}" if piece.kind == "heading" else str(piece.text) for piece in pieces).strip("\n")


def _titled(title: str, text: str) -> Iterator[StepText]:
    yield StepText("")
    yield StepText(title, "heading")
    yield StepText(text)


def _show_notes(row: TraceRow) -> list[StepText]:
    lines = [without_secrets(row.label), note_row(row)]
    if row.request is not None and not can_open(row):
        lines.append("What was sent is not stored: it is no part of the conversation.")
    return [StepText("\n".join(filter(None, lines)), "muted")]


def _show_result(row: TraceRow) -> list[StepText]:
    assert row.call is not None
    pieces = _show_notes(row)
    end = row.call.end
    if end is None:
        return [*pieces, StepText("It has no result: it was cut off, or still runs.", "muted")]
    if row.call.diff:
        pieces.append(StepText(without_secrets(row.call.diff), "diff"))
    title = "result (error)" if end.result.is_error else "result"
    return [*pieces, *_titled(title, without_secrets(end.result.text))]


def _format_json(value: Json) -> str:
    return json.dumps(redact_values(value), ensure_ascii=False, indent=2)
