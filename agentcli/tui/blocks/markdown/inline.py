"""Inline Markdown (emphasis, code, links) as runs of styled text.

Only plain printable http and https addresses become terminal hyperlinks: no text of a model gets into a control
sequence. The target of a link is always visible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.style import Style

from agentcli.tui.blocks.wrap import Run
from agentcli.tui.theme.palette import Palette

if TYPE_CHECKING:
    from markdown_it.token import Token

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]]+")
_CLICKABLE = re.compile(r"https?://[!-~]{1,2000}").fullmatch
_TRAILING_PUNCTUATION = ".,:;!?*_~"
_TASK = re.compile(r"\[([ xX])\](?=\s)")


def inline_runs(children: Sequence[Token], palette: Palette, base: Style) -> list[Run]:
    styles = [base]
    links: list[tuple[str, int]] = []
    runs: list[Run] = []
    for token in children:
        kind = token.type
        style = styles[-1]
        if kind in ("text", "text_special"):
            if "://" in token.content and not links:
                runs += linked(token.content, style, palette)
            elif token.content:
                runs.append((token.content, style))
        elif kind in ("softbreak", "hardbreak"):
            runs.append(("\n", style))
        elif kind == "code_inline":
            runs.append((token.content, style + palette.code))
        elif kind == "link_open":
            links.append((str(token.attrs.get("href", "")), len(runs)))
            styles.append(style + _link_style(links[-1][0], palette))
        elif kind == "link_close":
            styles.pop()
            href, start = links.pop()
            runs += _target("".join([text for text, _style in runs[start:]]), href, styles[-1] + palette.muted)
        elif kind == "image":
            alt = token.content or "image"
            source = str(token.attrs.get("src", ""))
            runs.append((f"[image: {alt}]" if alt != "image" else "[image]", style + palette.link))
            runs += _target(alt, source, style + palette.muted)
        elif kind in _MARKS:
            styles.append(style + getattr(palette, _MARKS[kind]))
        elif token.nesting < 0:
            styles.pop()
        elif token.content:  # HTML and anything else: shown as written.
            runs.append((token.content, style + palette.muted))
    return runs


_MARKS = {"em_open": "emphasis", "strong_open": "strong", "s_open": "strike"}


def linked(text: str, style: Style, palette: Palette) -> list[Run]:
    runs: list[Run] = []
    place = 0
    for found in _ADDRESS.finditer(text):
        address = found.group().rstrip(_TRAILING_PUNCTUATION)
        if address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1].rstrip(_TRAILING_PUNCTUATION)
        start, end = found.start(), found.start() + len(address)
        runs += [(text[place:start], style), (address, style + _link_style(address, palette))]
        place = end
    runs.append((text[place:], style))
    return [run for run in runs if run[0]]


def split_task(runs: Sequence[Run], palette: Palette) -> list[Run]:
    found = _TASK.match(runs[0][0]) if runs else None
    if found is None:
        return list(runs)
    text, style = runs[0]
    box = style + (palette.muted if found[1] == " " else palette.success)
    return [(found.group(), box), (text[found.end() :], style), *runs[1:]]


def _link_style(href: str, palette: Palette) -> Style:
    return palette.link + Style(link=href) if _CLICKABLE(href) else palette.link


def _target(text: str, href: str, style: Style) -> list[Run]:
    shown = href.removeprefix("mailto:")
    if not shown or shown.rstrip("/") == text.rstrip("/"):
        return []
    return [(f" ({shown})", style)]
