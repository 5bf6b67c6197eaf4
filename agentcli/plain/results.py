"""Print tool results: the first or last few lines, and how many more there are. Pure.

Displays also come from session files, so the types of their values are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentcli.core import events as ev
from agentcli.core.messages import Json, unwrap_error
from agentcli.core.text.columns import cell_count
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import TAB, continue_output, plain_line, plain_text
from agentcli.core.text.unified_diff import LineKind, is_diff, line_kinds
from agentcli.interactive.wording import tool_outcome
from agentcli.plain.pieces import TextLine, TextStyle, line
from agentcli.tools.planning import todo_line

INDENT = "  "
_ROWS = 6
_SHELL_ROWS = 8
_FAILED_ROWS = 16
_DIFF_ROWS = 24
_ALL_ROWS = 5_000
"""Most rows with --verbose."""
_MAX_ROW = 2_000
_INDENTED_COLUMNS = 78
"""Most columns of output that is indented."""
_KEPT = 16_000
"""Least number of characters of output kept of a running call; up to twice as many are."""
_DIFF_LOOKS: Mapping[LineKind, TextStyle] = {
    "+": "added", "-": "removed", "hunk": "quiet", "header": "strong"
}  # fmt: skip
_SHELLS = ("Bash", "BashOutput", "KillShell")
_SILENT = ("Read", "NotebookRead")
"""Tools of which only the summary is printed."""


def result_lines(event: ev.ToolFinished, *, verbose: bool, seen: bool) -> list[TextLine]:
    """Below the line that names the call. `seen`: the user was shown what it would do, and approved it."""
    failed = event.result.is_error
    display: Json = event.display
    if tool_outcome(event) == "interrupted":
        # The text of the result is for the model: it only says who stopped the call.
        return _output_rows(plain_text(_string(display, "text")), 0, verbose)
    kind = display.get("kind")
    if not failed and kind == "diff":
        rows = _ALL_ROWS if verbose else _DIFF_ROWS
        return [] if seen and not verbose else cap_lines(diff_lines(_string(display, "diff")), rows)
    if not failed and kind in _SILENT_KINDS:
        return []
    if not failed and kind in _KINDS:
        return [] if seen and kind == "plan" else [line(f"{INDENT}{row}", "quiet") for row in _KINDS[kind](display)]
    return _text(event, failed, verbose)


def _text(event: ev.ToolFinished, failed: bool, verbose: bool) -> list[TextLine]:
    text = _string(event.display, "text") if not failed else ""
    # The result of a background command is advice for the model.
    told = "" if event.display.get("background") else unwrap_error(event.result.text)
    rows = plain_text(text or told).strip("\n").split("\n")
    if not text:
        rows = without_summary(rows, event.summary)
    if rows == [""] or (event.name in _SILENT and not failed and not verbose):
        return []
    lines = _output_lines(rows)
    if event.name in _SHELLS and is_diff("\n".join(rows)):
        lines = diff_output("\n".join(_cut(row) for row in rows), "quiet")
    if verbose:
        return cap_lines(lines, _ALL_ROWS)
    if event.name in _SHELLS:
        return _tail(lines, _FAILED_ROWS if failed else _SHELL_ROWS)
    return cap_lines(lines, _FAILED_ROWS if failed else _ROWS)


class RunningOutput:
    """The last output of a running call."""

    def __init__(self) -> None:
        self._text = ""
        self._line_breaks = 0
        """Line breaks in all output, including output that is no longer kept."""

    def add(self, event: ev.ToolProgressed) -> None:
        text = event.text.removeprefix("\r")
        replaces = "" if text == event.text else "\r"
        self._text = continue_output(self._text, replaces + plain_text(text))
        if len(self._text) > 2 * _KEPT:
            self._text = self._text[-_KEPT:]
        count = event.data.get("lines")
        self._line_breaks = count if isinstance(count, int) else self._line_breaks + text.count("\n")

    def lines(self, *, verbose: bool) -> list[TextLine]:
        return _output_rows(self._text, self._line_breaks - self._text.count("\n"), verbose)


def _output_rows(text: str, before: int, verbose: bool) -> list[TextLine]:
    """Print the last output of an interrupted call. `before`: number of rows before `text`."""
    rows = text.strip("\n").split("\n") if text.strip("\n") else []
    return _tail(_output_lines(rows), _ALL_ROWS if verbose else _SHELL_ROWS, before)


def _output_lines(rows: Sequence[str]) -> list[TextLine]:
    """Style the output of a program. Indented only if that leaves room for it: programs fill 80 columns."""
    shown = [_cut(row).expandtabs(TAB) for row in rows]
    indent = INDENT if max(map(cell_count, shown), default=0) <= _INDENTED_COLUMNS else ""
    return [line(f"{indent}{row}", "quiet") for row in shown]


def without_summary(rows: list[str], summary: str) -> list[str]:
    """Remove the last row that equals the summary. Results repeat the summary because the model reads only those."""
    repeated = (summary.casefold(), f"(no output, {summary})".casefold())
    last = next((place for place in reversed(range(len(rows))) if rows[place].casefold() in repeated), None)
    if not summary or last is None:
        return rows
    before = "\n".join(rows[:last]).rstrip("\n")
    return [*(before.split("\n") if before else ()), *rows[last + 1 :]] or [""]


def cap_lines(lines: Sequence[TextLine], most: int) -> list[TextLine]:
    """The first lines. If only one more is left, it is shown instead of a note about it."""
    if len(lines) <= most + 1:
        return list(lines)
    return [*lines[:most], line(f"{INDENT}… {counted(len(lines) - most, 'more line')}", "quiet")]


def _tail(lines: Sequence[TextLine], most: int, before: int = 0) -> list[TextLine]:
    """The last `most` lines, because the end of a command's output matters most. `before`: number of rows before
    `lines`."""
    if len(lines) + max(0, before) <= most + 1:
        return list(lines)
    shown = lines[-most:]
    hidden = len(lines) + max(0, before) - len(shown)
    return [line(f"{INDENT}… {counted(hidden, 'more line')} above", "quiet"), *shown]


def diff_lines(text: str) -> list[TextLine]:
    kinds = line_kinds(plain_text(text).strip("\n"))
    return [line(f"{INDENT}{_diff_row(_cut(row), kind)}", _DIFF_LOOKS.get(kind, "text")) for row, kind in kinds]


def diff_output(text: str, around: TextStyle = "text") -> list[TextLine]:
    """Style text that contains unified diffs, without cutting it; `around` is the style of the other text."""
    looks: Mapping[LineKind, TextStyle] = {**_DIFF_LOOKS, "text": around}
    return [line(_diff_row(row, kind), looks.get(kind, "text")) for row, kind in line_kinds(text)]


def _diff_row(row: str, kind: LineKind) -> str:
    """Expand tabs, counting tab stops from the code after its sign."""
    signs = 1 if kind in (" ", "+", "-") else 0
    return row[:signs] + row[signs:].expandtabs(TAB)


def _cut(row: str) -> str:
    return row if len(row) <= _MAX_ROW else f"{row[:_MAX_ROW]}…"


def todo_rows(display: Json) -> Iterator[str]:
    for todo in _entries(display, "todos"):
        yield todo_line(todo, _MAX_ROW)


def _answer_rows(display: Json) -> Iterator[str]:
    for answer in _entries(display, "answers"):
        said = plain_line(_string(answer, "answer"), _MAX_ROW) or "(not answered)"
        yield f"{plain_line(_string(answer, 'question'), _MAX_ROW)} → {said}"


def _search_rows(display: Json) -> Iterator[str]:
    for entry in _entries(display, "results")[:_ROWS]:
        yield f"{plain_line(_string(entry, 'title'), 300)}  {plain_line(_string(entry, 'url'), 500)}".strip()


def _plan_rows(display: Json) -> Iterator[str]:
    yield from plain_text(_string(display, "plan")).strip("\n").split("\n")


_KINDS = {
    "todos": todo_rows,
    "answers": _answer_rows,
    "search": _search_rows,
    "plan": _plan_rows,
}


_SILENT_KINDS = ("image", "mode", "code")
"""Displays of which only the summary is printed."""


def _string(values: Json, key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _entries(values: Json, key: str) -> list[dict[str, Any]]:
    found = values.get(key)
    return [entry for entry in found[:1_000] if isinstance(entry, dict)] if isinstance(found, list) else []
