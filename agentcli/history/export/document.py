"""A session as a document: plain data in a stable form, from which all formats are made. The JSON format is this.

    format, version   "agentcli session", 1; a later version may add fields
    program           name and version of the program that wrote it
    session           id, title, folder, began, forked_from, models, cost_usd, totals of prompts and calls, and
                      skipped_lines (of the file, that could not be read)
    prompts           those of the current branch; what stands before the first one has the number 0
    prompt            number, id, at, ended_at, text, images, attached, models, cost_usd, usage, finished, answer, items
    item              by `type`: text, thinking, queued (a prompt sent meanwhile), summary (of a compaction) and error
                      have a text; interrupted has nothing; call has number, id, name, title, input, outcome (done,
                      failed, denied, interrupted or unfinished), denied_by, duration_ms, summary, output, images,
                      diff, path, started_at, files, added, removed, agents (ids)
    image             media_type, data (base64)
    redactions        what was replaced: placeholder, kind, places

Times are ISO 8601, "" if unknown; costs are in US dollars, null if unknown. Texts are untrusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from agentcli import __version__
from agentcli.core.errors import AgentError
from agentcli.core.messages import (
    ATTACHED,
    SUMMARY,
    AnswerTracker,
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    answers,
    unwrap_error,
)
from agentcli.session.load import load_session
from agentcli.session.timeline import CallStep, PromptStep, Timeline, read_timeline
from agentcli.tools.base import title_of
from agentcli.tools.files.diff import diff_display
from agentcli.tools.registry import builtin_tools

FORMAT, VERSION = "agentcli session", 1


def read_document(path: Path, *, thinking: bool = False) -> Json:
    """Read a session file. Blocking. Raises `AgentError`."""
    try:
        loaded = load_session(path, with_history=False)
        document = describe(loaded.messages, read_timeline(path), thinking=thinking)
    except OSError as error:
        raise AgentError(f"The session file cannot be read: {error.strerror or error}.") from error
    if not document["prompts"]:
        raise AgentError("This session has nothing to export.")
    return {**document, "session": {**document["session"], "skipped_lines": loaded.skipped}}


def describe(messages: Sequence[Message], timeline: Timeline, *, thinking: bool = False) -> Json:
    """The document of these messages. `timeline`: has what they do not tell, as far as it is known."""
    prompts = list(_Reader(timeline, thinking).read(messages))
    costs = [prompt["cost_usd"] for prompt in prompts if prompt["cost_usd"] is not None]
    session = {
        "id": timeline.session_id,
        "title": timeline.title,
        "folder": timeline.cwd,
        "began": timeline.began,
        "forked_from": timeline.forked_from,
        "models": list(dict.fromkeys(model for prompt in prompts for model in prompt["models"])),
        "cost_usd": sum(costs) if costs else None,
        "prompts": len([prompt for prompt in prompts if prompt["number"]]),
        "calls": sum(item["type"] == "call" for prompt in prompts for item in prompt["items"]),
        "skipped_lines": 0,
    }
    program = f"agentcli {__version__}"
    return {"format": FORMAT, "version": VERSION, "program": program, "session": session, "prompts": prompts}


class _Reader:
    """Divides the messages of a conversation into prompts."""

    def __init__(self, timeline: Timeline, thinking: bool) -> None:
        self._timeline = timeline
        self._thinking = thinking
        self._tools = {tool.name: tool for tool in builtin_tools()}
        self._steps = {call.id: call for prompt in timeline.prompts.values() for call in prompt.calls}
        self._results: Mapping[str, ToolResultBlock] = {}
        self._calls = 0
        self._answer = AnswerTracker()

    def read(self, messages: Sequence[Message]) -> Iterator[Json]:
        kept = [message for message in messages if not message.is_copy]
        self._results = {result.tool_use_id: result for message in kept for result in message.tool_results}
        bounds = [place for place, message in enumerate(kept) if message.origin is Origin.PROMPT] + [len(kept)]
        before = self._prompt(0, Message("user", (), "", Origin.PROMPT), kept[: bounds[0]])
        if before["items"]:
            yield before
        for number, (begin, end) in enumerate(pairwise(bounds), 1):
            yield self._prompt(number, kept[begin], kept[begin + 1 : end])

    def _prompt(self, number: int, message: Message, rest: Sequence[Message]) -> Json:
        step = self._timeline.prompts.get(message.id) or PromptStep(message.id, "", "", "")
        costs = [one.cost_usd for one in step.requests if one.cost_usd is not None]
        attached = [found for one in rest if isinstance(found := one.meta.get(ATTACHED), dict)]
        texts, items = answers(rest), list[Json]()
        self._answer.take(message)
        for one in rest:
            self._add(one, items)
        return {
            "number": number,
            "id": message.id,
            "at": step.at,
            "ended_at": step.ended_at,
            "text": message.typed,
            "images": _images(message.content),
            "attached": [one["name"] for one in attached if isinstance(one.get("name"), str)],
            "models": list(step.models or dict.fromkeys(one.model for one in rest if one.model)),
            "cost_usd": sum(costs) if costs else None,
            "usage": step.usage.to_wire(),
            "finished": not step.at or step.result is not None,
            "answer": texts[-1] if texts else "",
            "items": items,
        }

    def _add(self, message: Message, items: list[Json]) -> None:
        was_unfinished = self._answer.unfinished
        self._answer.take(message)
        match message.origin:
            case Origin.QUEUED:
                items.append({"type": "queued", "text": message.typed, "images": _images(message.content)})
            case Origin.REPLY:
                found = [item for block in message.content for item in self._items(block)]
                if was_unfinished and found and items and found[0]["type"] == items[-1]["type"] == "text":
                    # The text continues in the middle of a sentence or a word.
                    items[-1]["text"] += found.pop(0)["text"]
                items += found
            case Origin.SUMMARY:
                items.append({"type": "summary", "text": str(message.meta.get(SUMMARY, message.text))})
            case Origin.INTERRUPTION:
                items.append({"type": "interrupted"})
            case Origin.ERROR:
                items.append({"type": "error", "text": message.text})

    def _items(self, block: Block) -> Iterator[Json]:
        match block:
            case TextBlock(text=text) if text.strip():
                yield {"type": "text", "text": text}
            case ThinkingBlock(thinking=text) if self._thinking and text.strip():
                yield {"type": "thinking", "text": text}
            case ToolUseBlock():
                self._calls += 1
                yield self._call(block)

    def _call(self, call: ToolUseBlock) -> Json:
        step = self._steps.get(call.id) or CallStep(call.id, call.name, call.input, "")
        result, end = self._results.get(call.id), step.end
        outcome = "done" if result is not None else "unfinished"
        if end is not None and end.outcome == "denied":
            outcome = "denied"
        elif result is not None and result.is_error:
            outcome = "interrupted" if end is not None and end.outcome == "interrupted" else "failed"
        # The text of a denied call is for the model, but a command that was only denied the network has real output.
        text = unwrap_error(result.text) if result is not None else ""
        is_refusal = outcome == "denied" and result is not None and text != result.text
        display = end.display if end is not None and end.display.get("kind") == "diff" else {}
        return {
            "type": "call",
            "number": self._calls,
            "id": call.id,
            "name": call.name,
            "title": step.title or self._title_of(call),
            "input": call.input,
            "outcome": outcome,
            "denied_by": end.denied_by if end is not None else "",
            "duration_ms": end.duration_ms if end is not None else 0,
            "summary": end.summary if end is not None and not is_refusal else "",
            "output": "" if is_refusal else text,
            "images": _images(result.content) if result is not None else [],
            "diff": str(display.get("diff", "")) or _input_diff(call, outcome),
            "path": str(display.get("path") or call.input.get("file_path") or call.input.get("notebook_path") or ""),
            **{name: getattr(step, name) for name in ("started_at", "files", "added", "removed", "agents")},
        }

    def _title_of(self, call: ToolUseBlock) -> str:
        tool = self._tools.get(call.name)
        return (title_of(tool, call.input, Path(self._timeline.cwd)) if tool is not None else "") or call.name


def _images(blocks: Sequence[Block]) -> list[Json]:
    sources = [block.source for block in blocks if isinstance(block, ImageBlock)]
    names = ("type", "media_type", "data")
    return [{name: str(source.get(name, "")) for name in names} for source in sources]


def _input_diff(call: ToolUseBlock, outcome: str) -> str:
    """The change that a call without a recorded diff made, or that the user denied, by its input; "" for one that
    failed or changes no file."""
    new = {"Edit": "new_string", "MultiEdit": "new_string", "Write": "content", "NotebookEdit": "new_source"}
    edits = call.input.get("edits") if call.name == "MultiEdit" else [call.input]
    if call.name not in new or outcome in ("failed", "interrupted") or not isinstance(edits, list):
        return ""
    found = [edit for edit in edits if isinstance(edit, dict)]
    texts = [(str(edit.get("old_string") or ""), str(edit.get(new[call.name]) or "")) for edit in found]
    lines = [line for old, fresh in texts for line in diff_display("", old, fresh)["diff"].split("\n")]
    # Without hunk headers and "no newline" marks: line numbers and the end of the file are unknown.
    return "\n".join(line for line in lines if line and line[0] in " +-")
