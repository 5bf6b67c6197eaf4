"""Convert results of MCP tools and resources for the model: text, pictures, and files for what does not fit.

All input comes from a server: control characters are removed from text, pictures are resized like those of Read, other
data is saved to a file in the session's results folder.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.context.estimate import MIN_TOKENS_PER_CHARACTER, text_tokens
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, TextBlock
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.mcp.protocol import McpContent, McpResult
from agentcli.tools.base import Output

MAX_TOKENS = 25_000
"""Limit for one result in the conversation, unless the settings or the tool override it."""
_MAX_PICTURES = 20
_SHOWN_OF_SPILLED = 2_000
_MAX_INLINE = 64 * 1024
"""Characters of a text that is converted without a thread."""
_JSON_MARK = lazy_pattern(r'"|\\.|,', re.DOTALL)
_NO_CONTENT = "(no content)"


@frozen
class ResultLimits:
    folder: Path | None
    """Folder for data that does not fit; None: nothing can be saved."""
    tokens: int = MAX_TOKENS
    characters: int | None = None
    """The tool's own limit, which replaces `tokens`."""

    def fits(self, text: str) -> bool:
        if self.characters is not None:
            return len(text) <= self.characters
        if len(text) <= self.tokens:
            return True
        return len(text) * MIN_TOKENS_PER_CHARACTER <= self.tokens and text_tokens(text) <= self.tokens


async def output_of(result: McpResult, limits: ResultLimits) -> Output:
    """The tool output for the result of a call."""
    output = await content_output(result.content, limits, result.structured)
    display = {} if result.is_error else output.display
    return replace(output, is_error=result.is_error, structured=result.structured, display=display)


async def content_output(content: Sequence[McpContent], limits: ResultLimits, structured: Any = None) -> Output:
    """The output for a sequence of content parts in their order, with the text within the limits."""
    is_small = structured is None and not any(part.data for part in content)
    if is_small and sum(len(part.text) for part in content) <= _MAX_INLINE:
        return _output(content, limits, None)
    return await in_thread(_output, content, limits, structured)


def _output(content: Sequence[McpContent], limits: ResultLimits, structured: Any) -> Output:
    """Blocking, except for small texts."""
    if structured is not None and not _repeats(content, structured):
        # The structured content as text, unless it only repeats the texts.
        content = (*content, McpContent("text", text=json.dumps(structured, ensure_ascii=False)))
    blocks: list[TextBlock | ImageBlock] = []
    for part in content:
        blocks.append(_block(part, sum(isinstance(block, ImageBlock) for block in blocks), limits.folder))
    texts = [block.text for block in blocks if isinstance(block, TextBlock) and _has_words(block.text)]
    pictures = [block for block in blocks if isinstance(block, ImageBlock)]
    text = "\n".join(texts)
    summary = _summary(text, len(pictures))
    # A short text is already the summary.
    display = {"kind": "text", "text": text[: 4 * _SHOWN_OF_SPILLED]} if text and text not in summary else {}
    if not limits.fits(text):
        spilled = _spill(text, limits.folder)
        return Output((TextBlock(spilled), *pictures), summary=f"{summary}, saved to a file", display=display)
    if not pictures:
        return Output(text or _NO_CONTENT, summary=summary, display=display)
    shown = tuple(block for block in blocks if isinstance(block, ImageBlock) or _has_words(block.text))
    return Output(shown, summary=summary, display=display)


def _has_words(text: str) -> bool:
    return bool(text) and not text.isspace()


def _repeats(content: Sequence[McpContent], structured: Any) -> bool:
    """Whether the texts equal the structured content, or the only value in it: servers wrap texts as {"result":
    "…"}."""
    texts = [part.text for part in content if part.kind == "text"]
    is_wrapped = isinstance(structured, dict) and len(structured) == 1
    return _are_value(texts, structured) or (is_wrapped and _are_value(texts, next(iter(structured.values()))))


def _are_value(texts: Sequence[str], value: Any) -> bool:
    if not texts:
        return False
    if isinstance(value, list) and len(value) == len(texts) and all(map(_is_value, texts, value)):
        return True
    return any(_is_value(text, value) for text in (*texts, "\n".join(texts)))


def _is_value(text: str, value: Any) -> bool:
    if isinstance(value, str):
        return text == value or text.strip() == value.strip()
    if text.lstrip()[:1] not in tuple('{["-0123456789tfn'):
        return False
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _summary(text: str, pictures: int) -> str:
    lines = text.count("\n") + 1 if text else 0
    parts = [plain_line(text, 60) if lines == 1 and len(text) <= 60 else counted(lines, "line")] if lines else []
    return ", ".join([*parts, *([counted(pictures, "picture")] if pictures else [])]) or "no content"


def _block(part: McpContent, pictures: int, folder: Path | None) -> TextBlock | ImageBlock:
    match part.kind:
        case "text":
            return TextBlock(plain_text(part.text))
        case "link":
            about = ", ".join(plain_line(text) for text in (part.name, part.mime_type) if text)
            link = f"[Link to the resource {plain_line(part.uri, 2_000)}{f' ({about})' if about else ''}]"
            return TextBlock(f"{link}\n{plain_text(part.text)}".strip())
        case "resource" if part.text or not part.data:
            return TextBlock(f"[Resource {plain_line(part.uri, 2_000)}]\n{plain_text(part.text)}")
        case "image" if pictures < _MAX_PICTURES:
            return _picture(part, folder)
    what = f"Resource {plain_line(part.uri, 2_000)}" if part.uri else part.kind.capitalize()
    return _save(part, what, folder)


def _picture(part: McpContent, folder: Path | None) -> TextBlock | ImageBlock:
    from agentcli.tools.documents.image import Picture, fit_image

    data = _decode(part.data)
    found = fit_image(data) if data is not None else None
    if isinstance(found, Picture):
        return found.block()
    return _save(part, f"Picture that cannot be shown ({found.reason})" if found is not None else "Picture", folder)


def _save(part: McpContent, what: str, folder: Path | None) -> TextBlock:
    """Save data to a file; returns a line about it."""
    kind, data = plain_line(part.mime_type, 100), _decode(part.data)
    if data is None:
        return TextBlock(f"[{what}: {kind or 'data'} that is not valid base64]")
    about = f"{what}: {kind or 'data'}, {byte_size(len(data))}"
    ending = mimetypes.guess_extension(kind.partition(";")[0].strip()) or ".bin"
    path = _write(folder, [data], ending)
    return TextBlock(f"[{about}, saved as {path}]" if path is not None else f"[{about}; it could not be saved]")


def _spill(text: str, folder: Path | None) -> str:
    """The beginning of a text and the path of the file with all of it."""
    path = _write(folder, (piece.encode("utf-8", "replace") for piece in _rows_apart(text)), ".txt")
    size = f"{counted(len(text), 'character')}, too many for the conversation"
    if path is None:
        rest = f"The result has {size}, and the rest could not be saved. Ask for less at a time."
    else:
        rest = (
            f"The result has {size}. All of it is in {path}: read it in parts with Read (offset and limit) or search "
            "it with Grep. Do not draw conclusions from its beginning alone."
        )
    return f"{text[:_SHOWN_OF_SPILLED]}\n\n[… {rest}]"


def _rows_apart(text: str) -> Iterator[str]:
    """The text in pieces, JSON on one line with a line break after each comma outside of strings, so that the file can
    be read in parts."""
    if "\n" in text or text[:1] not in ("{", "["):
        yield text
        return
    at, is_string = 0, False
    while at < len(text):
        end = at + _MAX_INLINE
        while text[end - 1 : end] == "\\":  # do not cut an escape
            end += 1
        for mark in _JSON_MARK.finditer(text, at, end):
            if mark[0] == '"':
                is_string = not is_string
            elif mark[0] == "," and not is_string:
                yield f"{text[at : mark.end()]}\n"
                at = mark.end()
        yield text[at:end]
        at = end


def _decode(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _write(folder: Path | None, pieces: Iterable[bytes], ending: str) -> Path | None:
    if folder is None:
        return None
    path = folder / f"mcp-{os.urandom(6).hex()}{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.writelines(pieces)
    except OSError:
        return None
    return path
