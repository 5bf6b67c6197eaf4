"""The line format of session files: one JSON object per line, compact, UTF-8. Converts values, knows nothing of files.

Fields that other readers of such files expect keep their names (type, uuid, parentUuid, sessionId, timestamp, cwd,
version, isSidechain, message). A message of several blocks is several lines. Types of lines:

    session          first line: format, cwd, system context with its folders and style, id of the forked session;
                     for a sub-agent the session that started it (`parentSession`)
    user             a whole message such as a prompt or an attachment; `uuid` is its id, `origin` its kind;
                     with origin tool_results: one block of a message that ends with `results-end`
    assistant        one block of a reply that ends with `reply-end` (`messageId` is ours, `message.id` the API's)
    reply-end        the reply is complete: `parts` lists its lines in order
    results-end      the same for a message of tool results
    call             a call asks the user (`state`: asked), or begins to run and may change something (`begun`)
    boundary, error  messages of the log that are never sent
    tombstone        the blocks of `messageId` so far are void
    redaction        requests leave something out from here on (`repair`, `through`)
    edit             requests show old content differently from here on (`edits`, `step`)
    pin              all items that the user has pinned (`items`)
    seen             new file states that the model has seen (`files`)
    directory        new directory of the model's shell commands (`path`)
    background       a background command began or ended (`taskId`, `command`, `status`, `summary`)
    shown            an event that belongs to no message, shown again when the session is resumed (`event`)
    usage            usage and cost of one request, also of a sub-agent or for a summary (`modelUsage`)
    submission-end   a Result: its outcome, cost, usage per model, number of messages in the log
    resume           another process continues from here; what is open above stays unfinished
    system-context   a new system context
    user-context     the user context, before all messages, from a boundary on (`boundary`, "" for the beginning)
    request-front    digests of the request prefix from here on, for the prompt cache (`front`)
    mcp-tools        tools of MCP servers that are part of every request from here on (`tools`)
    gap              records were lost here (full disk)
    custom-title     the session's name

Lines of other types come from other programs: they stay in the file and are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentcli.core.files.bounded_read import parse_json
from agentcli.core.messages import Json, Message, Origin, block_from_dict, block_to_dict
from agentcli.core.usage import Usage

FORMAT = 1

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_encode_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode


def encode_line(record: Mapping[str, Any]) -> bytes:
    try:
        return _encode(record).encode() + b"\n"
    except UnicodeEncodeError:
        # Lone surrogates have no UTF-8 form; escaped they survive the round trip.
        return _encode_ascii(record).encode() + b"\n"


def decode_line(line: bytes) -> Json | None:
    """Parse a line; None for junk: invalid UTF-8, NULs, no JSON object, nested too deeply."""
    try:
        record = parse_json(line.decode())
    except ValueError:
        # After a power failure some file systems leave a run of NULs before the next record.
        bare = line.strip(b"\0\r\n\t ")
        if not bare or len(bare) == len(line.rstrip(b"\r\n")):
            return None
        try:
            record = parse_json(bare.decode())
        except ValueError:
            return None
    return record if isinstance(record, dict) else None


def whole_message_fields(message: Message) -> Json:
    """Fields of a line with a whole message, besides those that every line has."""
    body: Json = {"role": message.role, "content": [block_to_dict(block) for block in message.content]}
    if message.api_id:
        body["id"] = message.api_id
    if message.model:
        body["model"] = message.model
    if message.stop_reason is not None:
        body["stop_reason"] = message.stop_reason
    if message.usage is not None:
        body["usage"] = message.usage.to_wire()
    fields: Json = {"origin": message.origin.value}
    if message.origin in (Origin.ATTACHMENT, Origin.RECOVERY, Origin.HOOK, Origin.INTERRUPTION):
        fields["isMeta"] = True
    if message.origin is Origin.SUMMARY:
        fields["isCompactSummary"] = True
    if message.meta:
        fields["meta"] = dict(message.meta)
    fields["message"] = body
    return fields


def whole_message(record: Mapping[str, Any]) -> Message:
    """The reverse of `whole_message_fields`. Raises ValueError, KeyError or TypeError for a record of another form."""
    body = record["message"]
    usage = body.get("usage")
    return Message(
        role="assistant" if body["role"] == "assistant" else "user",
        content=tuple(map(block_from_dict, body["content"])),
        id=str(record["uuid"]),
        origin=Origin(record["origin"]),
        api_id=str(body.get("id") or ""),
        model=str(body.get("model") or ""),
        stop_reason=body.get("stop_reason"),
        usage=Usage.from_wire(usage) if usage is not None else None,
        meta=dict(record.get("meta") or {}),
    )
