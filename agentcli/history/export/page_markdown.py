"""Answers as HTML: the app's Markdown parser, highlighted code, and nothing that a browser would load or run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from agentcli.core.text.plaintext import plain_text, spell_hidden
from agentcli.history.export.code_tokens import language_name, token_lines
from agentcli.history.export.markdown_parser import (
    MAX_NESTING,
    answer_parser,
    parse_blocks,
    parse_inline,
    split_addresses,
)

MAX_MARKDOWN = 400_000
"""Characters; a longer text is shown as written."""
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[!-~]{1,2000}")
COPY_BUTTON = '<button class="copy" type="button">Copy</button>'


def safe(text: str) -> str:
    """Untrusted text as HTML: control sequences are removed, hidden characters spelled out."""
    return escape(spell_hidden(plain_text(text)))


def code_block(code: str, language: str) -> str:
    label = f'<span class="language">{safe(language)}</span>' if language else ""
    lines = "\n".join(code_lines(code, language))
    return f'<div class="code">{label}{COPY_BUTTON}<pre><code>{lines}</code></pre></div>'


def code_lines(code: str, language: str) -> list[str]:
    """The lines of code as HTML, with a class for each kind of word."""
    code = spell_hidden(plain_text(code))
    lines = token_lines(code, language) or [[(line, "name")] for line in code.split("\n")]
    return [
        "".join(
            escape(text) if kind == "name" else f'<span class="k-{kind}">{escape(text)}</span>' for text, kind in line
        )
        for line in lines
    ]


def markdown_html(text: str) -> str:
    text = spell_hidden(plain_text(text)).replace("\0", "\ufffd")
    environment: dict[str, Any] = {"references": {}}
    tokens = parse_blocks(text, environment) if len(text) <= MAX_MARKDOWN else []
    if len(text) > MAX_MARKDOWN or any(token.level >= MAX_NESTING - 2 for token in tokens):
        return f"<pre>{escape(text)}</pre>"
    for token in tokens:
        if "right" in str(token.attrs.pop("style", "")):
            token.attrs["class"] = "right"
        if token.type == "inline":
            token.children = parse_inline(token.content, environment)
    return _renderer().render(tokens, answer_parser().options, environment)


class _Renderer(RendererHTML):
    """Methods are rules for the tokens of their name."""

    def text(self, tokens: Sequence[Token], place: int, _options: Any, environment: Any) -> str:
        pieces = [(tokens[place].content, False)]
        if not environment.get("in_link"):
            pieces = list(split_addresses(tokens[place].content))
        parts = [f"{_link(text)}{escape(text)}</a>" if is_address else escape(text) for text, is_address in pieces]
        return "".join(parts).replace("\n", "<br>\n")

    def fence(self, tokens: Sequence[Token], place: int, _options: Any, _environment: Any) -> str:
        return code_block(tokens[place].content.removesuffix("\n"), language_name(tokens[place].info))

    def code_block(self, *arguments: Any) -> str:
        return self.fence(*arguments)

    def html_block(self, tokens: Sequence[Token], place: int, _options: Any, _environment: Any) -> str:
        return f"<p>{escape(tokens[place].content)}</p>"

    def html_inline(self, tokens: Sequence[Token], place: int, _options: Any, _environment: Any) -> str:
        return escape(tokens[place].content)

    def image(self, tokens: Sequence[Token], place: int, _options: Any, _environment: Any) -> str:
        """A picture elsewhere would be loaded by everyone who opens the page."""
        address = str(tokens[place].attrs.get("src", ""))
        return f"{_link(address)}[image: {escape(tokens[place].content or 'image')}]</a>"

    def link_open(self, tokens: Sequence[Token], place: int, _options: Any, environment: Any) -> str:
        environment["in_link"] = True
        return _link(str(tokens[place].attrs.get("href", "")))

    def link_close(self, _tokens: Sequence[Token], _place: int, _options: Any, environment: Any) -> str:
        environment["in_link"] = False
        return "</a>"


def _link(address: str) -> str:
    """The beginning of a link; of one to another place than the web it is only the address, as a tooltip."""
    target = f' href="{escape(address)}" rel="noopener noreferrer" target="_blank"'
    return f'<a title="{escape(address)}"{target if _SAFE_LINK.fullmatch(address) else ""}>'


_renderer = cache(_Renderer)
