"""What a search finds in a session: the text of each prompt, its answers, and what its calls were about.

Results of tools are not searched; most of a session file is results, so their lines are not even parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import slotted
from agentcli.core.messages import Json, Origin, message_from_dict
from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.secret_text import redact_values
from agentcli.session.load import LoadedSession, scan_places

Role = Literal["title", "prompt", "answer", "call"]

SIGNS: dict[Role, str] = {"title": "≡", "prompt": "›", "answer": "◆", "call": "$"}
"""What stands before the words that were found."""
MAX_PART = 50_000
"""Characters that are searched together. Marking the words of a search in much longer texts takes seconds."""
MAX_VALUE = 500
"""Longer inputs of calls, such as the content of files, are not searched, except commands."""
MAX_COMMAND = 4_000
_KIND = 9
"""Where the type of a record begins in its line."""
_WANTED = (b'user"', b'assistant"', b'session"', b'system-context"')
_BRANCH = re.compile(r"^Git branch when the session began: (.+)$", re.MULTILINE)
_CHANGED = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)


@slotted
class PromptText:
    """A prompt with everything that followed until the next one, or a part of that. Untrusted text without control
    sequences."""

    id: str
    number: int
    """From 1, in the order of the file, branches included."""
    at: str
    first: PromptText | None = None
    """Its first part; None if this is the first one."""
    texts: dict[Role, list[str]] = field(default_factory=lambda: {"prompt": [], "answer": [], "call": []})
    size: int = 0

    def join(self, role: Role, limit: int | None = None) -> str:
        """The text without secrets."""
        return str(redact_values("\n".join(self.texts[role])[:limit]))


@slotted
class SessionText:
    parts: list[PromptText] = field(default_factory=list)
    prompts: int = 0
    branch: str = ""
    """Of git, when the session began."""
    cost_usd: float = 0.0
    files: dict[str, None] = field(default_factory=dict)
    """Files that it changed, as far as they are recorded; the last one to change is the last."""

    def take(self, record: Json) -> None:
        take = getattr(self, f"_take_{str(record.get('type')).replace('-', '_')}", None)
        if take is None or record.get("isSidechain") is True:
            return
        try:
            take(record)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return  # The loader counts lines of an invalid form.

    def _add(self, role: Role, text: str) -> None:
        text = clean(text).strip()
        for start in range(0, len(text) if self.parts else 0, MAX_PART):
            part, piece = self.parts[-1], text[start : start + MAX_PART]
            if part.size + len(piece) > MAX_PART:
                part = PromptText(part.id, part.number, part.at, part.first or part)
                self.parts.append(part)
            part.texts[role].append(piece)
            part.size += len(piece)

    def _add_files(self, names: list[str]) -> None:
        for name in names:
            self.files.pop(name, None)
            self.files[name] = None

    def _take_session(self, record: Json) -> None:
        if branch := _BRANCH.search(str(record.get("systemContext") or "")):
            self.branch = clean(branch[1])

    _take_system_context = _take_session

    def _take_user(self, record: Json) -> None:
        if record.get("origin") == Origin.TOOL_RESULTS:
            self._add_files([str(record["event"]["display"]["path"])])
            return
        message = message_from_dict(record["message"])
        if message.is_copy or message.origin not in (Origin.PROMPT, Origin.QUEUED):
            return
        if message.origin is Origin.PROMPT:
            at = record.get("timestamp")
            self.prompts += 1
            self.parts.append(PromptText(clean(message.id), self.prompts, clean(at) if isinstance(at, str) else ""))
        self._add("prompt", message.typed)

    def _take_assistant(self, record: Json) -> None:
        for block in record["message"]["content"]:
            if block["type"] == "text":
                self._add("answer", block["text"])
            elif block["type"] == "tool_use":
                for name, value in block["input"].items():
                    if isinstance(value, str) and (name == "command" or len(value) <= MAX_VALUE):
                        self._add("call", value[:MAX_COMMAND])

    def _take_event(self, record: Json) -> None:
        cost = record["event"]["cost_usd"]
        self.cost_usd += cost if isinstance(cost, int | float) else 0.0

    def _take_shown(self, record: Json) -> None:
        self._add_files(_CHANGED.findall(record["event"]["diff"]))


def clean(text: str) -> str:
    """Text without control sequences and lone surrogates, which a database cannot store."""
    return plain_text(text).encode("utf-8", "replace").decode("utf-8", "replace")


def read_texts(path: Path, step: Callable[[], object]) -> SessionText:
    """Read a session file. `step` is called for each line and may raise to stop. Raises `OSError`."""
    found = SessionText()

    def is_wanted(line: bytes) -> bool:
        step()
        return _is_wanted(line)

    for _position, record in scan_places(path, LoadedSession(path, path.stem), 0, None, is_wanted):
        found.take(record)
    return found


def _is_wanted(line: bytes) -> bool:
    """Whether a line has something to search or to count, by its bytes: parsing takes most of the time."""
    if not line.startswith(b'{"type":"'):
        return True
    if line.startswith(b"event", _KIND):
        return b'"UsageReported"' in line
    if line.startswith(b"shown", _KIND):
        return b'"CommandChangedFiles"' in line
    if line.startswith(b"user", _KIND) and line.find(b'"origin":"tool_results"', 0, 8_192) > 0:
        return b'"kind":"diff"' in line
    return line.startswith(_WANTED, _KIND)
