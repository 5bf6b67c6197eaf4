"""What a call would do, as lines for a permission question. Pure; nothing is ever cut.

Characters that could deceive a reader (control, zero-width, direction) are spelled out; trailing spaces are shown as
dots, because they are part of the line but invisible.
"""

from __future__ import annotations

import json

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.core.processes.shell import shown_command
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.wording import server_claims
from agentcli.plain.output.pieces import Piece, TextLine, TextStyle, line, prose


def subject(event: PermissionRequested) -> list[Piece]:
    display = event.display
    match display.get("kind"):
        case "command":
            return _command(event)
        case "diff":
            return _diff(event)
        case "fetch":
            return _fetch(display)
        case "mcp":
            return _mcp(event)
        case "markdown" | "plan":
            # The source: rendered Markdown hides comments and link targets.
            return rows(str(display.get("text") or display.get("plan") or ""), "  | ")
        case "text" | "loop":
            return [line(shown_command(str(display.get("text", ""))))]
        case _:
            return [line(shown_command(event.title), "strong"), *_input(event.input)]


def rows(text: str, mark: str = "  ") -> list[Piece]:
    """Each line of the text behind a mark. Lines that the terminal wraps have none, so real line breaks can be told
    apart."""
    found = shown_command(text).split("\n")
    if len(found) > 1 and not found[-1]:
        found.pop()
    return [_dotted(row, mark=mark) for row in found]


def _dotted(row: str, look: TextStyle = "text", mark: str = "  ") -> TextLine:
    bare = row.rstrip(" ")
    return TextLine(((mark, "quiet"), (bare, look), ("·" * (len(row) - len(bare)), "quiet")))


def _field(label: str, text: str) -> Piece:
    return line(shown_command(text), "text", f"  {label}: ")


def _command(event: PermissionRequested) -> list[Piece]:
    command = str(event.input.get("command") or event.display.get("command") or "")
    several = "\n" in command.strip("\n")
    one: list[Piece] = [line(shown_command(command), "strong", "  $ ", "mark")]
    pieces = rows(command, "  | ") if several else one
    if folder := str(event.display.get("folder", "")):
        pieces.append(_field("in", folder))
    if purpose := str(event.display.get("description", "")):
        pieces.append(prose(shown_command(purpose), "text", "  to: "))
    return pieces


def _diff(event: PermissionRequested) -> list[Piece]:
    display = event.display
    path = str(display.get("path") or event.input.get("file_path") or "")
    counts = f"  +{display.get('added', 0)} −{display.get('removed', 0)}"
    pieces: list[Piece] = [TextLine(((shown_command(path), "strong"), (counts, "quiet")))]
    text = str(display.get("diff", ""))
    if text:
        pieces += [_changed(row) for row in shown_command(text).strip("\n").split("\n")]
    else:
        pieces.append(line("Only line endings would change.", "quiet"))
    if display.get("truncated"):
        pieces += [prose("The diff is cut off here. The complete new content:", "warning"), *_input(event.input)]
    return pieces


def _changed(row: str) -> TextLine:
    if not row.startswith(("+", "-")):
        return line(f"  {row}", "quiet" if row.startswith("@@") else "text")
    return _dotted(row, "added" if row.startswith("+") else "removed")


def _fetch(display: Json) -> list[Piece]:
    pieces: list[Piece] = [line(shown_command(str(display.get("url", ""))), "strong", "  ")]
    pieces.append(_field("host", str(display.get("host", ""))))
    if display.get("private"):
        pieces.append(line("This address is in your own network.", "warning", "  ! ", "warning"))
    return [*pieces, _field("to find out", str(display.get("prompt", "")))]


def _mcp(event: PermissionRequested) -> list[Piece]:
    pieces = _input(event.input)
    if description := str(event.display.get("description", "")).strip():
        pieces.append(_field("description", description))
    if claims := server_claims(event.display):
        pieces.append(prose(claims, "quiet", "  "))
    return pieces


def _input(input: Json) -> list[Piece]:
    """The whole input, field by field: strings with their line breaks, everything else as JSON."""
    pieces: list[Piece] = []
    for name, value in input.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if "\n" in text:
            pieces += [line(f"  {shown_command(plain_line(name))}:", "quiet"), *rows(text, "  | ")]
        else:
            pieces.append(_field(shown_command(plain_line(name)), text))
    return pieces or [line("  (no input)", "quiet")]
