"""/copy, /find and /export: answers for the clipboard, a search, the conversation as Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import ToolFinished
from agentcli.core.messages import (
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
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.session.load import SessionDetails
from agentcli.tools.files.diff import diff_display

_ARGUMENTS = re.compile(r"(code)?\s*(\d{1,6})?")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")


async def run_copy(engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    """Copies Markdown, without gutters and line wraps. Over ssh, the terminal sets the clipboard, if it allows that; in
    tmux its buffer is set too.

    /copy         copy the last answer
    /copy 2       copy the second last answer
    /copy code    copy the last code block
    /copy code 2  copy the second last code block
    """
    found = _ARGUMENTS.fullmatch(arguments)
    if found is None:
        raise UsageError("/copy takes a number, code, or code and a number: /copy code 2")
    messages = await engine.all_messages() if engine is not None else ()
    pieces = [text for answer in answers(messages) if (text := plain_text(answer).strip("\n"))]
    what = "answer"
    if found[1]:
        pieces, what = [code for answer in pieces for code in code_blocks(answer)], "code block"
    place = int(found[2] or 1)
    if not pieces:
        raise UsageError(f"There is no {what} to copy yet.")
    if not 1 <= place <= len(pieces):
        raise UsageError(f"There is no {what} {place}. This session has {counted(len(pieces), what)}.")
    outcome = await front_end.copy(pieces[-place])
    front_end.hint(f"{f'Last {what}' if place == 1 else f'{what.capitalize()} {place} from the end'}: {outcome}")


def code_blocks(markdown: str) -> list[str]:
    """The content of every fenced code block. A fence may be indented, as in a list, and the last may be open."""
    blocks: list[str] = []
    fence, indent = "", 0
    for line in markdown.split("\n"):
        found = _FENCE.fullmatch(line)
        if not fence:
            if found is not None and not (found[2][0] == "`" and "`" in found[3]):
                indent, fence = len(found[1]), found[2]
                blocks.append("")
        elif found is not None and found[2].startswith(fence) and not found[3].strip(" \t" + fence[0]):
            fence = ""
        else:
            blocks[-1] += f"{line[min(indent, len(line) - len(line.lstrip(' '))) :]}\n"
    return [block.removesuffix("\n") for block in blocks]


async def run_find(_engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    """Ctrl+F does the same. Enter finds the next match, Esc closes the search.

    /find       open the search
    /find TODO  search for TODO
    """
    await front_end.page("find", arguments)


_RESULT_LINES = 20, 10
_DIFF_LINES = 80, 20
"""Lines shown of the beginning and of the end."""
_TITLE = 300
_TITLE_ABOVE_COMMAND = 60
MAX_LINE = 500
_BACKTICKS = re.compile(r"`{3,}")
_THINKING = "--thinking"
_FOUND_BY_SEARCHES = "Searches in the project find it too: move it, or list it in .gitignore."


async def run_export(engine: Engine, arguments: str) -> str:
    """Writes prompts, replies and tool calls to a new Markdown file in the project, with the changes of each edit as a
    diff. Long diffs and tool results are cut. Without a name the file is called conversation-ID.md. Searches in the
    project find the file unless .gitignore lists it. A non-interactive run prints the text instead.

    /export                  write the conversation to a file
    /export notes/parser.md  write it to this file
    /export --thinking       include the model's thinking
    """
    words = arguments.split()
    name = " ".join(word for word in words if word != _THINKING)
    if name.startswith("-"):
        raise UsageError(f"/export does not know {plain_line(name, 80)}. It takes a file name and {_THINKING}.")
    messages = await engine.all_messages()
    if not any(message.is_prompt for message in messages):
        raise UsageError("There is nothing to export yet.")
    # In a thread: the results of a long conversation take seconds.
    details = await engine.session_details()
    paragraphs = await in_thread(markdown, messages, engine.title_of, details.calls, thinking=_THINKING in words)
    text = "\n\n".join((*format_heading(messages, details, engine.model), *paragraphs)) + "\n"
    if engine.session.interactive:
        path = await in_thread(_write, engine, name, text)
        return f"Wrote {counted(text.count(chr(10)), 'line')} to {plain_line(str(path), 400)}. {_FOUND_BY_SEARCHES}"
    if name:
        # A program may pass on prompts of others, which must not write files without a permission check.
        raise UsageError("In a non-interactive run /export prints the conversation. Redirect its output to a file.")
    return text


def format_heading(messages: Sequence[Message], details: SessionDetails, model: str) -> list[str]:
    """The session's title, or the beginning of its first prompt, then its date and its models."""
    prompt = next(
        (message.typed for message in messages if message.is_prompt and message.typed.strip()), "Conversation"
    )
    models = dict.fromkeys(message.model for message in messages if message.origin is Origin.REPLY and message.model)
    facts = [_date(details.began), ", ".join(plain_line(name) for name in models) or plain_line(model)]
    return [f"# {plain_line(details.title or prompt, 80)}", " · ".join(filter(None, facts))]


def _date(timestamp: str) -> str:
    """The date of a timestamp in the user's time zone; "" if it cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def markdown(
    messages: Sequence[Message],
    title_of: Callable[[str, Json], str],
    ended: Mapping[str, ToolFinished],
    *,
    thinking: bool = False,
) -> list[str]:
    """The paragraphs of a conversation: prompts, replies and calls with their results, cut. `ended`: the end of each
    call by its id, as far as the session file has it."""
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
                paragraphs = [part for block in blocks for part in _paragraphs(block, results, ended, title_of)]
                if not in_reply:
                    found.append("## Reply")
                elif in_text and isinstance(blocks[0], TextBlock):
                    # The text continues in the middle of a sentence or a word.
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
    block: Block,
    results: Mapping[str, ToolResultBlock],
    ended: Mapping[str, ToolFinished],
    title_of: Callable[[str, Json], str],
) -> Iterator[str]:
    match block:
        case TextBlock(text=text):
            yield plain_text(text)
        case ThinkingBlock(thinking=text):
            yield "\n".join(f"> {line}".rstrip() for line in plain_text(text).strip().split("\n"))
        case ToolUseBlock():
            yield from _call(block, results.get(block.id), ended.get(block.id), title_of(block.name, block.input))


def _call(call: ToolUseBlock, result: ToolResultBlock | None, end: ToolFinished | None, title: str) -> Iterator[str]:
    shown = plain_line(title or call.name, _TITLE).replace("`", "'")
    command = plain_text(str(call.input.get("command", ""))).strip("\n") if call.name == "Bash" else ""
    if command not in shown:
        yield f"**Call** `{plain_line(shown, _TITLE_ABOVE_COMMAND)}`{_outcome(result, end)}"
        yield _fence("sh", command.split("\n"))
    else:
        yield f"**Call** `{shown}`{_outcome(result, end)}"
    if diff := plain_text(_diff(call, result, end)).strip("\n"):
        yield _fence("diff", _cut(diff.split("\n"), *_DIFF_LINES))
    if result is None:
        return
    text = plain_text(unwrap_error(result.text)).strip("\n")
    pictures = sum(isinstance(block, ImageBlock) for block in result.content)
    # The text of a denied call is for the model, but a command that was only denied the network has real output.
    is_refusal = _is_denied(end) and unwrap_error(result.text) != result.text
    if text and not is_refusal:
        yield _fence("text", _cut(text.split("\n"), *_RESULT_LINES))
    if pictures:
        yield f"[{counted(pictures, 'image')}]"


def _outcome(result: ToolResultBlock | None, end: ToolFinished | None) -> str:
    if result is None:
        return " (no result)"
    if end is not None and _is_denied(end):
        return f" (denied by {plain_line(end.denied_by)})" if end.denied_by else " (denied)"
    return " (failed)" if result.is_error else ""


def _is_denied(end: ToolFinished | None) -> bool:
    return end is not None and end.outcome == "denied"


def _diff(call: ToolUseBlock, result: ToolResultBlock | None, end: ToolFinished | None) -> str:
    """The change that a call made, or that the user denied; "" for a call that failed or changes no file."""
    if end is not None and end.display.get("kind") == "diff":
        return str(end.display.get("diff", ""))
    if result is not None and result.is_error and not _is_denied(end):
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


def _fence(language: str, lines: Sequence[str]) -> str:
    fence = "`" * max([3, *(len(found) + 1 for line in lines for found in _BACKTICKS.findall(line))])
    return "\n".join((f"{fence}{language}", *lines, fence))


def _cut(lines: Sequence[str], first: int, last: int) -> list[str]:
    hidden = len(lines) - first - last
    if hidden > 1:
        lines = (*lines[:first], f"… {counted(hidden, 'more line')} …", *lines[-last:])
    return [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines]


def _write(engine: Engine, name: str, text: str) -> Path:
    """Write a new file and return its path, relative to the project if inside. Blocking. Raises `AgentError`."""
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
            # Readable by the user only: results may contain secrets.
            with os.fdopen(os.open(real / path.name, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise AgentError(f"{plain_line(str(path), 400)} was not written: {error.strerror or error}.") from error
        return path.relative_to(folder) if path.is_relative_to(folder) else path
    raise AgentError(f"{plain_line(names[-1], 400)} exists already. Name another file: /export NAME")
