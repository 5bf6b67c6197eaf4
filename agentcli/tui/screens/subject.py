"""What a call would do, as lines for a permission question. Pure; nothing is ever cut.

Characters that could deceive the reader (control, zero-width and direction characters) are spelled out, and a line
break in a command looks different from a wrapped line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.style import Style
from textual.strip import Strip

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.core.processes.shell import shown_command
from agentcli.core.text.unified_diff import parse
from agentcli.interactive.wording import server_claims
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.screens.text import one_line
from agentcli.tui.theme.palette import Palette

BLANK = BlockLine(Strip([]))


def subject_lines(event: PermissionRequested, width: int, palette: Palette) -> list[BlockLine]:
    display = event.display
    match display.get("kind"):
        case "command":
            return _command(event, width, palette)
        case "diff":
            return _diff(event, width, palette)
        case "fetch":
            return _fetch(display, width, palette)
        case "mcp":
            return _mcp(event, width, palette)
        case "markdown" | "plan":
            return markdown_lines(str(display.get("text") or display.get("plan") or ""), width, palette)
        case "text" | "loop":
            return paragraph(str(display.get("text", "")), width, palette.text)
        case _:
            return [*paragraph(event.title, width, palette.tool), BLANK, *input_lines(event.input, width, palette)]


def paragraph(text: str, width: int, style: Style, indent: str = "", mark: Sequence[Run] = ()) -> list[BlockLine]:
    """Text with its own line breaks. `mark` precedes the first row; the other rows are indented by the same width."""
    return wrap([(shown_command(text), style)], width, [(indent, Style.null()), *mark])


def field_lines(label: str, text: str, width: int, palette: Palette) -> list[BlockLine]:
    return wrap([(shown_command(text), palette.text)], width, [(f"{label} ", palette.muted)])


def code_lines(text: str, width: int, palette: Palette, style: Style | None = None) -> list[BlockLine]:
    """Text unchanged, with line numbers; a row without a number continues the line above."""
    rows = shown_command(text).split("\n")
    if len(rows) > 1 and not rows[-1]:
        rows.pop()
    gutter = len(str(len(rows)))
    lines: list[BlockLine] = []
    for number, row in enumerate(rows, 1):
        before = [(f"{number:>{gutter}} ", palette.faint)]
        bare, dots = _dotted(row)
        lines += wrap([(bare, style or palette.text), (dots, palette.faint)], width, before)
    return lines


def _dotted(row: str) -> tuple[str, str]:
    """Split off the trailing blanks of a line, as dots: they are part of it but invisible."""
    bare = row.rstrip(" ")
    return bare, "·" * (len(row) - len(bare))


def markdown_lines(text: str, width: int, palette: Palette) -> list[BlockLine]:
    # Imported here to load the parser only when there is Markdown to show.
    from agentcli.tui.blocks.markdown.layout import render_markdown

    return list(render_markdown(shown_command(text), width, palette))


def diff_lines(
    text: str, width: int, palette: Palette, path: str = "", *, in_columns: bool | None = None
) -> list[BlockLine]:
    """Rows of a unified diff. Blanks at the end of a changed line are shown as dots. `in_columns`: old beside new;
    None: if that shows more."""
    # Imported here because it loads syntax highlighting, which questions without a diff do not need.
    from agentcli.tui.blocks.diff import rows as diff

    hunks = parse(_with_dots(text))
    two_columns = diff.fits_side_by_side(hunks, width) if in_columns is None else in_columns
    groups = diff.diff_groups(hunks, width, palette, path, two_columns=two_columns)
    return [line for group in groups for line in group]


def fits_in_columns(text: str, width: int) -> bool:
    from agentcli.tui.blocks.diff import rows as diff

    return diff.fits_side_by_side(parse(_with_dots(text)), width)


def _with_dots(text: str) -> str:
    rows = shown_command(text).split("\n")
    return "\n".join("".join(_dotted(row)) if row.startswith(("+", "-")) else row for row in rows)


def input_lines(input: Json, width: int, palette: Palette) -> list[BlockLine]:
    lines: list[BlockLine] = []
    for name, value in input.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if not isinstance(value, str) and len(text) > width - len(name) - 2:
            text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
        if "\n" in text or len(text) > width:
            lines += wrap([(f"{shown_command(name)}:", palette.muted)], width)
            lines += code_lines(text, width, palette)
        else:
            lines += field_lines(f"{one_line(name)}:", text, width, palette)
    return lines or paragraph("(no input)", width, palette.muted)


def _command(event: PermissionRequested, width: int, palette: Palette) -> list[BlockLine]:
    command = str(event.input.get("command") or event.display.get("command") or "")
    if "\n" in command.strip("\n"):
        lines = code_lines(command, width, palette, palette.code)
    else:
        lines = wrap([(shown_command(command), palette.code)], width, [("$ ", palette.accent)])
    folder, purpose = str(event.display.get("folder", "")), str(event.display.get("description", ""))
    if folder or purpose:
        lines.append(BLANK)
    if folder:
        lines += field_lines("in", folder, width, palette)
    if purpose:
        lines += field_lines("to", purpose, width, palette)
    return lines


def _diff(event: PermissionRequested, width: int, palette: Palette) -> list[BlockLine]:
    display = event.display
    path = str(display.get("path") or event.input.get("file_path") or "")
    counts = f"  +{display.get('added', 0)} −{display.get('removed', 0)}"
    lines = wrap([(shown_command(path), palette.tool), (counts, palette.muted)], width)
    text = str(display.get("diff", ""))
    if text:
        lines += diff_lines(text, width, palette, path)
    else:
        lines += paragraph("Only line endings would change.", width, palette.muted)
    if display.get("truncated"):
        lines += [BLANK, *paragraph("The diff is cut off here. The complete new content:", width, palette.warning)]
        lines += input_lines(event.input, width, palette)
    return lines


def _fetch(display: Json, width: int, palette: Palette) -> list[BlockLine]:
    lines = wrap([(shown_command(str(display.get("url", ""))), palette.code)], width)
    lines += [BLANK, *field_lines("host", str(display.get("host", "")), width, palette)]
    if display.get("private"):
        lines += paragraph("! This address is in your own network.", width, palette.warning)
    return [*lines, *field_lines("to find out", str(display.get("prompt", "")), width, palette)]


def _mcp(event: PermissionRequested, width: int, palette: Palette) -> list[BlockLine]:
    display = event.display
    # Repeated here because the title above may be cut.
    named = f"{display.get('server', '')} · {display.get('tool', '')}"
    lines = [*paragraph(named, width, palette.tool), *input_lines(event.input, width, palette)]
    description, claims = str(display.get("description", "")).strip(), server_claims(display)
    if description or claims:
        lines.append(BLANK)
    if description:
        lines += field_lines("description:", description, width, palette)
    return [*lines, *paragraph(claims, width, palette.muted)] if claims else lines
