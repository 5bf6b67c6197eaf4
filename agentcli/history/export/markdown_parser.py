"""The parser of answers, which are Markdown: markdown-it, imported at the first use (50 ms), with a few deviations.

A line of dashes under text is a rule, not a heading; names with underscores and footnotes stay as written.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from agentcli.core.text.markdown_names import keep_name

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

MAX_NESTING = 40
"""Maximum nesting; markdown-it omits deeper content, so such a piece is shown as written."""
_MAX_INLINE = 16_000
_MAX_BRACKETS = 300
_MAX_MARKS = 1_500
"""Limits for a paragraph that is searched for emphasis and links, which takes quadratic time for hostile text."""
SPECIAL = re.compile(r"[\\`*_~\[\]<&]|://|\n[ \t]|[ \t]\n")


def is_too_much(content: str) -> bool:
    """Whether a paragraph would take too long to search for emphasis and links: it is shown as written."""
    if len(content) < _MAX_BRACKETS:
        return False
    return (
        len(content) > _MAX_INLINE or content.count("[") > _MAX_BRACKETS or len(SPECIAL.findall(content)) > _MAX_MARKS
    )


@lru_cache(maxsize=1)
def answer_parser() -> MarkdownIt:
    """Shared: do not change its options."""
    from markdown_it import MarkdownIt

    parser = (
        MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"]).disable("lheading")
    )
    parser.block.ruler.at("reference", _reference, {"alt": []})
    parser.inline.ruler.before("emphasis", "name", keep_name)
    return parser


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Show the text of a footnote, which markdown-it would take for a link definition."""
    from markdown_it.rules_block import reference

    place = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", place) and reference(state, start, end, silent)
