"""Details of a question as lines. Pure; nothing is ever cut.

Characters that could deceive the reader (control, zero-width and direction characters) are spelled out, and a line
break in a command looks different from a wrapped line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rich.style import Style
from textual.strip import Strip

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import show_command
from agentcli.core.text.unified_diff import parse
from agentcli.interactive.questions import model as ask
from agentcli.tui.blocks.base import BlockLine, Run, wrap
from agentcli.tui.screens.text import one_line
from agentcli.tui.theme.palette import Palette

BLANK = BlockLine(Strip([]))


def detail_lines(details: Iterable[ask.Detail], width: int, palette: Palette) -> list[BlockLine]:
    lines: list[BlockLine] = []
    for detail in details:
        if isinstance(detail, ask.Spacer):
            lines += [BLANK] if lines and lines[-1] is not BLANK else []
        else:
            lines += _detail_lines(detail, width, palette)
    return lines[:-1] if lines and lines[-1] is BLANK else lines


def _detail_lines(detail: ask.Detail, width: int, palette: Palette) -> list[BlockLine]:
    match detail:
        case ask.Paragraph():
            return _paragraph(detail, width, palette)
        case ask.Heading(text, note):
            runs = [(show_command(text), palette.tool), (f"  {note}" if note else "", palette.muted)]
            return wrap(runs, width)
        case ask.Labelled(label, text):
            return field_lines(label, text, width, palette)
        case ask.LabelTable(rows):
            return _table(rows, width, palette)
        case ask.Verbatim(text, mark) if mark:
            style = palette.code if mark.strip() else palette.text
            before = [(mark, _mark_style(mark, palette))]
            return [line for row in text.split("\n") for line in paragraph(row, width, style, mark=before)]
        case ask.Verbatim(text):
            return code_lines(text, width, palette)
        case ask.CommandText(text) if "\n" in text.strip("\n"):
            return code_lines(text, width, palette, palette.code)
        case ask.CommandText(text):
            return wrap([(show_command(text), palette.code)], width, [("$ ", palette.accent)])
        case ask.MarkdownText(text):
            return lay_out_markdown(text, width, palette)
        case ask.DiffText(text, path):
            return diff_lines(text, width, palette, path)
        case ask.InputFields(input):
            return input_lines(input, width, palette)
        case ask.AddressText(before_host, host, after):
            emphasis = palette.accent + palette.strong
            return wrap([(before_host, palette.muted), (host, emphasis), (after, palette.muted)], width)
    return []


def _paragraph(detail: ask.Paragraph, width: int, palette: Palette) -> list[BlockLine]:
    match detail.tone:
        case "warning":
            return paragraph(detail.text, width, palette.warning, mark=[("! ", palette.warning)])
        case "item":
            return paragraph(detail.text, width, palette.muted, mark=[("  · ", palette.faint)])
        case tone:
            styles = {"muted": palette.muted, "code": palette.code, "title": palette.warning}
            indent = " " * (len(detail.text) - len(detail.text.lstrip(" ")))
            return paragraph(detail.text.lstrip(" "), width, styles.get(tone, palette.text), indent)


def _mark_style(mark: str, palette: Palette) -> Style:
    return {"- ": palette.error, "+ ": palette.success}.get(mark, palette.accent)


def _table(rows: Sequence[tuple[str, str]], width: int, palette: Palette) -> list[BlockLine]:
    lines: list[BlockLine] = []
    widest, last = max(len(label) for label, _text in rows), ""
    for label, text in rows:
        lines += field_lines(f"{label if label != last else '':<{widest}}", text, width, palette)
        last = label
    return lines


def paragraph(text: str, width: int, style: Style, indent: str = "", mark: Sequence[Run] = ()) -> list[BlockLine]:
    """Text with its own line breaks. `mark` precedes the first row; the other rows are indented by the same width."""
    return wrap([(show_command(text), style)], width, [(indent, Style.null()), *mark])


def field_lines(label: str, text: str, width: int, palette: Palette) -> list[BlockLine]:
    return wrap([(show_command(text), palette.text)], width, [(f"{label} ", palette.muted)])


def code_lines(text: str, width: int, palette: Palette, style: Style | None = None) -> list[BlockLine]:
    """Text unchanged, with line numbers; a row without a number continues the line above."""
    rows = show_command(text).split("\n")
    if len(rows) > 1 and not rows[-1]:
        rows.pop()
    gutter = len(str(len(rows)))
    lines: list[BlockLine] = []
    for number, row in enumerate(rows, 1):
        before = [(f"{number:>{gutter}} ", palette.faint)]
        bare, dots = _split_blanks(row)
        lines += wrap([(bare, style or palette.text), (dots, palette.faint)], width, before)
    return lines


def _split_blanks(row: str) -> tuple[str, str]:
    """Split off the trailing blanks of a line, as dots: they are part of it but invisible."""
    bare = row.rstrip(" ")
    return bare, "·" * (len(row) - len(bare))


def lay_out_markdown(text: str, width: int, palette: Palette) -> list[BlockLine]:
    # Imported here to load the parser only when there is Markdown to show.
    from agentcli.tui.blocks.markdown import render_markdown

    return list(render_markdown(show_command(text), width, palette))


def diff_lines(
    text: str, width: int, palette: Palette, path: str = "", *, in_columns: bool | None = None
) -> list[BlockLine]:
    """Rows of a unified diff. Blanks at the end of a changed line are shown as dots. `in_columns`: old beside new;
    None: if that shows more."""
    # Imported here because it loads syntax highlighting, which questions without a diff do not need.
    from agentcli.tui.blocks import diff

    hunks = parse(_with_dots(text))
    two_columns = diff.fits_side_by_side(hunks, width) if in_columns is None else in_columns
    groups = diff.diff_groups(hunks, width, palette, path, two_columns=two_columns)
    return [line for group in groups for line in group]


def fits_in_columns(text: str, width: int) -> bool:
    from agentcli.tui.blocks import diff

    return diff.fits_side_by_side(parse(_with_dots(text)), width)


def _with_dots(text: str) -> str:
    rows = show_command(text).split("\n")
    return "\n".join("".join(_split_blanks(row)) if row.startswith(("+", "-")) else row for row in rows)


def input_lines(input: Json, width: int, palette: Palette) -> list[BlockLine]:
    lines: list[BlockLine] = []
    for name, value in input.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if not isinstance(value, str) and len(text) > width - len(name) - 2:
            text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
        if "\n" in text or len(text) > width:
            lines += wrap([(f"{show_command(name)}:", palette.muted)], width)
            lines += code_lines(text, width, palette)
        else:
            lines += field_lines(f"{one_line(name)}:", text, width, palette)
    return lines or paragraph("(no input)", width, palette.muted)
