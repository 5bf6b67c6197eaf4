"""Answers made to cost time: each frame does a bounded amount of work."""

from __future__ import annotations

import pytest

from agentcli.plain.markdown import MAX_BLOCK, MAX_LINE, MarkdownCutter
from agentcli.plain.rendering import Renderer
from agentcli.tui.blocks import answer as flow_module
from agentcli.tui.blocks.answer import Flow
from agentcli.tui.blocks.markdown import MarkdownDocument
from agentcli.tui.glyphs import glyphs
from agentcli.tui.theme.palette import Palette
from tests.core.test_globs import at_most

UNITS = ["a b ", "~", "`", "*", "**a ", "[", "![[](", "> ", "- ", "|a", "<a ", "&amp", "\\", "[a](b "]


@pytest.mark.parametrize("unit", UNITS)
def test_an_endless_line_is_laid_out_in_pieces(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    class Counting(MarkdownDocument):
        def __init__(self, text: str, *rest: object) -> None:
            parsed.append(len(text))
            super().__init__(text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(flow_module, "MarkdownDocument", Counting)
    text = (unit * 30_000)[:30_000]
    flow = Flow(80, Palette())
    with at_most(60):
        for start in range(0, len(text), 4_000):
            flow.feed(text[start : start + 4_000])
            flow.lines(done=False)
        flow.lines(done=True)
    # A line of nothing but these may become a fence, which is not torn apart and costs little.
    assert unit in "~`" or max(parsed, default=0) < 25_000


@pytest.mark.parametrize("unit", UNITS)
def test_plain_mode_prints_an_endless_line_in_pieces(unit: str) -> None:
    text = (unit * 30_000)[:30_000]
    cutter, renderer = MarkdownCutter(), Renderer(colours=False)
    parts = []
    with at_most(60):
        for start in range(0, len(text), 500):
            parts += cutter.feed(text[start : start + 500])
            assert len(cutter.paragraph) <= MAX_LINE
        parts += cutter.finish()
        for part in parts:
            renderer.render(part.text, 80)
    assert max(len(part.text) for part in parts) <= MAX_BLOCK
    assert sum(len(part.text.replace(" ", "")) for part in parts) == len(text.replace(" ", ""))


@pytest.mark.parametrize("unit", ["\U0001f469\u200d", "\u0301", "a\u0301", "\u200d", "\ufe0f", "\u200c", "\U0001f1e6"])
def test_joined_characters_become_glyphs_of_bounded_length(unit: str) -> None:
    text = "a" + unit * 20_000
    found = glyphs(text)
    assert "".join(source for source, _shown, _cells in found) == text
    assert max(len(source) for source, _shown, _cells in found) < 80
