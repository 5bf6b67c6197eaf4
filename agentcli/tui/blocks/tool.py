"""Block of a tool call: a header with title, status and duration, and its output below."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.style import Style

from agentcli.core.messages import Json, unwrap_error
from agentcli.core.text.format import duration, format_elapsed
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.core.text.unified_diff import is_diff
from agentcli.tui.blocks.base import Block, BlockLine, Run, wrap
from agentcli.tui.blocks.rows import MAX_ROWS, LiveText, Rows, gutter, head, join_rows, shorten, size
from agentcli.tui.model import Item, ToolItem, ToolStatus
from agentcli.tui.theme.palette import Palette

_LIVE_ROWS = 8
_HEADER_ROWS = 2
_REASON_ROWS = 6
_WORD = re.compile(r"[\w-]+")
_OPEN = ("writing", "queued", "waiting", "running")
_SIGNS: dict[ToolStatus, str] = {
    "writing": "◌",
    "queued": "◌",
    "waiting": "?",
    "running": "●",
    "done": "✓",
    "failed": "✗",
    "denied": "⊘",
    "interrupted": "■",
}
_WORDS: dict[ToolStatus, str] = {
    "waiting": "waits for your answer",
    "failed": "failed",
    "denied": "denied",
    "interrupted": "interrupted",
}
_COMMANDS = ("Bash", "!")
_TEXT_KEYS = ("path", "text", "title", "url", "content", "question", "answer")
_MAX_SEARCHED = 1_000
_MAX_COMMAND = 64_000


class ToolBlock(Block):
    item: ToolItem

    def __init__(self, item: ToolItem) -> None:
        super().__init__(item)
        self._live: LiveText | None = None
        """Output of a call that is running, or that ended without a better display."""
        if item.status in _OPEN and (item.output or item.line_breaks):
            self._live = LiveText(item.output, item.line_breaks)
        self._seconds = 0
        self._body: tuple[object, Rows] | None = None

    def replace(self, item: Item) -> None:
        super().replace(item)
        if self.item.status in _OPEN and self.item.output:
            self._live = LiveText(self.item.output, self.item.line_breaks)
        elif self.item.status not in (*_OPEN, "interrupted", "failed"):
            self._live = None

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        self._begun().add(text, colours)
        self._body = None

    def count_lines(self, line_breaks: int) -> None:
        self._begun().count_lines(line_breaks)
        self._body = None

    def _begun(self) -> LiveText:
        if self._live is None:
            self._live = LiveText()
        return self._live

    def forget(self) -> None:
        self._body = None
        if self._live is not None:
            self._live.forget()

    def tick(self, now: float) -> bool:
        if self.item.status != "running" or not self.item.began:
            return False
        seconds = max(0, int(now - self.item.began))
        changed, self._seconds = seconds != self._seconds, seconds
        return changed

    @property
    def source(self) -> str:
        item = self.item
        text = "\n".join(_texts(item.display)) or item.output or (self._live.text if self._live else "")
        parts = (_headline(item), item.title, item.summary, item.learned, _long_command(item), text, item.changes)
        return "\n".join(part for part in parts if part)

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        header, cut = self._header(width, palette)
        before = gutter(width, palette.error if self.item.status == "failed" else palette.faint)
        if _headline(self.item):
            command, is_whole = self._describe_command(width, palette, before)
            header, cut = [*header, *command], cut or not is_whole
        elif command_text := _long_command(self.item):
            cut = True
            header += self._command(command_text, width, palette, before)
        if learned := self.item.learned:
            header += join_rows(head(learned, width, _REASON_ROWS, palette.muted, before), width, palette, before)
        look = (width, palette, self.expanded)
        if self._body is None or self._body[0] != look:
            self._body = (look, self._rows(width, palette, before))
        rows = self._body[1]
        self.foldable = self.expanded or cut or bool(rows.hidden) or rows.opens or bool(self.item.changes)
        body = join_rows(rows, width, palette, before) if rows.lines else []
        if self.expanded and (changes := self.item.changes):
            body += self._changes(changes, width, palette, before)
        return [*header, *body]

    def _changes(self, diff: str, width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
        from agentcli.tui.blocks import displays

        view = displays.DisplayView(width, palette, self.expanded, before, self.item.name)
        return join_rows(displays.diff_output(diff, view), width, palette, before)

    def _header(self, width: int, palette: Palette) -> tuple[list[BlockLine], bool]:
        item = self.item
        sign = "&" if _runs_in_background(item) else _SIGNS.get(item.status, "·")
        mark = [(f"{sign} ", _mark_style(item, palette))] if width >= 8 else []
        name, rest = _split(item)
        after = "".join(f" · {part}" for part in self._facts())
        room = width - 2
        if self.expanded or room < 12:
            return wrap([(name, palette.tool), (rest, palette.text), (after, palette.muted)], width, mark), False
        # Slightly less than the rows hold, because wrapping at words leaves gaps.
        most = max(room // 2, room * _HEADER_ROWS - cell_len(name) - cell_len(after) - room // 6)
        title = shorten(rest, most)
        lines = wrap([(name, palette.tool), (title, palette.text), (after, palette.muted)], width, mark)
        return lines, title != rest

    def _facts(self) -> list[str]:
        item = self.item
        in_body = item.status in ("failed", "denied") and _result_text(item).startswith(item.summary)
        # A finished foreground command without an error has exit code 0, so its summary is redundant.
        exited = item.name in _COMMANDS and item.status == "done" and not item.background
        is_shown = not (in_body or exited or item.status == "interrupted" or item.title.endswith(item.summary))
        facts = [text] if (text := item.summary if is_shown else _WORDS.get(item.status, "")) else []
        facts += [item.changed] if item.changed else []
        if item.status == "running" and self._seconds:
            facts.append(format_elapsed(self._seconds))
        elif item.status not in _OPEN and item.duration_ms >= 1_000:
            facts.append(duration(item.duration_ms / 1_000))
        return facts

    def _command(self, command: str, width: int, palette: Palette, before: Sequence[Run]) -> list[BlockLine]:
        rows = head(command, width, MAX_ROWS, palette.code, before) if self.expanded else Rows()
        return join_rows(rows, width, palette, before)

    def _describe_command(self, width: int, palette: Palette, before: Sequence[Run]) -> tuple[list[BlockLine], bool]:
        """The command below its description, in one row unless expanded, and whether that is all of it."""
        command = plain_text(str(self.item.input.get("command", ""))).strip("\n")
        first: list[Run] = [*before, ("$ ", palette.faint)]
        if self.expanded:
            rest: list[Run] = [*before, ("  ", palette.faint)]
            return wrap([(command[:_MAX_COMMAND], palette.code)], width, first, rest)[:MAX_ROWS], True
        line = command.partition("\n")[0]
        shown = shorten(line, width - size(first))
        shown = f"{shown} …" if shown == line != command else shown
        return wrap([(shown, palette.code)], width, first)[:1], shown == command

    def _rows(self, width: int, palette: Palette, before: Sequence[Run]) -> Rows:
        item, display = self.item, self.item.display  # read once: it may be packed
        if item.status in _OPEN or (self._live and self._live.text and not display and item.status != "failed"):
            return self._live_rows(width, palette, before)
        # If the call was denied, the header says by whom and the result is advice for the model: only a detail.
        text = "" if item.denied_by and not self.expanded else _result_text(item)
        if not display and not text:
            return self._live_rows(width, palette, before)
        from agentcli.tui.blocks import displays

        failed = item.status in ("failed", "denied")
        view = displays.DisplayView(width, palette, self.expanded, before, item.name, failed)
        found = displays.shown(display, view) if display else Rows()
        if (found.lines or found.hidden) and item.status == "denied" and text:
            why = head(text, width, _REASON_ROWS, palette.text, before)
            return Rows([*found.lines, *why.lines], found.hidden + why.hidden)
        if found.lines or found.hidden:
            return found
        if failed and not (item.name in displays.SHELLS and is_diff(text)):
            return head(text, width, MAX_ROWS if self.expanded else _REASON_ROWS, palette.text, before)
        return Rows() if display else displays.text(text, view)

    def _live_rows(self, width: int, palette: Palette, before: Sequence[Run]) -> Rows:
        if self._live is None:
            return Rows()
        if self.expanded:
            return self._live.all(width, palette, palette.muted, before)
        return self._live.tail(width, _LIVE_ROWS, palette, palette.muted, before)


def _texts(display: Json) -> Iterator[str]:
    whole = next((value for key in ("diff", "text", "plan") if isinstance(value := display.get(key), str)), "")
    if whole:
        yield whole
        if display.get("kind") == "matches":
            return
    for found in display.values():
        for entry in found[:_MAX_SEARCHED] if isinstance(found, list) else ():
            if isinstance(entry, dict):
                yield from (value for key, value in entry.items() if isinstance(value, str) and key in _TEXT_KEYS)


def _result_text(item: ToolItem) -> str:
    """Result text for the user: without the wrapping for the model, and "" if the header already contains it."""
    text = unwrap_error(item.output).strip()
    return "" if item.status == "interrupted" or text == item.summary else text


def _headline(item: ToolItem) -> str:
    """The description that the model gave a command; "" if there is none."""
    description = item.input.get("description") if item.name == "Bash" else None
    return plain_line(description) if isinstance(description, str) else ""


def _long_command(item: ToolItem) -> str:
    command = item.input.get("command") if item.name == "Bash" else None
    if not isinstance(command, str) or command.strip() in item.title:
        return ""
    return plain_text(command)


def _runs_in_background(item: ToolItem) -> bool:
    return item.background and item.status == "done" and item.name == "Bash"


def _mark_style(item: ToolItem, palette: Palette) -> Style:
    if item.status == "done":
        return palette.running if _runs_in_background(item) else palette.success
    styles: dict[ToolStatus, Style] = {"running": palette.running, "failed": palette.error, "denied": palette.error}
    styles |= {"waiting": palette.warning, "interrupted": palette.warning}
    return styles.get(item.status, palette.faint)


def _split(item: ToolItem) -> tuple[str, str]:
    title = item.title or item.name
    if headline := _headline(item):
        where = " (in the background)" if item.input.get("run_in_background") else ""
        return item.name, f" {headline}{where}"
    if item.name and title.startswith(item.name):
        return item.name, title[len(item.name) :]
    first = _WORD.match(title)
    return (title[: first.end()], title[first.end() :]) if first else ("", title)
