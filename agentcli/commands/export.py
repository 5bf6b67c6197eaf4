"""/export: write the conversation as Markdown, with tool results cut to a readable length."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.aio import in_thread
from agentcli.core.answers import AnswerTracker
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import (
    SUMMARY,
    Block,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentcli.core.plaintext import plain_line, plain_text
from agentcli.core.plural import counted
from agentcli.core.tool_errors import unwrapped

MANUAL = Manual(
    "Writes prompts, replies and tool calls to a new Markdown file in the project. Long tool results are cut. Without "
    "a name the file is called conversation-ID.md. A non-interactive run prints the text instead.",
    (
        ("/export", "write the conversation to a file"),
        ("/export notes/parser.md", "write it to this file"),
        ("/export --thinking", "include the model's thinking"),
    ),
)

_FIRST_LINES, _LAST_LINES = 20, 10
_LONGEST_LINE = 500
_BACKTICKS = re.compile(r"`{3,}")
_THINKING = "--thinking"


async def run(engine: Engine, arguments: str) -> str:
    words = arguments.split()
    name = " ".join(word for word in words if word != _THINKING)
    if name.startswith("-"):
        raise UsageError(f"/export does not know {plain_line(name, 80)}. It takes a file name and {_THINKING}.")
    messages = await engine.all_messages()
    if not any(message.is_prompt for message in messages):
        raise UsageError("There is nothing to export yet.")
    # In a thread: the results of a long conversation take seconds.
    paragraphs = await in_thread(markdown, messages, engine.title_of, thinking=_THINKING in words)
    text = "\n\n".join(paragraphs) + "\n"
    if engine.interactive:
        path = await in_thread(_write, engine, name, text)
        return f"Wrote {counted(text.count(chr(10)), 'line')} to {plain_line(str(path), 400)}."
    if name:
        # A program passes on prompts of others, who must not write files past the permissions.
        raise UsageError("In a non-interactive run /export prints the conversation. Redirect its output to a file.")
    return text


def markdown(messages: Sequence[Message], title_of: Callable[[str, Json], str], *, thinking: bool = False) -> list[str]:
    """The paragraphs of a conversation: prompts, replies and calls with their results, cut."""
    results = {result.tool_use_id: result for message in messages for result in message.tool_results}
    found: list[str] = []
    answer, in_reply, in_text = AnswerTracker(), False, False
    for message in messages:
        if message.is_copy:
            continue
        answer.take(message)
        match message.origin:
            case Origin.PROMPT | Origin.QUEUED:
                in_reply = False
                pictures = sum(isinstance(block, ImageBlock) for block in message.content)
                typed = plain_text(message.typed).strip()
                found += ["## Prompt", f"{typed} [{counted(pictures, 'image')}]" if pictures else typed]
            case Origin.REPLY if blocks := [block for block in message.content if _is_exported(block, thinking)]:
                paragraphs = [part for block in blocks for part in _paragraphs(block, results, title_of)]
                if not in_reply:
                    found.append("## Reply")
                elif in_text and isinstance(blocks[0], TextBlock):
                    # It goes on in the middle of a sentence or a word.
                    found[-1] += paragraphs.pop(0)
                found += paragraphs
                in_reply, in_text = True, answer.unfinished and isinstance(blocks[-1], TextBlock)
            case Origin.SUMMARY:
                in_reply = False
                text = plain_text(str(message.meta.get(SUMMARY, message.text))).strip()
                found += ["## Summary of the conversation so far", text]
            case Origin.INTERRUPTION:
                found.append("*Interrupted*")
    return [part.strip("\n") for part in found]


def _is_exported(block: Block, thinking: bool) -> bool:
    match block:
        case TextBlock(text=text):
            return bool(text.strip())
        case ThinkingBlock(thinking=text):
            return thinking and bool(text.strip())
        case _:
            return isinstance(block, ToolUseBlock)


def _paragraphs(
    block: Block, results: dict[str, ToolResultBlock], title_of: Callable[[str, Json], str]
) -> Iterator[str]:
    match block:
        case TextBlock(text=text):
            yield plain_text(text)
        case ThinkingBlock(thinking=text):
            yield "\n".join(f"> {line}".rstrip() for line in plain_text(text).strip().split("\n"))
        case ToolUseBlock():
            yield from _call(block, results.get(block.id), title_of)


def _call(call: ToolUseBlock, result: ToolResultBlock | None, title_of: Callable[[str, Json], str]) -> Iterator[str]:
    title = plain_line(title_of(call.name, call.input) or call.name, 300).replace("`", "'")
    outcome = " (no result)" if result is None else " (failed)" if result.is_error else ""
    yield f"**Call** `{title}`{outcome}"
    if result is None:
        return
    text = plain_text(unwrapped(result.text)).strip("\n")
    pictures = sum(isinstance(block, ImageBlock) for block in result.content)
    if text:
        lines = _cut(text.split("\n"))
        fence = "`" * max([3, *(len(found) + 1 for line in lines for found in _BACKTICKS.findall(line))])
        yield "\n".join((f"{fence}text", *lines, fence))
    if pictures:
        yield f"[{counted(pictures, 'image')}]"


def _cut(lines: Sequence[str]) -> list[str]:
    hidden = len(lines) - _FIRST_LINES - _LAST_LINES
    if hidden > 1:
        lines = (*lines[:_FIRST_LINES], f"… {counted(hidden, 'more line')} …", *lines[-_LAST_LINES:])
    return [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in lines]


def _write(engine: Engine, name: str, text: str) -> Path:
    """The new file, named from the project's folder where it is in there. Blocking. Raises `AgentError`."""
    folder = engine.working_dirs[0]
    numbers = ("", *(f"-{number}" for number in range(2, 100)))
    names = [name] if name else [f"conversation-{engine.session_id[:8]}{number}.md" for number in numbers]
    for each in names:
        try:
            path = Path(os.path.normpath(folder / Path(each).expanduser()))
        except RuntimeError as error:
            raise AgentError(
                f"The home folder of {plain_line(each, 400)} is unknown. Name a file in the project."
            ) from error
        real = Path(os.path.realpath(path.parent))
        if not any(real.is_relative_to(os.path.realpath(allowed)) for allowed in engine.working_dirs):
            raise AgentError(f"{plain_line(str(path), 400)} is outside the project. Name a file inside it.")
        try:
            real.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            # For the user alone: results may have shown secrets.
            with os.fdopen(os.open(real / path.name, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise AgentError(f"{plain_line(str(path), 400)} was not written: {error.strerror or error}.") from error
        return path.relative_to(folder) if path.is_relative_to(folder) else path
    raise AgentError(f"{plain_line(names[-1], 400)} exists already. Name another file: /export NAME")
