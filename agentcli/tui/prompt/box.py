"""The prompt box at the bottom of the screen: editor, rules, queued prompts, menu. Maps keys to their actions.

Posts what the user did as messages (`Submitted`, `TakeBack`, `InterruptWanted`) and knows no engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.completion import Candidate, Completions
from agentcli.interactive.drafts import Draft, DraftStore, History, HistoryWalk
from agentcli.tui.keys import key_table, list_interrupting_keys
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.prompt.external_input import ExternalInput
from agentcli.tui.prompt.menu import Assist, Popup, cut_row, show_label

IDLE_HINT = "Ask anything · / commands · @ files · ! shell · ? keys"
_BUSY_HINT = "Enter queues, Ctrl+Enter interrupts and sends"
_WARM_SECONDS = 0.5


class PromptBox(Widget):
    DEFAULT_CSS = """
    PromptBox {
        width: 100%;
        height: auto;
        layout: vertical;
        & > Horizontal { height: auto; max-height: 34vh; }
    }
    """

    @dataclass
    class Submitted(Message):
        """Enter, or with `now` Ctrl+Enter. The box is already empty; `load` restores the draft if it is not accepted.
        An empty draft with `now`: Enter on an empty box while prompts are queued, to send those now."""

        draft: Draft
        now: bool

    class TakeBack(Message):
        """The user wants to edit the queued prompt."""

    class HelpWanted(Message):
        """`?` in an empty box."""

    class EndWanted(Message):
        """A click on the hint that the transcript goes on below."""

    class InterruptWanted(Message):
        """Esc while no menu is open."""

    def __init__(
        self,
        history: History,
        drafts: DraftStore,
        completions: Completions,
        *,
        keymap: Mapping[str, str],
        cwd: Path,
        environ: Mapping[str, str],
    ) -> None:
        super().__init__()
        self.history = history
        self._drafts = drafts
        self._completions = completions
        self._interrupting = list_interrupting_keys(keymap)
        self._editor = PromptEditor(self, key_table(keymap))
        self._popup = Popup()
        self._queued = QueuedRows()
        self._rule = PromptRule()
        self._mark = PromptMark()
        self._walk = HistoryWalk(history)
        self._busy = False
        self._suggested = ""
        self._assist = Assist(self._editor, self._popup, completions, self._room)
        self._external = ExternalInput(self, self._editor, environ, cwd)
        self._editor.hint = IDLE_HINT
        self.on_next_edit: Callable[[], None] | None = None
        """Called once, at the next change of the text."""
        self.on_edit: Callable[[], None] | None = None
        """Called at every change of the text, for a dialog that shows it."""
        self.offer: Callable[[bool], None] | None = None
        """What the next key decides: called once, with whether it is the one that completes (Tab), which accepts."""
        self.open_history: Callable[[], None] = lambda: None
        """Opens the list of earlier prompts. Called synchronously, not by a message: the next keys are meant for it."""
        self.last_typed = 0.0
        """Monotonic time of the last text change: typing must not answer a dialog that has just opened."""

    def compose(self) -> ComposeResult:
        yield self._popup
        yield self._queued
        yield self._rule
        with Horizontal():
            yield self._mark
            yield self._editor
        yield PromptRule(only_on_tall_screens=True)

    def on_mount(self) -> None:
        self.set_timer(_WARM_SECONDS, self._warm)
        self.changed(text=not self._editor.is_empty)

    async def on_unmount(self) -> None:
        await self._assist.aclose()
        await self._drafts.aclose()

    def _warm(self) -> None:
        """Preload the history and the commands in a thread, so that the first Up and the first slash do not wait."""

        def warm() -> None:
            self.history.warm()
            self._completions.commands("")

        self.run_worker(asyncio.to_thread(warm), exit_on_error=False, group="warm")

    @property
    def draft(self) -> Draft:
        return self._editor.draft

    @property
    def is_empty(self) -> bool:
        return self._editor.is_empty

    def refresh_commands(self) -> None:
        """Update an open menu after commands were added or removed."""
        self._assist.refresh_commands()

    def load(self, draft: Draft) -> None:
        """Replace the text by a draft; undo restores the old text."""
        self._editor.buffer.put(draft)
        self._assist.quiet()

    def clear(self) -> None:
        """Empty the box; undo restores the text."""
        self._walk.end()
        if not self._editor.is_empty:
            self._editor.buffer.put(Draft())
        self._assist.quiet()

    def insert(self, text: str) -> None:
        self._editor.buffer.insert(text)

    def insert_draft(self, draft: Draft) -> None:
        self._editor.buffer.insert_draft(draft)

    def focus_editor(self) -> None:
        self._editor.focus()

    def busy(self, busy: bool) -> None:
        self._busy = busy
        self._show_hint()

    def suggest(self, line: str) -> None:
        """Set the line that Enter sends while the box is empty. It is shown as the hint; "" for none."""
        self._suggested = line
        self._show_hint()

    def set_label(self, text: str, style_class: str = "") -> None:
        """Set the label at the right end of the rule. `style_class`: accent, success, warning, error or another."""
        self._rule.set_label(text, style_class)

    def show_below(self, hint: str) -> None:
        """Show at the left end of the rule that the transcript goes on below; "" if it does not."""
        self._rule.set_below(hint)

    def set_queued(self, texts: Sequence[str]) -> None:
        self._queued.set_queued(texts)

    def dismiss(self) -> bool:
        """Close an open menu, the first effect of Esc. Return whether there was one."""
        return self._assist.dismiss()

    def act(self, action: str) -> bool:
        """Run an action of the key table; False passes the key on to the screen. Called synchronously by the editor, so
        that the text is exactly what was typed before this key."""
        self._keep_up()
        if self._settle_offer(action == "complete"):
            return True
        match action:
            case "send":
                self._enter()
            case "send_now":
                self._send(now=True)
            case "newline":
                self._editor.buffer.insert("\n")
            case "previous":
                self._go_up()
            case "next":
                self._go_down()
            case "search_history":
                self.open_history()
            case "complete":
                self._complete()
            case "external_editor":
                self._drafts.flush_in_thread()
                self._external.edit(self.load)
            case "paste_clipboard":
                self._external.paste_clipboard()
            case "close":
                return self.dismiss()
            case "help":
                self.post_message(self.HelpWanted())
        return True

    def interrupts(self, event: events.Key) -> bool:
        """Handle a key that interrupts. As a key event it would bubble up to the app, and a prompt sent right after it
        would arrive first and be interrupted; messages of the box stay in order."""
        if event.key not in self._interrupting or event.is_printable:
            return False
        self._settle_offer()
        self.post_message(self.InterruptWanted())
        return True

    def _settle_offer(self, accepts: bool = False) -> bool:
        """Accept or dismiss what is offered. Return whether something was accepted."""
        offer, self.offer = self.offer, None
        if offer is not None:
            offer(accepts)
        return offer is not None and accepts

    def _enter(self) -> None:
        if (candidate := self._assist.chosen) is not None and (
            candidate.insert.rstrip(" ") != self._assist.typed or candidate.then == "go on"
        ):
            self._take(candidate, may_send=True)
        elif self._backslash_is_before():
            buffer = self._editor.buffer
            buffer.replace(buffer.cursor - 1, buffer.cursor, "\n")
        else:
            self._send(now=False)

    def _backslash_is_before(self) -> bool:
        buffer = self._editor.buffer
        return buffer.text[: buffer.cursor].endswith("\\") and not buffer.selected_text

    def _take(self, candidate: Candidate, *, may_send: bool) -> None:
        self._assist.take(candidate)
        if may_send and candidate.then == "send":
            self._send(now=False)

    def _send(self, *, now: bool) -> None:
        draft = self._editor.draft
        draft = Draft(draft.text.strip("\n").rstrip(), draft.pieces)
        if draft.is_empty:
            if self._queued.count:
                self.post_message(self.Submitted(Draft(), True))
            if self._queued.count or self._busy or not self._suggested:
                return
            draft = Draft(self._suggested)
        self.suggest("")
        self._walk.end()
        self._editor.buffer.reset()
        self._assist.quiet()
        self._drafts.discard(draft)
        self.history.add(draft)
        self.post_message(self.Submitted(draft, now))

    def _go_up(self) -> None:
        editor = self._editor
        if self._popup.count:
            self._popup.move(-1)
        elif editor.cursor_row:
            editor.move_rows(-1)
        elif self._queued.count:
            self.post_message(self.TakeBack())
        elif (older := self._walk.older(editor.draft)) is not None:
            self._recall(older, to_first_row=True)

    def _go_down(self) -> None:
        editor = self._editor
        if self._popup.count:
            self._popup.move(1)
        elif not editor.is_on_last_row:
            editor.move_rows(1)
        elif (newer := self._walk.newer(editor.draft)) is not None:
            self._recall(newer, to_first_row=False)
        else:
            editor.buffer.move(editor.buffer.line_end)

    def _recall(self, draft: Draft, *, to_first_row: bool) -> None:
        self._editor.buffer.put(draft)
        if to_first_row:
            self._editor.move_to_end_of_first_row()
        self._assist.quiet()

    def _complete(self) -> None:
        if (candidate := self._assist.chosen or self._assist.choose(0)) is not None:
            self._take(candidate, may_send=False)
        else:
            self._assist.ask()

    def pasted(self, text: str) -> None:
        """Insert pasted text. Never sends, however many line breaks it contains."""
        self._external.paste(text)

    def changed(self, *, text: bool) -> None:
        """Called by the editor when the text, or only cursor or selection (`text` False), has changed."""
        if not self.is_attached:
            return
        self._keep_up()
        self._settle_offer()
        if text:
            self.last_typed = time.monotonic()
            if (call := self.on_next_edit) is not None:
                self.on_next_edit = None
                call()
            if self.on_edit is not None:
                self.on_edit()
            self._drafts.changed(lambda: self.draft)

    def _keep_up(self) -> None:
        self._assist.update()
        first = self._editor.text[:1]
        self._mark.set_classes({"!": "shell", "/": "command"}.get(first, ""))

    def _show_hint(self) -> None:
        idle = f"{self._suggested}  ↵ Enter" if self._suggested else IDLE_HINT
        self._editor.hint = _BUSY_HINT if self._busy else idle
        self._editor.refresh()

    def _room(self) -> int:
        return max(2, self.region.y)

    def on_resize(self) -> None:
        self._popup.fit(self._room())

    def on_popup_clicked(self, event: Popup.Clicked) -> None:
        event.stop()
        self._keep_up()
        self._editor.focus()
        if (candidate := self._assist.choose(event.index)) is not None:
            self._take(candidate, may_send=False)

    def on_click(self, event: events.Click) -> None:
        self._editor.focus()
        if event.widget is self._rule and self._rule.below:
            self.post_message(self.EndWanted())


MAX_QUEUED = 3
SMALL_SCREEN = 14
"""Screen height in rows below which the box has no rule at its bottom."""


class PromptRule(Widget):
    """A rule with a label at its right end, and a hint at its left end while the transcript goes on below. The CSS
    class sets the label's colour; its text has the meaning."""

    DEFAULT_CSS = """
    PromptRule {
        width: 100%;
        height: auto;
        color: $border;
        & .prompt-rule--label { color: $text-muted; }
        & .prompt-rule--below { color: $foreground; text-style: bold; }
        &.accent .prompt-rule--label, &.plan .prompt-rule--label { color: $accent; text-style: bold; }
        &.success .prompt-rule--label, &.acceptEdits .prompt-rule--label, &.auto .prompt-rule--label {
            color: $success; text-style: bold;
        }
        &.warning .prompt-rule--label, &.dontAsk .prompt-rule--label { color: $warning; text-style: bold; }
        &.error .prompt-rule--label, &.bypassPermissions .prompt-rule--label { color: $error; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"prompt-rule--label", "prompt-rule--below"}

    def __init__(self, *, only_on_tall_screens: bool = False) -> None:
        super().__init__()
        self._only_on_tall_screens = only_on_tall_screens
        self._label = ""
        self.below = ""

    def set_below(self, hint: str) -> None:
        self.below = hint
        self.refresh()

    def set_label(self, text: str, style_class: str) -> None:
        self.set_classes(style_class)
        self._label = show_label(plain_line(text))
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 0 if self._only_on_tall_screens and viewport.height < SMALL_SCREEN else 1

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        below = f" {self.below} " if self.below and width > 12 else ""
        label = f" {self._label} " if self._label else ""
        room = width - len(below)
        if cell_len(label) > room - 5:
            label = set_cell_size(label, room - 7) + "… " if room > 12 else ""
        start, end = "──" if below else "", "──" if label else ""
        line = "─" * (room - len(start) - cell_len(label) - len(end))
        hint = Segment(below, self.get_component_rich_style("prompt-rule--below", partial=True))
        named = Segment(label, self.get_component_rich_style("prompt-rule--label", partial=True))
        return Strip([Segment(start), hint, Segment(line), named, Segment(end)], width).apply_style(base)


class PromptMark(Static):
    """Mark before the text, coloured by the kind of input."""

    DEFAULT_CSS = """
    PromptMark {
        width: auto;
        height: 1;
        color: $accent;
        text-style: bold;
        &.shell { color: $warning; }
        &.command { color: $success; }
    }
    """

    def __init__(self) -> None:
        super().__init__("❯ ", markup=False)


class QueuedRows(Widget):
    DEFAULT_CSS = """
    QueuedRows { width: 100%; height: auto; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: tuple[str, ...] = ()

    def set_queued(self, texts: Sequence[str]) -> None:
        if tuple(texts) != self._texts:
            self._texts = tuple(texts)
            self.refresh(layout=True)

    @property
    def count(self) -> int:
        return len(self._texts)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # A small screen gets a single row with the number of queued prompts.
        return min(self.count, 1 if viewport.height < SMALL_SCREEN else MAX_QUEUED)

    def render_line(self, y: int) -> Strip:
        is_last, more = y + 1 == self.size.height, self.count - y
        text = f"  ⋯ queued: {show_label(plain_line(self._texts[y], 400))}" if more > 0 else ""
        if is_last and more > 1:
            text = f"  … {more} more, Up edits them" if y else f"  … {more} queued, Up edits them"
        return cut_row([Segment(text)], self.size.width, self.rich_style)
