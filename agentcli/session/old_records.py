"""Derive fields that session files of older versions lack from the texts that those versions wrote.

The only module that parses state from sentences. Its texts are those of old files and never change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentcli.core.messages import NOTE, RESULT_DATA, SUMMARY, Json, Message, Origin, ToolResultBlock, ToolUseBlock
from agentcli.core.text.lazy_pattern import lazy_pattern

_DENIED = "denied by "
_HUNKS = lazy_pattern(r"accepted (\d+) of (\d+) hunks")
_CANCELLED = "Compaction was cancelled; the conversation is as it was."
_NOTES = (
    ("[The user ran a command", "shell"),
    ("[The user undid", "undo"),
    ("[The user took the undo back", "undo"),
    ("[Background commands that have ended:", "background"),
)
_ENDED_SHELL = lazy_pattern(r"^(bash_\d+) \(", re.MULTILINE)
_STARTED_SHELL = lazy_pattern(r"in the background as (bash_\d+)\b")
_SHELL_ENDS = ("It has ended: ", " was ended: ", " had ended")
_FOLDERS = ("Working directory: ", "Further directory: ", "Memory folder: ")
_SUMMARY_LEAD = "This conversation was shortened. A hand-over of what came before:\n\n"
_SUMMARY_ENDS = (
    "\n\nGo on from here without mentioning the hand-over.",
    "\n\nThe last messages before it follow as they were.",
)
_SUMMARY_PROMPTS = "\n\nThe user's messages, word for word, the oldest first:"


def completed_message(message: Message) -> Message:
    """Add the meta fields that the record of an old message lacks."""
    if message.origin is Origin.SUMMARY and SUMMARY not in message.meta and message.text.startswith(_SUMMARY_LEAD):
        return replace(message, meta={**message.meta, SUMMARY: _summary(message.text)})
    if message.origin is not Origin.ATTACHMENT or NOTE in message.meta:
        return message
    about = next((about for start, about in _NOTES if message.text.startswith(start)), "")
    if not about:
        return message
    note: Json = {"about": about}
    if about == "background":
        note["shells"] = _ENDED_SHELL.findall(message.text)
    return replace(message, meta={**message.meta, NOTE: note})


def completed_results(message: Message, calls: Sequence[ToolUseBlock]) -> Message:
    """Add the `RESULT_DATA` that the record of old tool results lacks."""
    known = message.meta.get(RESULT_DATA, {})
    # Records with data for other calls may still lack the plan, which was added later.
    by_id = {call.id: call for call in calls if not known or call.name == "ExitPlanMode"}
    data = {
        result.tool_use_id: found
        for result in message.tool_results
        if not result.is_error and (found := _result_data(by_id.get(result.tool_use_id), result.text))
    }
    return replace(message, meta={**message.meta, RESULT_DATA: {**data, **known}}) if data else message


def _result_data(call: ToolUseBlock | None, text: str) -> Json:
    if call is not None and call.name == "Read":
        _lines, _blank, notes = text[-1_000:].rpartition("\n\n[")
        return {"partial": True} if notes.startswith("Partial: ") or "long line" in notes else {}
    if call is not None and call.name in ("BashOutput", "KillShell"):
        has_ended = any(words in text for words in _SHELL_ENDS)
        return {"ended": str(call.input.get("bash_id", ""))} if has_ended else {}
    if call is not None and call.name == "ExitPlanMode":
        return {"plan": text.partition("\n\n")[2] or str(call.input.get("plan", ""))}
    return {}


def started_shells(messages: Sequence[Message]) -> Iterator[tuple[str, Json]]:
    """Background commands that calls started, by id, for files without `background` records."""
    calls: dict[str, str] = {}
    for message in messages:
        calls.update((use.id, str(use.input.get("command", ""))) for use in message.tool_uses if use.name == "Bash")
        for result in message.tool_results:
            if result.tool_use_id in calls and (started := _STARTED_SHELL.search(result.text[-400:])):
                yield started[1], {"command": calls[result.tool_use_id]}


def folder_lines(context: str) -> list[str]:
    return [line for line in context.splitlines() if line.startswith(_FOLDERS)]


def _summary(text: str) -> str:
    text = text.removeprefix(_SUMMARY_LEAD)
    for end in _SUMMARY_ENDS:
        text = text.removesuffix(end)
    return text.partition(_SUMMARY_PROMPTS)[0].strip()


def completed_event(data: Json) -> Json:
    """Add the fields that the record of an old event lacks."""
    if data.get("event") == "CompactionFailed" and data.get("text") == _CANCELLED:
        return {**data, "cancelled": True}
    return data


def outcome(record: Json, block: ToolResultBlock, summary: str) -> str:
    """Derive the outcome of a call from a record without an `outcome`."""
    if not block.is_error:
        return "done"
    if "origin" in record and "toolName" not in record:
        # A synthetic result of a call that never ended.
        return "interrupted"
    return "denied" if summary.startswith("denied") else "interrupted" if summary == "interrupted" else "failed"


def denied_by(outcome: str, summary: str) -> str:
    """Derive who denied a call from a record without `deniedBy`."""
    return summary.removeprefix(_DENIED) if outcome == "denied" and summary.startswith(_DENIED) else ""


def accepted_hunks(block: ToolResultBlock) -> list[int]:
    """Derive the numbers of accepted and proposed hunks from a record without an `outcome`."""
    found = _HUNKS.search(block.text)
    return [int(number) for number in found.groups()] if found else []
