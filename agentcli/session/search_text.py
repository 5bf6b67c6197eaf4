"""What a search finds in a session: the text of each prompt, its answers, and what its calls were about.

Results of tools are not searched; most of a session file is results, so their lines are not even parsed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json, Origin, message_from_dict
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.session.load import LoadedSession, scan_places

Role = Literal["title", "prompt", "answer", "call"]

SIGNS: dict[Role, str] = {"title": "≡", "prompt": "›", "answer": "◆", "call": "$"}
"""What stands before the words that were found."""
MAX_TEXT = 1_000_000
"""Characters of a prompt, of its answers and of its calls that are searched."""
MAX_VALUE = 500
"""Longer inputs of calls, such as the content of files, are not searched, except commands."""
MAX_COMMAND = 4_000
MAX_SNIPPET = 160
_MAX_PLACES = 50
_KIND = 9
"""Where the type of a record begins in its line."""
_WANTED = (b'user"', b'assistant"', b'session"', b'system-context"', b'custom-title"')
_BRANCH = re.compile(r"^Git branch when the session began: (.+)$", re.MULTILINE)
_CHANGED = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_TOKEN = re.compile(r"[^\W_]+")


@slotted
class PromptText:
    """A prompt with everything that followed until the next one. Untrusted text without control sequences."""

    id: str
    number: int
    """From 1, in the order of the file, branches included."""
    at: str
    begins: int
    """Offset of its line in the file."""
    texts: dict[Role, list[str]] = field(default_factory=lambda: {"prompt": [], "answer": [], "call": []})
    sizes: dict[Role, int] = field(default_factory=dict)
    cost_usd: float = 0.0
    files: dict[str, None] = field(default_factory=dict)
    """Files that it changed, as far as they are recorded."""

    def add(self, role: Role, text: str) -> None:
        room = MAX_TEXT - self.sizes.get(role, 0)
        if text := clean(text[: max(0, room)]).strip():
            self.texts[role].append(text)
            self.sizes[role] = self.sizes.get(role, 0) + len(text)

    def join(self, role: Role) -> str:
        return "\n".join(self.texts[role])


@slotted
class SessionText:
    prompts: list[PromptText] = field(default_factory=list)
    title: str = ""
    branch: str = ""
    """Of git, when the session began."""
    end: int = 0
    """Offset after the last complete line."""


def clean(text: str) -> str:
    """Text without control sequences and lone surrogates, which a database cannot store."""
    return plain_text(text).encode("utf-8", "replace").decode("utf-8", "replace")


def read_texts(path: Path, begin: int = 0, number: int = 0, pause: Callable[[], object] = lambda: None) -> SessionText:
    """Read from the line at `begin` on, which is the first one or a prompt with the number after `number`. `pause` is
    called for each line and may raise to stop. Raises `OSError`."""
    found = SessionText()
    reader = _TextReader(found, number)

    def is_wanted(line: bytes) -> bool:
        pause()
        return _is_wanted(line)

    session = LoadedSession(path, path.stem)
    for position, record in scan_places(path, session, begin, None, is_wanted):
        reader.take(record, position)
    found.end = session.ending.whole
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


class _TextReader:
    def __init__(self, found: SessionText, number: int) -> None:
        self._found = found
        self._number = number

    def take(self, record: Json, position: int) -> None:
        take = getattr(self, f"_take_{str(record.get('type')).replace('-', '_')}", None)
        if take is None or record.get("isSidechain") is True:
            return
        try:
            take(record, position)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return  # The loader counts lines of an invalid form.

    @property
    def _prompt(self) -> PromptText:
        """Raises `ValueError` before the first prompt."""
        if not self._found.prompts:
            raise ValueError("no prompt yet")
        return self._found.prompts[-1]

    def _take_session(self, record: Json, _position: int) -> None:
        if branch := _BRANCH.search(str(record.get("systemContext") or "")):
            self._found.branch = branch[1]

    _take_system_context = _take_session

    def _take_custom_title(self, record: Json, _position: int) -> None:
        self._found.title = str(record["customTitle"])

    def _take_user(self, record: Json, position: int) -> None:
        if record.get("origin") == Origin.TOOL_RESULTS:
            self._prompt.files[str(record["event"]["display"]["path"])] = None
            return
        message = message_from_dict(record["message"])
        if message.is_copy or message.origin not in (Origin.PROMPT, Origin.QUEUED):
            return
        if message.origin is Origin.PROMPT:
            self._number += 1
            at = str(record.get("timestamp") or "")
            self._found.prompts.append(PromptText(message.id, self._number, at, position))
        self._prompt.add("prompt", message.typed)

    def _take_assistant(self, record: Json, _position: int) -> None:
        prompt = self._prompt
        for block in record["message"]["content"]:
            if block["type"] == "text":
                prompt.add("answer", block["text"])
            elif block["type"] == "tool_use":
                for name, value in block["input"].items():
                    if isinstance(value, str) and (name == "command" or len(value) <= MAX_VALUE):
                        prompt.add("call", value[:MAX_COMMAND])

    def _take_event(self, record: Json, _position: int) -> None:
        cost = record["event"]["cost_usd"]
        self._prompt.cost_usd += cost if isinstance(cost, int | float) else 0.0

    def _take_shown(self, record: Json, _position: int) -> None:
        self._prompt.files.update(dict.fromkeys(_CHANGED.findall(record["event"]["diff"])))


# -------------------------------------------------------------------------------------------------------------- words


@frozen
class WordsFound:
    role: Role
    text: str
    """The words with some text around them, on one line that is safe to show."""
    marks: tuple[tuple[int, int], ...]
    """Where the words stand in it: first character, and the one after the last."""


class WordQuery:
    """Words that must all occur, each at the beginning of a word; several in one argument must follow one another."""

    def __init__(self, words: Iterable[str], before: int = 40) -> None:
        """`before`: characters shown before the words that were found."""
        self._before = before
        found = (_TOKEN.findall(_fold(clean(word))) for word in words)
        self._words = [tokens for tokens in found if tokens]
        self._patterns = [
            re.compile(r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, tokens)), re.IGNORECASE) for tokens in self._words
        ]

    def __bool__(self) -> bool:
        return bool(self._words)

    @property
    def fts(self) -> str:
        """The query in the syntax of FTS5: tokens have no characters that mean something there."""
        return " AND ".join(f'"{" ".join(tokens)}"*' for tokens in self._words)

    def matches(self, texts: Sequence[str]) -> bool:
        folded = [_fold(text) for text in texts]
        return all(any(pattern.search(text) for text in folded) for pattern in self._patterns)

    def locate(self, texts: Iterable[tuple[Role, str]]) -> WordsFound:
        """The place in these texts where most of the words stand close together."""
        best: tuple[int, Role, str, int] = (0, "prompt", "", 0)
        for role, text in texts:
            if not best[2]:
                best = 0, role, text, 0
            folded = _fold(text)
            for place in self._places(folded):
                around = folded[max(0, place - self._before) : place + MAX_SNIPPET - self._before]
                if (count := sum(pattern.search(around) is not None for pattern in self._patterns)) > best[0]:
                    best = count, role, text, place
        _count, role, text, place = best
        start = max(0, place - self._before)
        if start and (blank := re.search(r"\s", text[start:place])):
            start += blank.end()
        cut = text[start : start + 2 * MAX_SNIPPET]
        snippet = plain_line(f"… {cut}" if start else cut, MAX_SNIPPET)
        return WordsFound(role, snippet, tuple(self._marks(snippet)))

    def _places(self, folded: str) -> Iterator[int]:
        for pattern in self._patterns:
            for number, match in enumerate(pattern.finditer(folded)):
                if number == _MAX_PLACES:
                    break
                yield match.start()

    def _marks(self, text: str) -> list[tuple[int, int]]:
        folded = _fold(text)
        return sorted({match.span() for pattern in self._patterns for match in pattern.finditer(folded)})


def _fold(text: str) -> str:
    """The text without accents, character for character."""
    return text if text.isascii() else "".join(unicodedata.normalize("NFD", one)[0] for one in text)
