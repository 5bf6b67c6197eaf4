"""Render tool results by the kind of their display (`tools.base.Output.display`).

Displays are also read from session files, so their values are not trusted to have the right types. Each function
returns the rows below a tool's header and how much they omit. Unknown kinds are shown as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from rich.cells import cell_len
from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.terminal_colours import ColourSpan, check_spans
from agentcli.core.text.unified_diff import Hunk, is_diff, parse, parse_files
from agentcli.history.export.code_tokens import language_of
from agentcli.tui.blocks.base import BlockLine, Run, wrap
from agentcli.tui.blocks.rows import MAX_ROWS, Coloured, Rows, beside, characters, fold_rows, head, size, tail
from agentcli.tui.theme.palette import Palette

_TEXT_ROWS = 6
_SHELL_ROWS = 8
_FAILED_ROWS = 16
_MATCH_ROWS = 5
_DIFF_ROWS = 24
_PAGE_ROWS = 5
_PLAN_ROWS = 24
_PLUGIN_ROWS = 12
_MAX_COLOURED = 400
"""Maximum number of highlighted lines: lexing takes about 0.1 ms per line and blocks the screen."""
_MAX_LISTED = 1_000
SHELLS = ("Bash", "BashOutput", "KillShell", "!")
_SILENT = ("Read", "NotebookRead")
"""Tools whose summary suffices: the user knows the file, or can open it here."""


@frozen
class DisplayView:
    width: int
    palette: Palette
    expanded: bool = False
    before: Sequence[Run] = field(default_factory=tuple)
    name: str = ""
    failed: bool = False

    @property
    def room(self) -> int:
        return max(1, self.width - size(self.before))

    def rows(self, most: int) -> int:
        return MAX_ROWS if self.expanded else most

    def wrap(self, runs: Sequence[Run], mark: Run | None = None) -> list[BlockLine]:
        """Wrap behind the gutter, and behind a mark in the first row."""
        if mark is None:
            return wrap(runs, self.width, self.before, self.before)
        blank = (" " * cell_len(mark[0]), mark[1])
        return wrap(runs, self.width, [*self.before, mark], [*self.before, blank])


def shown(display: Json, view: DisplayView) -> Rows:
    kind = display.get("kind")
    show = _KINDS.get(kind) if isinstance(kind, str) else None
    return show(display, view) if show else _render_unknown(display, view)


def _string(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _number(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    return int(value) if isinstance(value, int) and 0 <= value < 10**9 else 0


def _entries(values: Mapping[str, Any], key: str) -> list[Json]:
    found = values.get(key)
    return [entry for entry in found[:_MAX_LISTED] if isinstance(entry, dict)] if isinstance(found, list) else []


def text(value: str, view: DisplayView, total: int = 0, colours: Sequence[ColourSpan] = ()) -> Rows:
    """`total`: line count of the full text if `value` is only its beginning and end; 0 if it is complete."""
    if view.name in _SILENT and not view.expanded and not view.failed:
        return Rows(hidden=int(bool(value.strip())))
    if view.name in SHELLS and is_diff(value):
        return diff_output(value, view, with_headers=view.expanded)
    style = Coloured(colours, view.palette, view.palette.muted) if colours else view.palette.muted
    if view.name in SHELLS and not view.expanded:
        rows = _FAILED_ROWS if view.failed else _SHELL_ROWS
        found = tail(value, view.width, rows, style, view.before)
        shown = value.rstrip("\n").count("\n") + 1 - found.hidden
        return replace(found, hidden=total - shown) if found.hidden and total > shown else found
    value = value if colours else value.strip("\n")
    return head(value, view.width, view.rows(_TEXT_ROWS), style, view.before)


def _render_unknown(display: Json, view: DisplayView) -> Rows:
    if value := _string(display, "text"):
        return text(value, view)
    import json

    rest = {key: value for key, value in display.items() if key != "kind"}
    return text(json.dumps(rest, ensure_ascii=False, indent=2, default=str), view) if rest else Rows()


def _code(display: Json, view: DisplayView) -> Rows:
    from agentcli.tui.blocks.highlight import highlight

    value = _string(display, "text")
    if not view.expanded:
        return Rows(hidden=int(bool(value)))
    lines = value.split("\n")[:MAX_ROWS]
    first = max(1, _number(display, "start"))
    digits = len(str(first + len(lines)))
    language = language_of(_string(display, "path")) or _string(display, "language")
    coloured = highlight("\n".join(lines[:_MAX_COLOURED]), language, view.palette)

    def numbered() -> Iterator[list[BlockLine]]:
        for place, line in enumerate(lines):
            runs = coloured[place] if place < len(coloured) else [(line, view.palette.text)]
            yield view.wrap(runs, (f"{first + place:>{digits}}  ", view.palette.faint))

    return fold_rows(numbered(), value.count("\n") + 1, MAX_ROWS)


def diff_rows(value: str, view: DisplayView, path: str) -> Rows:
    from agentcli.tui.blocks.diff import diff_groups, fits_side_by_side

    hunks = [_shorten(hunk, view) for hunk in parse(value)]
    two_columns = fits_side_by_side(hunks, view.room)
    groups = diff_groups(hunks, view.room, view.palette, path, two_columns=two_columns)
    found = fold_rows(groups, sum(len(hunk.lines) for hunk in hunks), view.rows(_DIFF_ROWS))
    return Rows(beside(found.lines, view.before), found.hidden)


def diff_output(value: str, view: DisplayView, *, with_headers: bool = False) -> Rows:
    """A diff of several files. Headers are shown as file names, and `with_headers` in full too."""
    from agentcli.tui.blocks.diff import file_view, fits_side_by_side, output_groups

    files = [replace(file, hunks=[_shorten(hunk, view) for hunk in file.hunks]) for file in parse_files(value)]
    views = [file_view(file) for file in files]
    hunks = [hunk for file in files for hunk in file.hunks]
    two_columns = fits_side_by_side(hunks, view.room)
    groups = output_groups(views, view.room, view.palette, two_columns=two_columns, with_headers=with_headers)
    found = fold_rows(groups, value.strip("\n").count("\n") + 1, view.rows(_DIFF_ROWS))
    return Rows(beside(found.lines, view.before), found.hidden, opens=True)


def _shorten(hunk: Hunk, view: DisplayView) -> Hunk:
    """Cut off the part of very long lines that could not be shown anyway."""
    most = characters(view.width, view.rows(_DIFF_ROWS))
    if all(len(line.text) <= most for line in hunk.lines):
        return hunk
    return replace(hunk, lines=[replace(line, text=line.text[:most]) for line in hunk.lines])


def _matches(display: Json, view: DisplayView) -> Rows:
    entries = _entries(display, "rows")
    if not entries:
        return Rows()
    return fold_rows(_render_entries(entries, view), len(entries), view.rows(_MATCH_ROWS))


def _render_entries(entries: Sequence[Json], view: DisplayView) -> Iterator[list[BlockLine]]:
    palette, path = view.palette, None
    digits = max(len(str(_number(entry, "line"))) for entry in entries)
    for entry in entries:
        name = _string(entry, "path")
        if "text" not in entry:
            count = f"  {_number(entry, 'count')}" if "count" in entry else ""
            yield view.wrap([(name, palette.muted), (count, palette.faint)])
            continue
        lines = view.wrap([(name, palette.accent)]) if name != path else []
        path = name
        number = f"{_number(entry, 'line') or '':>{digits}}  "
        style = palette.muted if entry.get("match") is False else palette.text
        found = _string(entry, "text")[: characters(view.width, view.rows(_MATCH_ROWS))]
        yield [*lines, *view.wrap([(found, style)], (number, palette.faint))]


def markdown(value: str, view: DisplayView, rows: int) -> Rows:
    """Render Markdown, parsing no more of it than can be shown."""
    from agentcli.tui.blocks.markdown import render_markdown

    value = value.strip("\n")
    most = max(4_000, rows * view.width * 2)
    read = value if len(value) <= most else value[: value.rfind("\n", most // 2, most) + 1 or most]
    lines = beside(render_markdown(read, view.room, view.palette), view.before)
    if len(lines) <= rows + 1 and len(read) == len(value):
        return Rows(lines)
    kept = lines[:rows]
    while len(kept) > 1 and not kept[-1].text.strip():
        kept.pop()
    return Rows(kept, max(1, len(lines) - len(kept)) + value.count("\n", len(read)))


def _page(display: Json, view: DisplayView) -> Rows:
    found = markdown(_string(display, "text"), view, view.rows(_PAGE_ROWS))
    title = _string(display, "title")[:300]
    lines = view.wrap([(title, view.palette.text)]) if title else []
    return Rows([*lines, *found.lines], found.hidden)


def _search(display: Json, view: DisplayView) -> Rows:
    palette = view.palette

    def results() -> Iterator[list[BlockLine]]:
        for entry in entries:
            title, url = _string(entry, "title")[:300], _string(entry, "url")[:500]
            runs = [(title, palette.text), ("  " if title else "", palette.text), (url, palette.faint)]
            yield view.wrap(runs)

    entries = _entries(display, "results")
    found = fold_rows(results(), len(entries), view.rows(_PAGE_ROWS))
    if not view.expanded or not _string(display, "text"):
        return found
    return Rows([*found.lines, *view.wrap([]), *markdown(_string(display, "text"), view, MAX_ROWS).lines])


def _fetch(display: Json, view: DisplayView) -> Rows:
    runs: list[Run] = [(_string(display, "url"), view.palette.text)]
    if display.get("private") is True:
        runs.append(("\n! in your own network", view.palette.warning))
    if prompt := _string(display, "prompt"):
        runs.append((f"\n{prompt}", view.palette.muted))
    return _all(view.wrap(runs), view, _TEXT_ROWS)


def _command(display: Json, view: DisplayView) -> Rows:
    lines = view.wrap([(_string(display, "command"), view.palette.code)], ("$ ", view.palette.faint))
    for key in ("description", "folder"):
        if value := _string(display, key):
            lines += view.wrap([(value, view.palette.muted)])
    return _all(lines, view, _TEXT_ROWS)


def _all(lines: list[BlockLine], view: DisplayView, rows: int) -> Rows:
    return fold_rows(([line] for line in lines), len(lines), view.rows(rows))


def _todos(display: Json, view: DisplayView) -> Rows:
    palette = view.palette
    looks = {
        "completed": ("✓", palette.success, palette.muted),
        "in_progress": ("●", palette.running, palette.strong + palette.text),
    }
    lines: list[BlockLine] = []
    for todo in _entries(display, "todos"):
        active = todo.get("status") == "in_progress"
        sign, mark, style = looks.get(str(todo.get("status")), ("○", palette.faint, palette.text))
        words = (_string(todo, "activeForm") if active else "") or _string(todo, "content")
        lines += view.wrap([(words[:2_000], style)], (f"{sign} ", mark))
    return Rows(lines)


def _questions(display: Json, view: DisplayView) -> Rows:
    palette, lines = view.palette, list[BlockLine]()
    for question in _entries(display, "questions"):
        lines += view.wrap([(_string(question, "question"), palette.text)])
        for number, option in enumerate(_entries(question, "options"), 1):
            about = _string(option, "description")
            runs = [(_string(option, "label"), palette.text), (f"  {about}" if about else "", palette.muted)]
            lines += view.wrap(runs, (f"{number}. ", palette.faint))
    return _all(lines, view, _PLAN_ROWS)


def _answers(display: Json, view: DisplayView) -> Rows:
    palette, lines = view.palette, list[BlockLine]()
    answers = _entries(display, "answers")
    for answer in answers:
        if len(answers) > 1:  # a single question is in the title
            lines += view.wrap([(_string(answer, "question"), palette.muted)])
        said = _string(answer, "answer")
        runs = [(said, palette.text)] if said else [("(not answered)", palette.faint)]
        lines += view.wrap(runs, ("→ ", palette.accent))
    return _all(lines, view, _PLAN_ROWS)


def _lines(display: Json, view: DisplayView) -> Rows:
    """Lines of a plugin's renderer: spans of text with style names."""

    def rendered() -> Iterator[list[BlockLine]]:
        for line in lines:
            runs = [_span(span, view.palette) for span in line] if isinstance(line, list) else []
            yield view.wrap(runs)

    found = display.get("lines")
    lines = found[:_MAX_LISTED] if isinstance(found, list) else []
    return fold_rows(rendered(), len(lines), view.rows(_PLUGIN_ROWS))


def _span(span: object, palette: Palette) -> Run:
    match span:
        case [str(text), str(name)]:
            style = getattr(palette, name, None)
            return (text.replace("\n", " "), style if isinstance(style, Style) else palette.text)
    return ("", palette.text)


_KINDS: Mapping[str, Callable[[Json, DisplayView], Rows]] = {
    "answers": _answers,
    "code": _code,
    "command": _command,
    "diff": lambda display, view: diff_rows(_string(display, "diff"), view, _string(display, "path")),
    "fetch": _fetch,
    "lines": _lines,
    "image": lambda _display, _view: Rows(),  # the summary is enough
    "markdown": _page,
    "matches": _matches,
    "mode": lambda _display, _view: Rows(),
    "plan": lambda display, view: markdown(_string(display, "plan"), view, view.rows(_PLAN_ROWS)),
    "questions": _questions,
    "search": _search,
    "text": lambda display, view: text(
        _string(display, "text"), view, _number(display, "lines"), check_spans(display.get("colours"))
    ),
    "todos": _todos,
}
