"""A session as a document: plain data in a stable form, from which all formats are made. The JSON format is this.

    format, version   "agentcli session", 1; a later version may add fields
    program           name and version of the program that wrote it
    session           id, title, folder, began, forked_from, models, cost_usd, and totals of prompts and calls
    branches          the current branch first; each has name, is_current, left_at and its prompts. Prompts that a
                      branch shares with an earlier one are only there, so `number` may begin later
    prompt            number, id, at, ended_at, text, images, attached, models, cost_usd, usage, finished, answer,
                      requests, items
    request           model, ended_at, first_ms, duration_ms, usage, cost_usd, purpose, transition, stop_reason,
                      outcome, agent, calls (their ids)
    item              by `type`: text, thinking, queued (a prompt sent meanwhile), summary (of a compaction) and error
                      have a text; interrupted has nothing; call has number, id, name, title, input, outcome (done,
                      failed, denied, interrupted or unfinished), denied_by, started_at, duration_ms, summary, output,
                      images, diff, path, files, added, removed, agents (ids)
    image             media_type, data (base64)
    redactions        what was replaced: placeholder, kind, places

Times are ISO 8601, "" if unknown; costs are in US dollars, null if unknown. Texts are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from agentcli import __version__
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
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
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Usage
from agentcli.session.base import Rewind
from agentcli.session.load import load_session
from agentcli.session.timeline import CallStep, Leaf, PromptStep, RequestStep, Timeline, read_timeline

FORMAT, VERSION = "agentcli session", 1


@frozen
class Branch:
    messages: Sequence[Message]
    leaf: Leaf = Leaf("", ())


def read_document(path: Path, *, branch: str = "", every_branch: bool = False, thinking: bool = False) -> Json:
    """Read a session file. `branch`: the name of another branch than the current one. Blocking. Raises `AgentError`."""
    try:
        timeline = read_timeline(path)
        leaves = list(reversed(timeline.leaves))
        if branch:
            leaves = [leaf for leaf in leaves if leaf.name.casefold() == branch.casefold()]
            if not leaves:
                names = ", ".join(plain_line(leaf.name, 60) for leaf in timeline.leaves if leaf.name)
                known = f"Its branches with a name: {names}." if names else "It has no branches with a name."
                raise UsageError(f"This session has no branch {plain_line(branch, 60)}. {known}")
        read = [Branch(_messages_of(path, leaf), leaf) for leaf in (leaves if every_branch else leaves[:1])]
    except OSError as error:
        raise AgentError(f"The session file cannot be read: {error.strerror or error}.") from error
    return describe(read, timeline, titles_in(timeline.cwd), thinking=thinking)


def _messages_of(path: Path, leaf: Leaf) -> Sequence[Message]:
    rewind = Rewind(branch=leaf.branch) if leaf.branch else None
    return load_session(path, with_history=False, rewind=rewind).messages


def titles_in(folder: str) -> Callable[[str, Json], str]:
    """What calls of built-in tools are called in the transcript of a session in this folder."""
    from agentcli.tools.base import title_of
    from agentcli.tools.registry import builtin_tools

    tools = {tool.name: tool for tool in builtin_tools()}
    return lambda name, given: title_of(tools[name], given, Path(folder)) if name in tools else name


def describe(
    branches: Sequence[Branch],
    timeline: Timeline,
    title_of: Callable[[str, Json], str],
    *,
    thinking: bool = False,
) -> Json:
    """The document of these branches, the current one first. `timeline`: has what the messages do not tell, as far as
    it is known."""
    shown: set[str] = set()
    described: list[Json] = []
    for branch in branches:
        prompts = list(_Reader(timeline, title_of, thinking).read(branch.messages))
        own = [prompt for prompt in prompts if prompt["id"] not in shown]
        shown.update(prompt["id"] for prompt in own)
        described.append(
            {
                "name": branch.leaf.name,
                "is_current": not branch.leaf.branch,
                "left_at": branch.leaf.left_at,
                "prompts": own,
            }
        )
    prompts = [prompt for branch in described for prompt in branch["prompts"]]
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
    }
    program = f"agentcli {__version__}"
    return {"format": FORMAT, "version": VERSION, "program": program, "session": session, "branches": described}


class _Reader:
    """Divides the messages of a branch into prompts."""

    def __init__(self, timeline: Timeline, title_of: Callable[[str, Json], str], thinking: bool) -> None:
        self._timeline = timeline
        self._title_of = title_of
        self._thinking = thinking
        self._steps = {call.id: call for prompt in timeline.prompts.values() for call in prompt.calls}
        self._results: Mapping[str, ToolResultBlock] = {}
        self._calls = 0
        self._answer = AnswerTracker()

    def read(self, messages: Sequence[Message]) -> Iterator[Json]:
        kept = [message for message in messages if not message.is_copy]
        self._results = {result.tool_use_id: result for message in kept for result in message.tool_results}
        bounds = [place for place, message in enumerate(kept) if message.origin is Origin.PROMPT] + [len(kept)]
        before = self._prompt(0, None, kept[: bounds[0]])
        if before["items"]:
            yield before
        for number, (begin, end) in enumerate(pairwise(bounds), 1):
            yield self._prompt(number, kept[begin], kept[begin + 1 : end])

    def _prompt(self, number: int, message: Message | None, rest: Sequence[Message]) -> Json:
        step = self._timeline.prompts.get(message.id) if message is not None else None
        if message is not None:
            self._answer.take(message)
        attached = [found for one in rest if one.origin is Origin.ATTACHMENT for found in _attached(one)]
        items: list[Json] = []
        for one in rest:
            self._add(one, items)
        models = [one.model for one in rest if one.origin is Origin.REPLY and one.model]
        texts = answers(rest)
        return {
            "number": number,
            "id": message.id if message is not None else "",
            "at": step.at if step is not None else "",
            "ended_at": step.ended_at if step is not None else "",
            "text": message.typed if message is not None else "",
            "images": _images(message.content) if message is not None else [],
            "attached": attached,
            "models": list(step.models if step is not None and step.models else dict.fromkeys(models)),
            **_costs(step, rest),
            "finished": step is None or step.result is not None,
            "answer": texts[-1] if texts else "",
            "requests": [_request(one) for one in step.requests] if step is not None else [],
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
            "title": step.title or self._title_of(call.name, call.input) or call.name,
            "input": call.input,
            "outcome": outcome,
            "denied_by": end.denied_by if end is not None else "",
            "started_at": step.started_at,
            "duration_ms": end.duration_ms if end is not None else 0,
            "summary": end.summary if end is not None and not is_refusal else "",
            "output": "" if is_refusal else text,
            "images": _images(result.content) if result is not None else [],
            "diff": str(display.get("diff", "")) or _input_diff(call, outcome),
            "path": str(display.get("path") or call.input.get("file_path") or call.input.get("notebook_path") or ""),
            "files": step.files,
            "added": step.added,
            "removed": step.removed,
            "agents": list(step.agents),
        }


def _images(blocks: Sequence[Block]) -> list[Json]:
    sources = [block.source for block in blocks if isinstance(block, ImageBlock)]
    names = ("type", "media_type", "data")
    return [{name: str(source.get(name, "")) for name in names} for source in sources]


def _attached(message: Message) -> Iterator[str]:
    attached = message.meta.get(ATTACHED)
    if isinstance(attached, dict) and isinstance(attached.get("name"), str):
        yield attached["name"]


def _costs(step: PromptStep | None, messages: Sequence[Message]) -> Json:
    usage, cost = Usage(), None
    if step is not None:
        known = [one.cost_usd for one in step.requests if one.cost_usd is not None]
        usage, cost = step.usage, sum(known) if known else None
    else:
        for message in messages:
            usage += message.usage or Usage()
    return {"cost_usd": cost, "usage": usage.to_wire()}


def _request(step: RequestStep) -> Json:
    names = ("model", "ended_at", "first_ms", "duration_ms", "cost_usd", "purpose", "transition")
    fields = {name: getattr(step, name) for name in (*names, "stop_reason", "outcome", "agent")}
    return {**fields, "usage": step.usage.to_wire(), "calls": [call.id for call in step.calls]}


def _input_diff(call: ToolUseBlock, outcome: str) -> str:
    """The change that a call without a recorded diff made, or that the user denied, by its input; "" for one that
    failed or changes no file."""
    from agentcli.tools.files.diff import diff_display

    if outcome in ("failed", "interrupted"):
        return ""
    input = call.input
    match call.name:
        case "Edit":
            edits = [input]
        case "MultiEdit" if isinstance(input.get("edits"), list):
            edits = [edit for edit in input["edits"] if isinstance(edit, dict)]
        case "Write":
            edits = [{"new_string": input.get("content")}]
        case "NotebookEdit":
            edits = [{"new_string": input.get("new_source")}]
        case _:
            return ""
    texts = [(str(edit.get("old_string") or ""), str(edit.get("new_string") or "")) for edit in edits]
    lines = [line for old, new in texts for line in diff_display("", old, new)["diff"].split("\n")]
    # Without hunk headers and "no newline" marks: line numbers and the end of the file are unknown.
    return "\n".join(line for line in lines if line and line[0] in " +-")
