"""Replay a session with other instructions or settings, until a request would differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.secret_text import without_secrets
from agentcli.history.replay.process import ReplayChanges
from agentcli.history.replay.verify import Verification, verify
from agentcli.history.sent_requests import digest_texts, open_step
from agentcli.memory.instructions import InstructionFile
from agentcli.providers.base import Request
from agentcli.session.timeline import read_timeline

_SECTION = r'<instructions path="([^"\n]*)" which="([^"\n]*)">\n.*?\n</instructions>'


@frozen
class Compared:
    """The first request that differs: each part of it with its difference. Without parts: none does."""

    requests: int
    """Requests that were compared."""
    parts: tuple[tuple[str, str], ...] = ()
    prompt: int = 0
    prompt_text: str = ""
    problem: str = ""
    """Why the replay came no further."""

    def to_dict(self) -> Json:
        parts = [{"part": name, "diff": text} for name, text in self.parts]
        place = {"prompt": self.prompt, "prompt_text": self.prompt_text, "problem": self.problem}
        return {"identical": not self.parts and not self.problem, "requests": self.requests, "parts": parts, **place}


async def compare(
    records: Sequence[Json], changes: ReplayChanges, progress: Callable[[int, int], None] = lambda _done, _of: None
) -> Compared:
    """Replay as recorded and with the changes."""
    sent: list[Request] = []
    number, parts = 0, list[tuple[str, str]]()

    def keep(request: Request) -> str:
        sent.append(request)
        return ""

    def check(request: Request) -> str:
        nonlocal number
        number += 1
        if number <= len(sent):
            parts.extend(list_differences(sent[number - 1], request))
        return f"request {number} differs" if parts else ""

    found = await verify(records, progress=progress, check=keep)
    changed = await verify(records, changes, progress, check)
    first = changed.difference
    place = (first.prompt, first.prompt_text) if first is not None else (0, "")
    problem = "" if parts or found.difference is None else found.difference.text
    if not sent:
        problem = f"No request can be compared: the session was {', '.join(found.counts.apart)}."
    return Compared(number, tuple((name, without_secrets(text)) for name, text in parts), *place, problem)


def explain(path: Path, found: Verification) -> list[tuple[str, str]]:
    """The parts of the request in which a replay first differs from the record. Empty if the file does not prove what
    was sent then. Blocking."""
    if found.sent is None or found.difference is None:
        return []
    timeline = read_timeline(path)
    step = next((one for one in timeline.requests() if one.position == found.difference.line), None)
    if step is None or step.purpose != "turn" or step.agent:
        return []
    recorded = open_step(timeline, step, digest_texts([*found.sent.system, *found.sent.tools])).sent
    if recorded.doubts:
        return []
    return [(name, without_secrets(text)) for name, text in list_differences(recorded.request, found.sent)]


def list_differences(before: Request, now: Request) -> Iterator[tuple[str, str]]:
    """The parts of two requests that differ, in the order in which the model reads them."""
    for name in ("model", "effort", "thinking", "fast", "max_tokens", "task_budget_total", "fallback_models"):
        one, other = getattr(before, name), getattr(now, name)
        if one != other:
            yield name.replace("_", " "), f"{_show(one)} → {_show(other)}"
    if before.tools != now.tools:
        yield "tools", _diff(*([json.dumps(tool, indent=2) for tool in one.tools] for one in (before, now)))
    if before.system != now.system:
        yield "system prompt", _diff(before.system, now.system)
    for number, (one, other) in enumerate(zip(before.messages, now.messages, strict=False)):
        if one != other:
            yield "messages" if number else "user context", _diff(_texts(one), _texts(other))
            return
    if len(before.messages) != len(now.messages):
        yield "messages", f"{len(before.messages):,} → {len(now.messages):,}"


def _show(value: Any) -> str:
    return str(getattr(value, "mode", value) or "auto")


def _texts(message: Json) -> list[str]:
    return [str(block.get("text") or json.dumps(block, indent=2)) for block in message["content"]]


def _diff(before: Sequence[str], now: Sequence[str]) -> str:
    one, other = ("\n".join(texts).splitlines() for texts in (before, now))
    return "\n".join(list(unified_diff(one, other, "recorded", "now", lineterm="", n=2)))


def replace_instructions(name: str, text: str) -> Callable[[str], str]:
    """A function that puts another text for the instruction file of this name into a user context."""

    def make(context: str) -> str:
        for found in re.finditer(_SECTION, context, re.DOTALL):
            path, whose = found.groups()
            if f"/{path}".endswith(f"/{name}"):
                section = InstructionFile(path, path, "", text, whose).section
                return context[: found.start()] + section + context[found.end() :]
        return context

    return make


def list_instructions(records: Sequence[Json]) -> list[str]:
    """The paths of the instruction files with which a session was sent."""
    contexts = (str(record.get("userContext")) for record in records if record.get("type") == "user-context")
    return list(dict.fromkeys(found[1] for text in contexts for found in re.finditer(_SECTION, text, re.DOTALL)))
