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
)
from agentcli.history.steps import StepText
from agentcli.history.trace import TraceRow, label_row, note_row
from agentcli.providers.catalog import Catalog


def can_open(row: TraceRow) -> bool:
    """Whether a step is a request that can be rebuilt: one of a conversation."""
    return row.request is not None and row.request.purpose == "turn"


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

    def show_request(self, row: TraceRow) -> list[StepText]:
        if row.call is not None:
            given = json.dumps(redact_values(row.call.input), ensure_ascii=False, indent=2)
            return [StepText(row.call.name, "heading"), StepText(given)]
        if not can_open(row):
            return _show_notes(row)
        body, pieces = self.body(row), self._show_facts(row)
        for number, part in enumerate(body.get("system", ()), 1):
            pieces += _titled(f"system prompt, part {number}", without_secrets(str(part.get("text", ""))))
        tools = body.get("tools", ())
        pieces += _titled(counted(len(tools), "tool"), ", ".join(str(tool.get("name")) for tool in tools))
        return [*pieces, *_show_messages(body["messages"])]

    def show_response(self, row: TraceRow) -> list[StepText]:
        if row.call is None and not can_open(row):
            return _show_notes(row)
        pieces = [StepText(note_row(row), "muted")] if row.notes else []
        if (call := row.call) is not None:
            if call.diff:
                pieces.append(StepText(without_secrets(call.diff), "diff"))
            result = call.end.result if call.end is not None else None
            text = result.text if result is not None else "It has no result: it was cut off, or still runs."
            pieces += _titled("result (error)" if result and result.is_error else "result", without_secrets(text))
        else:
            for block in self.open(row).response:
                pieces += _titled(*show_block(block_to_dict(block), "assistant"))
        return pieces

    def show_changes(self, row: TraceRow) -> list[StepText]:
        """What differs from the request before, and the messages that are new."""
        if not can_open(row):
            return _show_notes(row)
        opened = self.open(row)
        new = self.body(row)["messages"][count_same(opened) :]
        return [StepText("\n".join(describe_changes(opened))), *_show_messages(new)]

    def format(self, row: TraceRow) -> str:
        """A step as plain text. Of a request that continues the one before, only what is new."""
        pieces = [StepText(label_row(row).strip())]
        if can_open(row) and count_same(self.open(row)):
            pieces += [*self._show_facts(row), StepText(""), *self.show_changes(row)]
        else:
            pieces += self.show_request(row)
        if row.call is not None or can_open(row):
            pieces += [StepText(""), StepText("Response", "heading"), *self.show_response(row)]
        return format_pieces(pieces)

    def record(self, row: TraceRow) -> Json:
        """For programs: the exact request with its proof, and the reply; of a call its input and its result."""
        if row.call is not None:
            result = row.call.end.result.text if row.call.end is not None else None
            given = {"tool": row.call.name, "input": redact_values(row.call.input)}
            return {**given, "outcome": row.call.outcome, "result": result and without_secrets(result)}
        if not can_open(row):
            return {}
        opened = self.open(row)
        return {
            "proven": not opened.sent.doubts,
            "doubts": opened.sent.doubts,
            "changes": describe_changes(opened),
            "request": self.body(row),
            "response": redact_values([block_to_dict(block) for block in opened.response]),
        }

    def _show_facts(self, row: TraceRow) -> list[StepText]:
        opened = self.open(row)
        return [StepText(f"{describe_proof(opened.sent, opened.step)}\n{describe_parameters(opened.sent)}", "muted")]


def format_pieces(pieces: list[StepText]) -> str:
    """The pieces as plain text."""
    return "\n".join(f"── {piece.text}" if piece.kind == "heading" else str(piece.text) for piece in pieces).strip("\n")


def _show_messages(messages: Sequence[Json]) -> Iterator[StepText]:
    for message in messages:
        for block in message["content"]:
            yield from _titled(*show_block(block, message["role"]))


def _titled(title: str, text: str) -> Iterator[StepText]:
    yield from (StepText(""), StepText(title, "heading"), StepText(text))


def _show_notes(row: TraceRow) -> list[StepText]:
    lines = [without_secrets(row.label), note_row(row)]
    if row.request is not None and not can_open(row):
        lines.append("What was sent is not stored: it is no part of the conversation.")
    return [StepText("\n".join(filter(None, lines)), "muted")]
