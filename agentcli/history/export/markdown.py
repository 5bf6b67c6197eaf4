"""A session as Markdown: prompts, replies and calls with their diffs and results, which are cut if they are long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentcli.core.messages import Json
from agentcli.core.text.format import counted, local_time
from agentcli.core.text.plaintext import plain_line, plain_text, spell_hidden
from agentcli.history.export.markdown_parser import parse_blocks

_RESULT_LINES = 20, 10
_DIFF_LINES = 80, 20
"""Lines shown of the beginning and of the end."""
_TITLE = 300
_TITLE_ABOVE_COMMAND = 60
MAX_LINE = 500
_BACKTICKS = re.compile(r"`{3,}")


def to_markdown(document: Json, redactions: str = "") -> str:
    """`redactions`: a sentence about what was replaced, for the end."""
    paragraphs = [*_heading(document), *(part for prompt in document["prompts"] for part in _prompt(prompt))]
    if redactions:
        paragraphs.append(f"---\n\n*{redactions}*")
    return spell_hidden("\n\n".join(part.strip("\n") for part in paragraphs)) + "\n"


def title_of_document(document: Json) -> str:
    """The session's name, or the beginning of its first prompt."""
    prompt = next((prompt["text"] for prompt in document["prompts"] if prompt["text"].strip()), "Conversation")
    return plain_line(document["session"]["title"] or prompt, 80)


def _heading(document: Json) -> Iterator[str]:
    session = document["session"]
    yield f"# {title_of_document(document)}"
    facts = [local_time(session["began"])[:10], ", ".join(map(plain_line, session["models"]))]
    yield " · ".join(filter(None, facts))


def _prompt(prompt: Json) -> Iterator[str]:
    in_reply = False
    if prompt["number"]:
        yield from _typed(prompt)
    for item in prompt["items"]:
        text = plain_text(item.get("text", ""))
        if item["type"] in ("text", "thinking", "call"):
            if not in_reply:
                yield "## Reply"
            in_reply = True
        elif item["type"] in ("queued", "summary"):
            in_reply = False
        match item["type"]:
            case "text":
                yield _close_fence(text)
            case "thinking":
                yield "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
            case "call":
                yield from _call(item)
            case "queued":
                yield from _typed(item)
            case "summary":
                yield from ("## Summary of the conversation so far", text.strip())
            case "interrupted":
                yield "*Interrupted*"
            case "error":
                yield f"*Error: {plain_line(text, MAX_LINE)}*"


def _typed(prompt: Json) -> Iterator[str]:
    typed, pictures = _close_fence(plain_text(prompt["text"]).strip()), len(prompt["images"])
    yield "## Prompt"
    yield f"{typed} [{counted(pictures, 'image')}]" if pictures else typed


def _close_fence(text: str) -> str:
    """Close a code block at the end, as of an answer that was cut off: else it would contain the rest of the file."""
    last = next(reversed(parse_blocks(text)), None)
    is_open = last is not None and last.type == "fence" and not text.rstrip().endswith(last.markup)
    return f"{text.rstrip()}\n{last.markup}" if last is not None and is_open else text


def _call(call: Json) -> Iterator[str]:
    shown = plain_line(call["title"], _TITLE).replace("`", "'")
    command = command_of(call).strip("\n")
    is_cut = command not in shown
    outcome = f" ({found})" if (found := describe_outcome(call)) else ""
    yield f"**Call** `{plain_line(shown, _TITLE_ABOVE_COMMAND) if is_cut else shown}`{outcome}"
    if is_cut:
        yield _fence("sh", command.split("\n"))
    if diff := plain_text(call["diff"]).strip("\n"):
        yield _fence("diff", _cut(diff.split("\n"), *_DIFF_LINES))
    if text := plain_text(call["output"]).strip("\n"):
        yield _fence("text", _cut(text.split("\n"), *_RESULT_LINES))
    if call["images"]:
        yield f"[{counted(len(call['images']), 'image')}]"


def command_of(call: Json) -> str:
    return plain_text(str(call["input"].get("command") or "")) if call["name"] == "Bash" else ""


def describe_outcome(call: Json) -> str:
    """How a call ended; "" for one that is done."""
    if call["outcome"] == "denied" and call["denied_by"]:
        return f"denied by {plain_line(call['denied_by'])}"
    return {"done": "", "unfinished": "no result"}.get(call["outcome"], str(call["outcome"]))


def _fence(language: str, lines: Sequence[str]) -> str:
    fence = "`" * max([3, *(len(found) + 1 for line in lines for found in _BACKTICKS.findall(line))])
    return "\n".join((f"{fence}{language}", *lines, fence))


def _cut(lines: Sequence[str], first: int, last: int) -> list[str]:
    hidden = len(lines) - first - last
    if hidden > 1:
        lines = (*lines[:first], f"… {counted(hidden, 'more line')} …", *lines[-last:])
    return [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines]
