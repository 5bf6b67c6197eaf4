"""Build the blocks of a reply from the raw events of the API.

Only a stream that cannot be a reply at all raises an error (`StreamError`). Unknown events are ignored, unknown blocks
and deltas are kept. A tool's input is collected as text and parsed once, at the end of its block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from sys import intern
from typing import Literal

from agentcli.core.files.access import MAX_INPUT_DEPTH, is_too_deep, parse_json
from agentcli.core.frozen import slotted
from agentcli.core.ids import Ids
from agentcli.core.messages import (
    NOTHING,
    Block,
    Json,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    clean_json,
    clean_text,
)
from agentcli.core.usage import Usage
from agentcli.providers.base import Closed, Delta, Finished, ModelEvent, Opened, Started

_UNSENDABLE_ESCAPE = re.compile(r"\\u(?:0000|d[89a-f])", re.IGNORECASE)
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MAX_NAME = 200
"""Maximum characters of a tool name; the API refuses longer ones when they are sent back."""
MAX_BLOCKS = 1_000
MAX_CHARACTERS = 16 * 1024 * 1024
"""Limit for a whole reply: far more than a model can write, and safe for all later processing."""
_DELTA_HOME = {"text_delta": "text", "thinking_delta": "thinking"}


class StreamError(Exception):
    """The events do not form a reply; treated as a broken stream."""


@slotted
class _OpenBlock:
    data: Json
    """The block from content_block_start."""
    kind: str
    pieces: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    citations: list[Json] = field(default_factory=list)
    unknown: list[Json] = field(default_factory=list)


class Accumulator:
    """Collects one reply. `taken_ids` returns the tool_use ids of the conversation; called when the reply begins."""

    def __init__(self, model: str, ids: Ids, taken_ids: Callable[[], Collection[str]], *, fast: bool = False) -> None:
        """`fast`: whether fast mode was requested; the server may report another speed."""
        self.model = model
        self.usage = self._requested = Usage(fast=fast)
        self.started = False
        self.finished = False
        self._ids = ids
        self._taken_ids = taken_ids
        self._taken: Collection[str] = ()
        self._made: set[str] = set()
        """Ids of calls in this reply."""
        self._open: dict[int, _OpenBlock] = {}
        self._stop_reason: str | None = None
        self._stop_details: Json = {}
        self._blocks = 0
        self._characters = 0

    def feed(self, event: Json) -> Iterable[ModelEvent]:
        """Process an API event; complete when the result has been iterated over. Raises `StreamError`."""
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event.get("delta")
            if isinstance(delta, dict):
                return self._delta(_index(event), delta)
        elif kind == "content_block_start":
            block = event.get("content_block")
            return self._start_block(_index(event), block if isinstance(block, dict) else {})
        elif kind == "content_block_stop":
            index = _index(event)
            block = self._open.pop(index, None)
            if block is not None:
                return (self._close(index, block),)
        elif kind == "message_start":
            return self._start(event)
        elif kind == "message_delta":
            self._message_delta(event)
        elif kind == "message_stop":
            return self._finish()
        return ()

    def end_of_stream(self) -> Iterator[ModelEvent]:
        """End of the body. Raises `StreamError` unless a stop_reason has arrived."""
        if self.finished:
            return
        if self._stop_reason is None:
            raise StreamError("the reply ended before it was complete")
        yield from self._finish()

    def _start(self, event: Json) -> Iterator[ModelEvent]:
        message = event.get("message")
        message = message if isinstance(message, dict) else {}
        self.usage = self._requested.updated(message.get("usage"))
        if self.started:
            return
        self.started = True
        # Fetched here and not with the first call, which arrives near the end of the reply, when the next request is
        # waited for.
        self._taken = self._taken_ids()
        self.model = intern(str(message.get("model") or self.model))
        yield Started(api_id=str(message.get("id") or ""), model=self.model, usage=self.usage)

    def _message_delta(self, event: Json) -> None:
        self.usage = self.usage.updated(event.get("usage"))
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return
        if delta.get("stop_reason") is not None:
            self._stop_reason = intern(str(delta["stop_reason"]))
        if isinstance(delta.get("stop_details"), dict):
            self._stop_details = _check_depth(delta["stop_details"])

    def _finish(self) -> Iterator[ModelEvent]:
        if not self.started:
            raise StreamError("the reply has no start event")
        for index, block in sorted(self._open.items()):
            # An incomplete tool call must never run, and incomplete thinking has no signature; incomplete text is
            # usable.
            if block.kind == "text" and any(block.pieces):
                yield self._close(index, block)
            elif block.kind == "tool_use":
                closed = self._close(index, block)
                # At the output cap an unclosed call counts as truncated, even if its JSON happens to be complete.
                yield replace(closed, cut=True) if self._stop_reason == "max_tokens" else closed
        self._open.clear()
        self.finished = True
        yield Finished(self._stop_reason, self.usage, self._stop_details)

    def _start_block(self, index: int, data: Json) -> Iterator[ModelEvent]:
        if not self.started:
            raise StreamError("content came before the start of the reply")
        self._blocks += 1
        if self._blocks > MAX_BLOCKS:
            raise StreamError(f"the reply has more than {MAX_BLOCKS:,} blocks")
        _check_depth(data)
        if "name" in data:
            data = {**data, "name": str(data["name"])[:_MAX_NAME]}
        block = self._open[index] = _OpenBlock(data, str(data.get("type", ""))[:_MAX_NAME])
        yield Opened(index, block.kind, data.get("name", ""))
        head = data.get(block.kind) if block.kind in ("text", "thinking") else None
        if isinstance(head, str) and head:
            self._count(head)
            block.pieces.append(head)
            yield Delta(index, "text" if block.kind == "text" else "thinking", head)

    def _delta(self, index: int, delta: Json) -> Sequence[ModelEvent]:
        kind = delta.get("type")
        block = self._open.get(index)
        opened: tuple[ModelEvent, ...] = ()
        if block is None:
            # Some servers omit content_block_start; for plain text it can be supplied.
            home = _DELTA_HOME.get(str(kind))
            if home is None:
                return ()
            opened = tuple(self._start_block(index, {"type": home, home: ""}))
            block = self._open[index]
        shown: Literal["text", "thinking", "input"]
        if kind == "text_delta":
            text, shown = delta.get("text"), "text"
        elif kind == "thinking_delta":
            text, shown = delta.get("thinking"), "thinking"
        elif kind == "input_json_delta":
            text, shown = delta.get("partial_json"), "input"
        else:
            self._silent_delta(block, _check_depth(delta))
            return opened
        if isinstance(text, str) and text:
            self._count(text)
            block.pieces.append(text)
            return (*opened, Delta(index, shown, text))
        return opened

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise StreamError(f"the reply has more than {MAX_CHARACTERS:,} characters")

    def _silent_delta(self, block: _OpenBlock, delta: Json) -> None:
        # A rough count is enough: each event has a size limit.
        self._count(str(delta))
        match delta.get("type"):
            case "signature_delta":
                block.signature.append(str(delta.get("signature", "")))
            case "citations_delta" if isinstance(delta.get("citation"), dict):
                block.citations.append(delta["citation"])
            case _:
                block.unknown.append(delta)

    def _close(self, index: int, block: _OpenBlock) -> Closed:
        text = "".join(block.pieces)
        if block.kind == "tool_use":
            return self._close_tool(index, block, text)
        value: Block
        if block.kind == "text":
            citations = (*(block.data.get("citations") or ()), *block.citations)
            value = TextBlock(_sendable(text), citations)
        elif block.kind == "thinking":
            signature = "".join(block.signature) or str(block.data.get("signature") or "")
            value = ThinkingBlock(_sendable(text), signature)
        else:
            value = UnknownBlock(_read_unknown(block, text))
        return Closed(index, value)

    def _close_tool(self, index: int, block: _OpenBlock, text: str) -> Closed:
        given = block.data.get("input")
        if given and is_too_deep(given, deepest=MAX_INPUT_DEPTH):
            given, text = None, text or "{…}"
        value, invalid = parse_input(text) if text.strip() else (given if isinstance(given, dict) else {}, None)
        known = ("type", "id", "name", "input")
        # Interned: all calls of a tool share these names.
        call = ToolUseBlock(
            id=self._fresh_id(block.data),
            name=intern(str(block.data.get("name", ""))),
            input={intern(key): item for key, item in value.items()},
            invalid_json=invalid,
            extra={key: item for key, item in block.data.items() if key not in known} or NOTHING,
        )
        return Closed(index, call, cut=not text.strip() and not value)

    def _fresh_id(self, data: Json) -> str:
        """The call's id, or a new one if it is already used in this conversation or the API would refuse it."""
        own = data.get("id")
        taken = isinstance(own, str) and (own in self._taken or own in self._made)
        if not isinstance(own, str) or taken or not _TOOL_ID.fullmatch(own):
            own = "toolu_" + self._ids.new().replace("-", "")
        self._made.add(own)
        return own


def parse_input(text: str) -> tuple[Json, str | None]:
    """Parse the JSON input of a tool call: (input, None), or ({}, the text) if it is not a JSON object."""
    try:
        value = parse_json(text, deepest=MAX_INPUT_DEPTH)
    except ValueError:
        return {}, clean_text(text)
    if not isinstance(value, dict):
        return {}, clean_text(text)
    if _UNSENDABLE_ESCAPE.search(text):
        value = clean_json(value)
    return value, None


def _sendable(text: str) -> str:
    """Text that the API accepts. Surrogates of a character split between two deltas are joined again."""
    cleaned = clean_text(text)
    if cleaned is text or cleaned == text:
        return text
    return clean_text(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def _read_unknown(block: _OpenBlock, text: str) -> Json:
    data = dict(block.data)
    if text:
        if block.kind.endswith("tool_use"):
            data["input"], invalid = parse_input(text)
            if invalid is not None:
                data["input"] = {}
        else:
            data["text"] = text
    for delta in block.unknown:
        # Unknown deltas: assume that they carry parts of the block's fields.
        for key, value in delta.items():
            if key == "type":
                continue
            old = data.get(key)
            data[key] = old + value if isinstance(old, str) and isinstance(value, str) else value
    if block.signature:
        data["signature"] = "".join(block.signature)
    return data


def _check_depth(data: Json) -> Json:
    """Check the nesting depth of data that is stored. Raises `StreamError` if it is too deep."""
    if is_too_deep(data):
        raise StreamError("the reply is nested too deeply")
    return data


def _index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
