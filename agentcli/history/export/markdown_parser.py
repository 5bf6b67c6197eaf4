"""The parser of answers, which are Markdown: markdown-it, imported at the first use (50 ms), with a few deviations.

A line of dashes under text is a rule, not a heading; names with underscores and footnotes stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentcli.core.text.markdown_names import keep_name

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

MAX_NESTING = 40
"""Maximum nesting; markdown-it omits deeper content, so such a piece is shown as written."""
_MAX_INLINE = 16_000
_MAX_BRACKETS = 300
_MAX_MARKS = 1_500
"""Limits for a paragraph that is searched for emphasis and links, which takes quadratic time for hostile text."""
_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]+")
_TRAILING_PUNCTUATION = ".,:;!?*_~"
_SPECIAL = re.compile(r"[\\`*_~\[\]<&]|://|\n[ \t]|[ \t]\n")


def parse_blocks(text: str, environment: dict[str, Any] | None = None) -> list[Token]:
    """The tokens of the blocks of a text; those of paragraphs are left to `parse_inline`."""
    parser, tokens = answer_parser(), list["Token"]()
    parser.block.parse(text, parser, {} if environment is None else environment, tokens)
    return tokens


def parse_inline(content: str, environment: dict[str, Any]) -> list[Token]:
    """The tokens of a paragraph, or one with its text if there is nothing to find or that would take too long."""
    parser, tokens = answer_parser(), list["Token"]()
    if _SPECIAL.search(content) is None or _is_too_much(content):
        from markdown_it.token import Token

        return [Token("text", "", 0, content=content)]
    parser.inline.parse(content, parser, environment, tokens)
    return tokens


def _is_too_much(content: str) -> bool:
    if len(content) < _MAX_BRACKETS:
        return False
    return (
        len(content) > _MAX_INLINE or content.count("[") > _MAX_BRACKETS or len(_SPECIAL.findall(content)) > _MAX_MARKS
    )


def split_addresses(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a text, and whether each is an address of the web."""
    place = 0
    for found in _ADDRESS.finditer(text):
        address = found[0].rstrip(_TRAILING_PUNCTUATION)
        if address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1].rstrip(_TRAILING_PUNCTUATION)
        yield text[place : found.start()], False
        yield address, True
        place = found.start() + len(address)
    yield text[place:], False


@lru_cache(maxsize=1)
def answer_parser() -> MarkdownIt:
    """Shared: do not change its options."""
    from markdown_it import MarkdownIt

    parser = (
        MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "breaks": True})
        .enable(["table", "strikethrough"])
        .disable("lheading")
    )
    parser.block.ruler.at("reference", _reference, {"alt": []})
    parser.inline.ruler.before("emphasis", "name", keep_name)
    return parser


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Show the text of a footnote, which markdown-it would take for a link definition."""
    from markdown_it.rules_block import reference

    place = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", place) and reference(state, start, end, silent)
