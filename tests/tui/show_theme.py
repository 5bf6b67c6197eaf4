"""A page in a theme, to look at: `python -m tests.tui.show_theme NAME [--no-color] [#rrggbb]`.

The colour is what the terminal said that its background is, if it did.
Ctrl+N shows the next theme, Ctrl+T a dialog, Ctrl+Q ends it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static, TextArea

from agentcli.tui.model import Activity, Facts
from agentcli.tui.status.activity import ActivityLine
from agentcli.tui.status.line import StatusLine
from agentcli.tui.theme.palette import Palette, Rgb, parse_colour
from agentcli.tui.theme.themes import apply_theme, begin_with_theme, load_themes, theme_folders

STYLE = Path(__file__).parent.parent.parent / "agentcli" / "tui" / "style.tcss"
FACTS = Facts(
    model="claude-sonnet-5",
    effort="high",
    mode="acceptEdits",
    context_tokens=172_000,
    context_window=1_000_000,
    compact_at=900_000,
    cost_usd=0.42,
    next_cost_usd=0.012,
    cached_share=0.97,
    branch="main",
    cwd="~/projects/agentcli",
    tasks=2,
)


def page(palette: Palette, width: int) -> Text:
    text = Text(no_wrap=True, end="")

    def line(*runs: tuple[str, Style], fill: Style | None = None) -> None:
        used = sum(len(run) for run, _style in runs)
        for run, style in runs:
            text.append(run, style)
        if fill is not None:
            text.append(" " * max(0, width - used), fill)
        text.append("\n")

    p, syntax = palette, palette.syntax
    line(("❯ ", p.user_mark), ("find and fix the bug in parser.py ", p.user), ("[Pasted 42 lines]", p.chip))
    line()
    line(("  Thought for 3 s", p.thinking))
    line(("  Heading", p.heading))
    line(
        ("  The slice dropped ", p.text),
        ("the last", p.strong + p.text),
        (" character of ", p.text),
        ("text[0:end]", p.code),
    )
    line(("  • ", p.bullet), ("see ", p.text), ("the docs", p.link), ("  > a quotation", p.quote))
    line()
    line(("  ✓ ", p.success), ("Edit", p.tool), (" parser.py ", p.text), ("· added 1, removed 1 · 2 s", p.muted))
    line(("  │ ", p.faint), ("@@ -1,3 +1,3 @@", p.hunk))
    line(
        ("  │ ", p.faint),
        (" 3 - return text[0:end", p.removed),
        (" - 1", p.removed_word),
        ("]", p.removed),
        fill=p.removed,
    )
    line(("  │ ", p.faint), (" 3 + return text[0:", p.added), ("end", p.added_word), ("]", p.added), fill=p.added)
    line()
    code = p.code_block
    line(("  ", p.text), ("@cache", code + syntax.get("decorator", code)), fill=code)
    line(
        ("  ", p.text),
        ("def ", code + syntax.get("keyword", code)),
        ("head", code + syntax.get("function", code)),
        ("(text, end", code),
        (": ", code),
        ("int", code + syntax.get("type", code)),
        (" = ", code),
        ("42", code + syntax.get("number", code)),
        ("):  ", code),
        ("# first characters", code + syntax.get("comment", code)),
        fill=code,
    )
    line(("  ", p.text), ('    return "a" + ', code), ('"string"', code + syntax.get("string", code)), fill=code)
    line()
    line(
        ("  ✗ failed ", p.error),
        ("! warning ", p.warning),
        ("● running ", p.running),
        ("note ", p.info),
        ("faint", p.faint),
    )
    line(
        ("  a ", p.text),
        ("match", p.match),
        (" and the ", p.text),
        ("current one", p.match_current),
        (" ", p.text),
        ("selected", p.text + p.selection),
    )
    line(("─" * width, p.rule))
    return text


class Dialog(ModalScreen[None]):
    CSS = """
    Dialog > Vertical {
        width: 44; max-width: 100%; height: auto; padding: 1 2; background: $surface; border: round $rule;
    }
    """
    BINDINGS: ClassVar = [("escape", "app.pop_screen", "close")]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Choose a model", markup=False)
            yield Input(placeholder="search")
            yield OptionList("opus   the largest", "sonnet   the middle one", "haiku   the quickest")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()


class Viewer(App[None]):
    CSS_PATH = STYLE
    CSS = "TextArea { border: none; padding: 0; background: transparent; } OptionList { border: none; padding: 0; }"
    BINDINGS: ClassVar = [("ctrl+n", "next", "next"), ("ctrl+t", "dialog", "dialog"), ("ctrl+q", "quit", "quit")]

    def __init__(self, name: str, colours: bool = True, background: Rgb | None = None) -> None:
        super().__init__(ansi_color=None if colours else True)
        self.terminal = background
        self.themes = load_themes(theme_folders(None), print)
        self.names = list(self.themes)
        self.at = self.names.index(name)
        self.colours = colours
        self.palette = self.themes[name].palette(colours, background)
        begin_with_theme(self, self.themes[name].textual(colours, background))

    def compose(self) -> ComposeResult:
        yield Static(id="page", markup=False)
        yield ActivityLine(self.palette)
        yield TextArea("What was typed stands here", id="box")
        yield StatusLine(self.palette)

    def on_mount(self) -> None:
        self.query_one("#page").styles.height = "1fr"
        self.query_one("#box").styles.height = 2
        began = __import__("time").monotonic() - 12
        self.query_one(ActivityLine).show(Activity(phase="tools", text="Bash: pytest -q", began=began, tokens_out=1234))
        self.query_one(StatusLine).update(FACTS)
        self.wear()

    def on_resize(self) -> None:
        self.wear()

    def wear(self) -> None:
        theme = self.themes[self.names[self.at]]
        self.palette = theme.palette(self.colours, self.terminal)
        apply_theme(self, theme.textual(self.colours, self.terminal))
        self.query_one("#page", Static).update(page(self.palette, self.size.width))
        self.query_one(ActivityLine).set_palette(self.palette)
        self.query_one(StatusLine).set_palette(self.palette)

    def action_next(self) -> None:
        self.at = (self.at + 1) % len(self.names)
        self.wear()

    def action_dialog(self) -> None:
        self.push_screen(Dialog())


def main(arguments: list[str]) -> None:
    plain = "--no-color" in arguments
    if plain:
        os.environ["NO_COLOR"] = "1"
    words = [word for word in arguments if not word.startswith("-")]
    said = next((parse_colour(word) for word in words if word.startswith("#")), None)
    name = next((word for word in words if not word.startswith("#")), "dark")
    Viewer(name, not plain, said.rgb if said else None).run()


if __name__ == "__main__":
    main(sys.argv[1:])
