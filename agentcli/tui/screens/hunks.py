"""Review of a change hunk by hunk.

A hunk is a place where the file's text and the new text differ. Merging takes the new side of accepted hunks and the
old side of all others. `narrow_input` turns the result into input for the tool that makes the change.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.style import Style
from textual import events, work

from agentcli.core.events import PermissionRequested
from agentcli.core.files.access import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.text.format import counted
from agentcli.tools.files.diff import equal_lines_at_start
from agentcli.tui.blocks.base import BlockLine, wrap
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import PAINTED, Dialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, diff_lines, fits_in_columns, paragraph
from agentcli.tui.screens.text import tab_row
from agentcli.tui.theme.palette import Palette

REVIEWABLE = ("Edit", "MultiEdit", "Write")
_GAP = 3
"""Number of equal lines that separate two hunks; changes closer together read as one."""
_CONTEXT = 3
_MAX_COMPARED = 20_000
"""Maximum number of lines on one side that are compared; beyond it the whole changed region is one hunk."""
_MAX_REPORT = 8_000

Opcode = tuple[str, int, int, int, int]


@frozen
class ChangeHunk:
    """Replaces `removed` by `added`; equal lines between two close changes are in both. Lines include line ends."""

    number: int
    old_start: int
    new_start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    """`removed` and `added` interleaved for display: sign and line."""

    @property
    def old_end(self) -> int:
        return self.old_start + len(self.removed)


def texts_of(name: str, input: Json, present: str) -> tuple[str, str]:
    """The file's text for the comparison, and the text that a call of `Edit`, `MultiEdit` or `Write` turns it into.

    Raises ValueError with the reason when an edit does not find its place.
    """
    if name == "Write":
        # Read hides line ends and Write keeps the file's own, so they do not count as a difference.
        return _plain(present), _plain(str(input["content"]))
    text = present
    for edit in input["edits"] if name == "MultiEdit" else [input]:
        text = _apply_edit(text, edit)
    return present, text


def split(old: str, new: str) -> list[ChangeHunk]:
    """The hunks that turn old into new, in order; empty if the texts are equal. No line is in two hunks."""
    left, right = lines_of(old), lines_of(new)
    groups = _group_changes(left, right)
    hunks = []
    for number, changes in enumerate(groups):
        (_, a, _, c, _), (_, _, b, _, d) = changes[0], changes[-1]
        # Lines between two hunks are shown once: if they are few, half of them with each hunk.
        above = a - groups[number - 1][-1][2] if number else 2 * a
        below = groups[number + 1][0][1] - b if number + 1 < len(groups) else 2 * (len(left) - b)
        before = tuple(left[a - min(_CONTEXT, above // 2) : a])
        after = tuple(left[b : b + min(_CONTEXT, below - below // 2)])
        rows = tuple(_rows(left, right, changes))
        hunks.append(ChangeHunk(number, a, c, tuple(left[a:b]), tuple(right[c:d]), before, after, rows))
    return hunks


def has_several(diff: str) -> bool:
    """Whether a change has more than one hunk, judged by the unified diff shown in the question."""
    count, equal = 0, _GAP
    for line in diff.split("\n"):
        if line.startswith("@@"):
            equal = _GAP
        elif line.startswith(("+", "-")):
            count, equal = count + (equal >= _GAP), 0
        elif not line.startswith("\\"):
            equal += 1
    return count > 1


def narrow_input(
    name: str, input: Json, present: str, hunks: Sequence[ChangeHunk], accepted: Collection[int]
) -> Json | None:
    """Return the tool input that makes only the accepted hunks: unchanged if all are accepted, None if none is.

    `hunks` are the result of `split` for the texts of `texts_of`. Raises ValueError if this tool's input cannot express
    the selection.
    """
    if all(hunk.number in accepted for hunk in hunks):
        return input
    kept = [hunk for hunk in hunks if hunk.number in accepted]
    if not kept:
        return None
    if name == "Write":
        return {**input, "content": merge_hunks(_plain(present), hunks, accepted)}
    edit = _make_edit(present, merge_hunks(present, hunks, accepted), kept[0], kept[-1])
    return {**input, **edit} if name == "Edit" else {**input, "edits": [edit]}


def diff_of(hunks: Sequence[ChangeHunk]) -> str:
    lines: list[str] = []
    for hunk in hunks:
        start, new_start = hunk.old_start - len(hunk.before), hunk.new_start - len(hunk.before)
        before, after = [(" ", line) for line in hunk.before], [(" ", line) for line in hunk.after]
        around = len(before) + len(after)
        old_count, new_count = len(hunk.removed) + around, len(hunk.added) + around
        lines.append(f"@@ -{_range(start, old_count)} +{_range(new_start, new_count)} @@")
        for sign, line in (*before, *hunk.rows, *after):
            bare = line.rstrip("\r\n")
            lines.append(sign + bare)
            if bare == line:
                lines.append("\\ No newline at end of file")
    return "\n".join(lines)


def describe_verdict(hunks: Sequence[ChangeHunk], accepted: Collection[int]) -> str:
    rejected = [hunk for hunk in hunks if hunk.number not in accepted]
    if not rejected:
        return ""
    if len(rejected) == len(hunks):
        return (
            "I reviewed this change and rejected "
            + ("it." if len(hunks) == 1 else f"all of its {counted(len(hunks), 'hunk')}.")
            + " Ask what I want instead, or propose another change."
        )
    diff = diff_of(rejected)
    if len(diff) > _MAX_REPORT:
        diff = diff[:_MAX_REPORT].rpartition("\n")[0] + "\n… (the rest is left out)"
    count = len(hunks) - len(rejected)
    return f"The user accepted {count} of {counted(len(hunks), 'hunk')}; only those were applied. Rejected:\n{diff}"


def lines_of(text: str) -> list[str]:
    """Split into lines with line ends, by the same line end as the diff in the question."""
    end = "\n" if "\n" in text else "\r"
    lines = text.split(end)
    return [line + end for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _apply_edit(text: str, edit: Json) -> str:
    from agentcli.tools.files.edit_apply import EditProblem, Replacement, apply

    old, new = str(edit["old_string"]), str(edit["new_string"])
    if not old:
        if text:
            raise ValueError("old_string is empty, but the file is not")
        return new
    applied = apply(text, Replacement(old, new, bool(edit.get("replace_all"))), "the file")
    if isinstance(applied, EditProblem):
        raise ValueError(f"the text to replace is not there as it was ({applied.summary})")
    return applied.text


def _make_edit(present: str, wanted: str, first: ChangeHunk, last: ChangeHunk) -> Json:
    """An edit that replaces the lines from the first to the last hunk, with enough lines around to make it unique."""
    left, right = lines_of(present), lines_of(wanted)
    start, end = first.old_start, last.old_end
    reach = 0
    while True:
        above, below = max(0, start - reach), max(0, len(left) - end - reach)
        old = "".join(left[above : len(left) - below])
        edit: Json = {"old_string": old, "new_string": "".join(right[above : len(right) - below]), "replace_all": False}
        if old and _makes(present, edit, wanted):
            return edit
        if not (above or below):
            raise ValueError("some of its hunks cannot be made without the others")
        reach = 2 * reach + 1


def _makes(present: str, edit: Json, wanted: str) -> bool:
    """Whether an edit produces the wanted text. Line ends are ignored: in a file with several kinds of them the tool
    chooses the one for a new line."""
    try:
        # Text that cannot be encoded cannot be in a tool input either.
        edit["old_string"].encode()
        return _plain(_apply_edit(present, edit)) == _plain(wanted)
    except ValueError:
        return False


def merge_hunks(old: str, hunks: Sequence[ChangeHunk], accepted: Collection[int]) -> str:
    lines = lines_of(old)
    pieces: list[str] = []
    position = 0
    for hunk in hunks:
        if hunk.number in accepted:
            pieces += [*lines[position : hunk.old_start], *hunk.added]
            position = hunk.old_end
    return "".join([*pieces, *lines[position:]])


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")


def _group_changes(left: list[str], right: list[str]) -> list[list[Opcode]]:
    """The changes, close ones grouped. Compared like the diff in the question."""
    start = equal_lines_at_start(left, right)
    end = equal_lines_at_start(left[start:][::-1], right[start:][::-1])
    if max(len(left), len(right)) - start - end > _MAX_COMPARED:
        return [[("replace", start, len(left) - end, start, len(right) - end)]]
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    matcher = difflib.SequenceMatcher(None, left[first : len(left) - last], right[first : len(right) - last])
    groups = []
    for group in matcher.get_grouped_opcodes(_GAP // 2):
        changed = [place for place, (tag, *_lines) in enumerate(group) if tag != "equal"]
        moved = [(tag, a + first, b + first, c + first, d + first) for tag, a, b, c, d in group]
        groups.append(moved[changed[0] : changed[-1] + 1])
    return groups


def _rows(left: list[str], right: list[str], changes: Sequence[Opcode]) -> Iterator[tuple[str, str]]:
    for tag, a, b, c, d in changes:
        if tag == "equal":
            yield from ((" ", line) for line in left[a:b])
        else:
            yield from (("-", line) for line in left[a:b])
            yield from (("+", line) for line in right[c:d])


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


_MAX_FILE_BYTES = 64 * 1024 * 1024


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
        self._places: list[tuple[int, int]] = []

    def on_mount(self) -> None:
        # Textual also calls the `on_mount` of the base class.
        self._load()

    def on_resize(self, event: events.Resize) -> None:
        # After this, the base class lays out the rows for the new size.
        self.call_after_refresh(lambda: self._set(self.accepted, self.current))

    @work(group="hunks")
    async def _load(self) -> None:
        path = _resolve_path(str(self.event.input.get("file_path", "")), self._cwd or Path.cwd())
        try:
            self._present, hunks = await asyncio.to_thread(_compare, self.event, path)
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
        if not self.hunks:
            return []
        tabs = []
        for hunk in self.hunks:
            sign, style = self._sign(hunk)
            here = Style(reverse=True) if hunk.number == self.current else Style.null()
            tabs.append((f"{hunk.number + 1}{sign}", style + here + Style(meta={"hunk": hunk.number})))
        return [tab_row(tabs, self.current, width)]

    def body(self, width: int) -> list[BlockLine]:
        palette = self.palette
        if self.hunks is None:
            return wrap([("Comparing with the file …", palette.muted)], width)
        if not self.hunks:
            return paragraph(self._problem or "Nothing would change.", width, palette.warning)
        lines: list[BlockLine] = []
        places: list[tuple[int, int]] = []
        # The same layout for all hunks, so that they are easy to compare.
        in_columns = fits_in_columns(diff_of(self.hunks), width)
        for hunk in self.hunks:
            start = len(lines)
            lines += self._lay_out_heading(hunk, width)
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
        message = describe_verdict(hunks, self.accepted)
        try:
            input = narrow_input(self.event.name, self.event.input, self._present, hunks, self.accepted)
        except ValueError as error:
            self.notify(
                f"These hunks cannot be applied alone: {error}. Accept all or none.", severity="warning", markup=False
            )
            return
        if input is None:
            self.dismiss(Answer("deny", message=message or describe_verdict(hunks, ())))
        elif input is self.event.input:
            self.dismiss(Answer("allow"))
        else:
            accepted = (len(self.accepted), len(hunks))
            self.dismiss(Answer("allow", message=message, updated_input=input, accepted_hunks=accepted))

    def press_own(self, key: str, character: str | None) -> bool:
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
        if not self.is_open:
            return
        self.accepted, self.current = accepted, current
        self.update()
        if current < len(self._places):
            self.scroller.reveal(*self._places[current])
            if self._note_reading():
                self.settle()

    def _sign(self, hunk: ChangeHunk) -> tuple[str, Style]:
        return ("✓", self.palette.success) if hunk.number in self.accepted else ("✗", self.palette.error)

    def _lay_out_heading(self, hunk: ChangeHunk, width: int) -> list[BlockLine]:
        palette = self.palette
        sign, style = self._sign(hunk)
        here = hunk.number == self.current
        which = f"Hunk {hunk.number + 1} of {len(self.hunks or ())}"
        what = "accepted" if hunk.number in self.accepted else "rejected"
        name = palette.accent + palette.strong if here else palette.muted
        mark = [("❯ " if here else "  ", palette.accent)]
        return wrap([(f"{sign} {what}  ", style), (which, name)], width, mark)

    def _diff(self, hunk: ChangeHunk, width: int, in_columns: bool) -> list[BlockLine]:
        key, painted = (hunk.number, width), self._painted
        if key not in painted:
            path = str(self.event.input.get("file_path", ""))
            painted[key] = diff_lines(diff_of([hunk]), width, self.palette, path, in_columns=in_columns)
        return painted[key]


def _compare(event: PermissionRequested, path: Path) -> tuple[str, list[ChangeHunk]]:
    present = _present_text(path)
    return present, split(*texts_of(event.name, event.input, present))


def _resolve_path(given: str, cwd: Path) -> Path:
    home = given == "~" or given.startswith("~/")
    return Path(os.path.normpath(cwd / (Path(given).expanduser() if home else given)))


def _present_text(path: Path) -> str:
    from agentcli.tools.files.encoding import decode

    data = read_bounded(path, _MAX_FILE_BYTES)
    if isinstance(data, Unread):
        if data.reason is Reason.MISSING:
            return ""
        raise ValueError(f"the file is {data.detail or data.reason}")
    decoded = decode(data)
    if decoded is None:
        raise ValueError("the file is not text")
    return decoded.text
