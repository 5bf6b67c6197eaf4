"""Split HTML into tokens: text, start tags, end tags. Never fails, always in linear time.

Not the standard library's parser: that scans the rest of the page again for every unclosed construct, so a hostile page
of a megabyte could block a thread for minutes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,63})")
_ATTRIBUTE = re.compile(
    r"[\s/]*([^\s=>/\"'][^\s=>/]{0,255})(?:\s{0,64}=\s{0,64}(\"[^\"]*\"|'[^']*'|[^\s>\"'][^\s>]*))?"
)
_TAG_END = re.compile(r"[^>\"']*(?:\"[^\"]*\"[^>\"']*|'[^']*'[^>\"']*)*>?")
_MOST_ATTRIBUTES = 64
RAW = frozenset(
    {"script", "style", "textarea", "title", "noscript", "iframe", "noembed", "xmp", "template", "svg", "math"}
)
"""Their content is one text up to the end tag; for some of them only because it is not needed."""


class Token(NamedTuple):
    kind: str
    """text, start, end"""
    name: str
    """Tag name in lower case."""
    text: str = ""
    """Text with entities resolved; for a start tag in RAW, its content."""
    attributes: Mapping[str, str] = {}


def tokens(source: str) -> Iterator[Token]:
    position, size = 0, len(source)
    unclosed: set[str] = set()
    while position < size:
        opened = source.find("<", position)
        if opened < 0:
            opened = size
        if opened > position:
            yield Token("text", "", html.unescape(source[position:opened]))
        if opened == size:
            return
        position = opened
        if source.startswith("<!--", position):
            position = _after(source, "-->", position + 4)
        elif source.startswith("<![CDATA[", position):
            position = _after(source, "]]>", position + 9)
        elif source.startswith(("<!", "<?"), position):
            position = _after(source, ">", position + 2)
        elif (tag := _TAG.match(source, position)) is None:
            yield Token("text", "", "<")
            position += 1
        else:
            name = tag[2].lower()
            if tag[1]:
                position = _after(source, ">", tag.end())
                yield Token("end", name)
                continue
            attributes, position = _attributes(source, tag.end())
            inside = ""
            if name in RAW:
                inside, position = _raw(source, name, position, unclosed)
            yield Token("start", name, inside, attributes)
            if name in RAW:
                yield Token("end", name)


def _after(source: str, mark: str, position: int) -> int:
    """The position after the next mark; the end of the source if there is none, so that nothing is searched twice."""
    found = source.find(mark, position)
    return len(source) if found < 0 else found + len(mark)


def _attributes(source: str, position: int) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    for _each in range(_MOST_ATTRIBUTES):
        match = _ATTRIBUTE.match(source, position)
        if match is None:
            break
        value = match[2] or ""
        if value[:1] in ("'", '"'):
            value = value[1:-1]
        found.setdefault(match[1].lower(), html.unescape(value))
        position = match.end()
    ended = _TAG_END.match(source, position)
    end = ended.end() if ended else len(source)
    if not source.startswith(">", end - 1):
        # A quote that is never closed: the tag ends at the next bracket.
        end = _after(source, ">", position)
    return found, end


def _raw(source: str, name: str, position: int, unclosed: set[str]) -> tuple[str, int]:
    """The content up to the matching end tag. Names without a further end tag are remembered, so that none is searched
    twice."""
    ended = None
    if name not in unclosed:
        ended = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(source, position)
    if ended is not None:
        return source[position : ended.start()], _after(source, ">", ended.end())
    unclosed.add(name)
    # Code without an end is not text. Anything else without one would swallow the whole page.
    return "", len(source) if name in ("script", "style") else position
