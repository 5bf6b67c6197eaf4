"""Review of a change hunk by hunk. The answer applies the accepted hunks and reports the rejected ones to the model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.strip import Strip

from agentcli.core.events import PermissionRequested
from agentcli.core.files.bounded_read import Reason, Unread, read_bounded
from agentcli.core.permission import Answer
from agentcli.core.text.plural import counted
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.change_hunks import ChangeHunk, diff_of, narrowed, split, texts_of, verdict
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import PAINTED, Dialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, diff_lines, fits_in_columns, paragraph
from agentcli.tui.screens.text import Runs, runs_of
from agentcli.tui.theme.palette import Palette

_LARGEST_FILE = 64 * 1024 * 1024


class HunkReview(Dialog[Answer | None]):
    """Reviews hunks. All are accepted at first, as proposed; Esc returns without effect."""

    guarded = False  # opened by a key press of the user
    marks_choice = False

    def __init__(self, event: PermissionRequested, *, cwd: Path | None = None) -> None:
        super().__init__()
        self.event = event
        self.hunks: list[ChangeHunk] | None = None
        self.accepted: set[int] = set()
        self.current = 0
        self._cwd = cwd
        self._present = ""
        self._characters = 0
        self._problem = ""
        self._painted: dict[tuple[int, int], list[BlockLine]] = {}
        self._in_columns: dict[int, bool] = {}
        """Whether all hunks fit in two columns, by width."""
        self._places: list[tuple[int, int]] = []

    def on_mount(self) -> None:
        # Textual also calls the `on_mount` of the base class.
        self._load()

    def on_resize(self, event: events.Resize) -> None:
        # After this, the base class lays out the rows for the new size.
        self.call_after_refresh(lambda: self._set(self.accepted, self.current))

    @work(group="hunks")
    async def _load(self) -> None:
        path = _resolved_path(str(self.event.input.get("file_path", "")), self._cwd or Path.cwd())
        try:
            self._present, hunks = await asyncio.to_thread(_compared, self.event, path)
        except (OSError, ValueError) as error:
            self._problem = f"The change cannot be shown in hunks: {error}. Accept or deny it as a whole."
            hunks = []
        self.hunks = hunks
        self.accepted = {hunk.number for hunk in hunks}
        self._characters = sum(len(line) for hunk in hunks for line in (*hunk.removed, *hunk.added))
        self.update()

    @property
    def question(self) -> str:
        return "Which of these hunks?"

    def asides(self) -> Sequence[str]:
        path = str(self.event.display.get("path") or self.event.input.get("file_path") or "")
        return (path, path.rpartition("/")[2])

    def keys(self) -> Keys:
        if not self.hunks:
            return [("Enter or Esc", "back")]
        rest = [("d", "reject the rest"), ("a", "accept the rest")]
        return [*rest, ("↑↓", "hunk"), ("Enter", "confirm"), ("y", "accept"), ("n", "reject"), ("Esc", "back")]

    def set_palette(self, palette: Palette) -> None:
        # In this order, because a thread may be laying out the body.
        self.palette, self._painted = palette, {}
        super().set_palette(palette)

    @property
    def gated(self) -> bool:
        return bool(self.hunks)

    def locked_keys(self) -> Keys:
        scroll = [("End", "go to the end"), ("↓", "next hunk"), ("PgDn", "scroll")]
        return [*scroll, ("y", "accept"), ("n", "reject"), ("Esc", "back")]

    @property
    def size_of_body(self) -> int:
        return PAINTED * self._characters

    def extra_head(self, width: int) -> list[Runs]:
        """Overview of all hunks, each with a sign for accepted or rejected; a click toggles one."""
        runs = []
        for hunk in self.hunks or ():
            sign, style = self._sign(hunk)
            here = hunk.number == self.current
            style = (style + Style(reverse=True)) if here else style
            runs += [(f" {hunk.number + 1}{sign} ", style + Style(meta={"hunk": hunk.number})), (" ", Style.null())]
        line = Strip([Segment(" "), *(Segment(text, style) for text, style in runs)])
        # If there are too many, show only those around the current one: the body has all of them.
        first = max(0, sum(len(text) for text, _style in runs[: 2 * self.current + 2]) + 1 - width)
        return [runs_of(line.crop(first, first + width))] if runs else []

    def body(self, width: int) -> list[BlockLine]:
        palette = self.palette
        if self.hunks is None:
            return wrap([("Comparing with the file …", palette.muted)], width)
        if not self.hunks:
            return paragraph(self._problem or "Nothing would change.", width, palette.warning)
        lines: list[BlockLine] = []
        places: list[tuple[int, int]] = []
        # The same layout for all hunks, so that they are easy to compare.
        in_columns = self._fit_in_columns(width)
        for hunk in self.hunks:
            start = len(lines)
            lines += self._heading(hunk, width)
            painted = self._diff(hunk, width, in_columns)
            if hunk.number not in self.accepted:
                painted = [replace(line, strip=line.strip.apply_style(Style(dim=True))) for line in painted]
            lines += [*painted, BLANK]
            places.append((start, len(lines) - 2))
        self._places = places
        return lines[:-1]

    def choices(self) -> Sequence[SheetChoice]:
        count, hunks = len(self.accepted), self.hunks
        if not hunks:
            return [SheetChoice("back", "Back to the question")]
        if not count:
            return [SheetChoice("done", "Deny: nothing is changed")]
        which = f"{count} of" if count < len(hunks) else "all"
        label = f"Apply {which} {counted(len(hunks), 'hunk')}"
        return [SheetChoice("done", label if len(hunks) > 1 else "Apply the hunk", locked=self.locked)]

    def choose(self, name: str) -> None:
        hunks = self.hunks or []
        if name == "back":
            self.dismiss(None)
            return
        message = verdict(hunks, self.accepted)
        try:
            input = narrowed(self.event.name, self.event.input, self._present, hunks, self.accepted)
        except ValueError as error:
            self.notify(
                f"These hunks cannot be applied alone: {error}. Accept all or none.", severity="warning", markup=False
            )
            return
        if input is None:
            self.dismiss(Answer("deny", message=message or verdict(hunks, ())))
        elif input is self.event.input:
            self.dismiss(Answer("allow"))
        else:
            accepted = (len(self.accepted), len(hunks))
            self.dismiss(Answer("allow", message=message, updated_input=input, accepted_hunks=accepted))

    def pressed(self, key: str, character: str | None) -> bool:
        if not self.hunks or self.typing:
            return False
        last = len(self.hunks) - 1
        rest = set(range(self.current, last + 1))
        match character or key:
            case "y":
                self._set(self.accepted | {self.current}, min(last, self.current + 1))
            case "n":
                self._set(self.accepted - {self.current}, min(last, self.current + 1))
            case " ":
                self._set(self.accepted ^ {self.current}, self.current)
            case "a":
                self._set(self.accepted | rest, last)
            case "d":
                self._set(self.accepted - rest, last)
            case "j" | "down" | "right" | "tab":
                self._set(self.accepted, min(last, self.current + 1))
            case "k" | "up" | "left" | "shift+tab":
                self._set(self.accepted, max(0, self.current - 1))
            case _:
                return False
        return True

    def clicked(self, meta: dict[str, object]) -> None:
        number = meta.get("hunk")
        if isinstance(number, int):
            self._set(self.accepted ^ {number}, number)

    def _set(self, accepted: set[int], current: int) -> None:
        self.accepted, self.current = accepted, current
        self.update()
        if current < len(self._places):
            self.scroller.reveal(*self._places[current])
            if self._note_reading():
                self.settle()

    def _sign(self, hunk: ChangeHunk) -> tuple[str, Style]:
        return ("✓", self.palette.success) if hunk.number in self.accepted else ("✗", self.palette.error)

    def _heading(self, hunk: ChangeHunk, width: int) -> list[BlockLine]:
        palette = self.palette
        sign, style = self._sign(hunk)
        here = hunk.number == self.current
        which = f"Hunk {hunk.number + 1} of {len(self.hunks or ())}"
        what = "accepted" if hunk.number in self.accepted else "rejected"
        name = palette.accent + palette.strong if here else palette.muted
        mark = [("❯ " if here else "  ", palette.accent)]
        return wrap([(f"{sign} {what}  ", style), (which, name)], width, mark)

    def _fit_in_columns(self, width: int) -> bool:
        if width not in self._in_columns:
            self._in_columns[width] = fits_in_columns(diff_of(self.hunks or ()), width)
        return self._in_columns[width]

    def _diff(self, hunk: ChangeHunk, width: int, in_columns: bool) -> list[BlockLine]:
        key, painted = (hunk.number, width), self._painted
        if key not in painted:
            path = str(self.event.input.get("file_path", ""))
            painted[key] = diff_lines(diff_of([hunk]), width, self.palette, path, in_columns=in_columns)
        return painted[key]


def _compared(event: PermissionRequested, path: Path) -> tuple[str, list[ChangeHunk]]:
    present = _present_text(path)
    return present, split(*texts_of(event.name, event.input, present))


def _resolved_path(given: str, cwd: Path) -> Path:
    home = given == "~" or given.startswith("~/")
    return Path(os.path.normpath(cwd / (Path(given).expanduser() if home else given)))


def _present_text(path: Path) -> str:
    from agentcli.tools.files.encoding import decode

    data = read_bounded(path, _LARGEST_FILE)
    if isinstance(data, Unread):
        if data.reason is Reason.MISSING:
            return ""
        raise ValueError(f"the file is {data.detail or data.reason}")
    decoded = decode(data)
    if decoded is None:
        raise ValueError("the file is not text")
    return decoded.text
