"""A session as Markdown: prompts, replies and calls with their diffs and results, which are cut if they are long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text

_RESULT_LINES = 20, 10
_DIFF_LINES = 80, 20
"""Lines shown of the beginning and of the end."""
_TITLE = 300
_TITLE_ABOVE_COMMAND = 60
MAX_LINE = 500
_BACKTICKS = re.compile(r"`{3,}")


def to_markdown(document: Json, redactions: str = "") -> str:
    """`redactions`: a sentence about what was replaced, for the end."""
    paragraphs = list(_heading(document))
    several = len(document["branches"]) > 1
    for branch in document["branches"]:
        if several:
            name = plain_line(branch["name"]) or (
                "current branch" if branch["is_current"] else "a branch that was left"
            )
            paragraphs.append(f"# Branch: {name}")
        for prompt in branch["prompts"]:
            paragraphs += _prompt(prompt)
    if redactions:
        paragraphs.append(f"---\n\n*{redactions}*")
    return "\n\n".join(part.strip("\n") for part in paragraphs) + "\n"


def title_of_document(document: Json) -> str:
    """The session's name, or the beginning of its first prompt."""
    texts = (prompt["text"] for branch in document["branches"] for prompt in branch["prompts"])
    prompt = next((text for text in texts if text.strip()), "Conversation")
    return plain_line(document["session"]["title"] or prompt, 80)


def branch_name(branch: Json) -> str:
    return plain_line(branch["name"]) or ("current branch" if branch["is_current"] else "a branch that was left")


def local_time(timestamp: str) -> str:
    """A timestamp in the user's time zone, to the minute; "" if it cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""


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
        if item["type"] in ("text", "thinking", "call"):
            if not in_reply:
                yield "## Reply"
            in_reply = True
            yield from _reply(item)
        elif item["type"] == "queued":
            in_reply = False
            yield from _typed(item)
        elif item["type"] == "summary":
            in_reply = False
            yield from ("## Summary of the conversation so far", plain_text(item["text"]).strip())
        elif item["type"] == "interrupted":
            yield "*Interrupted*"


def _typed(prompt: Json) -> Iterator[str]:
    typed, pictures = plain_text(prompt["text"]).strip(), len(prompt["images"])
    yield "## Prompt"
    yield f"{typed} [{counted(pictures, 'image')}]" if pictures else typed


def _reply(item: Json) -> Iterator[str]:
    text = plain_text(item.get("text", ""))
    if item["type"] == "call":
        yield from _call(item)
    elif item["type"] == "thinking":
        yield "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
    else:
        yield text


def _call(call: Json) -> Iterator[str]:
    shown = plain_line(call["title"], _TITLE).replace("`", "'")
    command = plain_text(str(call["input"].get("command", ""))).strip("\n") if call["name"] == "Bash" else ""
    if command not in shown:
        yield f"**Call** `{plain_line(shown, _TITLE_ABOVE_COMMAND)}`{_outcome(call)}"
        yield _fence("sh", command.split("\n"))
    else:
        yield f"**Call** `{shown}`{_outcome(call)}"
    if diff := plain_text(call["diff"]).strip("\n"):
        yield _fence("diff", _cut(diff.split("\n"), *_DIFF_LINES))
    if text := plain_text(call["output"]).strip("\n"):
        yield _fence("text", _cut(text.split("\n"), *_RESULT_LINES))
    if call["images"]:
        yield f"[{counted(len(call['images']), 'image')}]"


def _outcome(call: Json) -> str:
    if call["outcome"] == "denied":
        return f" (denied by {plain_line(call['denied_by'])})" if call["denied_by"] else " (denied)"
    return {"unfinished": " (no result)", "failed": " (failed)", "interrupted": " (failed)"}.get(call["outcome"], "")


def _fence(language: str, lines: Sequence[str]) -> str:
    fence = "`" * max([3, *(len(found) + 1 for line in lines for found in _BACKTICKS.findall(line))])
    return "\n".join((f"{fence}{language}", *lines, fence))


def _cut(lines: Sequence[str], first: int, last: int) -> list[str]:
    hidden = len(lines) - first - last
    if hidden > 1:
        lines = (*lines[:first], f"… {counted(hidden, 'more line')} …", *lines[-last:])
    return [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines]
