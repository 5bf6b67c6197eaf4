"""The prompt box at the bottom of the screen: editor, rules, queued prompts, menu. Maps keys to their actions.

Posts what the user did as messages (`Submitted`, `TakeBack`, `HelpWanted`, `InterruptWanted`) and knows no engine.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.completion.sources import (
    ArgumentSource,
    CommandSource,
    FileSource,
    NoFiles,
    ServerArguments,
    no_choices,
    no_server_arguments,
    registered_commands,
)
from agentcli.interactive.completion.targets import Candidate
from agentcli.interactive.drafts.draft import Draft
from agentcli.interactive.drafts.history import DraftStore, History, HistoryWalk
from agentcli.tui.keys import interrupting_keys, key_table
from agentcli.tui.prompt.assist import Assist
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.prompt.outside import Outside
from agentcli.tui.prompt.widgets import Popup, PopupRow, PromptMark, PromptRule, QueuedRows

IDLE_HINT = "Ask anything · / commands · @ files · ! shell · ? keys"
_BUSY_HINT = "Enter queues, Ctrl+Enter interrupts and sends"
_SEARCH_HINT = "search earlier prompts · Enter accepts · Esc cancels"
_WARM_SECONDS = 0.5


@frozen(kw_only=True)
class PromptParts:
    history: History = field(default_factory=lambda: History(None))
    drafts: DraftStore = field(default_factory=lambda: DraftStore(None))
    files: FileSource = field(default_factory=NoFiles)
    commands: CommandSource = registered_commands
    choices: ArgumentSource = no_choices
    late_choices: ServerArguments = no_server_arguments
    keymap: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = field(default_factory=Path.cwd)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


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
        """Esc while no menu or search is open."""

    def __init__(self, parts: PromptParts) -> None:
        super().__init__()
        self._parts = parts
        self._interrupting = interrupting_keys(parts.keymap)
        self._editor = PromptEditor(self, key_table(self._parts.keymap))
        self._popup = Popup()
        self._queued = QueuedRows()
        self._rule = PromptRule()
        self._mark = PromptMark()
        self._walk = HistoryWalk(self._parts.history)
        self._before_search: Draft | None = None
        self._found: list[Draft] = []
        self._searched = -1
        self._busy = False
        self._suggested = ""
        self._assist = Assist(
            self._editor, self._popup, parts.files, parts.commands, parts.choices, self._room, parts.late_choices
        )
        self._outside = Outside(self, self._editor, parts.environ, parts.cwd)
        self._editor.hint = IDLE_HINT
        self.on_next_edit: Callable[[], None] | None = None
        """Called once, at the next change of the text."""
        self.on_edit: Callable[[], None] | None = None
        """Called at every change of the text, for a dialog that shows it."""
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
        self.watch(self.app, "app_focus", self._app_focus_changed, init=False)
        self.set_timer(_WARM_SECONDS, self._warm)
        self.changed(text=not self._editor.is_empty)

    async def on_unmount(self) -> None:
        await self._assist.aclose()
        await self._parts.drafts.aclose()

    def _warm(self) -> None:
        """Preload the history and the commands in a thread, so that the first Up and the first slash do not wait."""

        def warm() -> None:
            self._parts.history.warm()
            self._parts.commands("")

        self.run_worker(asyncio.to_thread(warm), exit_on_error=False, group="warm")

    def _app_focus_changed(self, focused: bool) -> None:
        if not focused:
            self._parts.drafts.hurry()

    @property
    def draft(self) -> Draft:
        return self._editor.draft if self._before_search is None else self._before_search

    @property
    def is_empty(self) -> bool:
        return self._editor.is_empty if self._before_search is None else self._before_search.is_empty

    def refresh_commands(self) -> None:
        """Update an open menu after commands were added or removed."""
        self._assist.refresh_commands()

    def load(self, draft: Draft) -> None:
        """Replace the text by a draft; undo restores the old text."""
        self._end_search()
        self._editor.buffer.put(draft)
        self._assist.quiet()

    def clear(self) -> None:
        """Empty the box; undo restores the text."""
        self._end_search()
        self._walk.end()
        if not self._editor.is_empty:
            self._editor.buffer.put(Draft())
        self._assist.quiet()

    def insert(self, text: str) -> None:
        self._end_search(restore=True)
        self._editor.buffer.insert(text)

    def insert_draft(self, draft: Draft) -> None:
        self._end_search(restore=True)
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
        """Close an open menu or search, the first effect of Esc. Return whether there was one."""
        return self._end_search(restore=True) or self._assist.dismiss()

    def act(self, action: str) -> bool:
        """Run an action of the key table; False passes the key on to the screen. Called synchronously by the editor, so
        that the text is exactly what was typed before this key."""
        self._keep_up()
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
                self._search_history()
            case "complete":
                self._complete()
            case "external_editor":
                self._end_search(restore=True)
                self._parts.drafts.hurry()
                self._outside.edit(self.load)
            case "paste_clipboard":
                self._outside.paste_clipboard()
            case "close":
                return self.dismiss()
            case "help":
                if self._before_search is not None:
                    return False
                self.post_message(self.HelpWanted())
        return True

    def interrupts(self, event: events.Key) -> bool:
        """Handle a key that interrupts. As a key event it would bubble up to the app, and a prompt sent right after it
        would arrive first and be interrupted; messages of the box stay in order."""
        if event.key not in self._interrupting or event.is_printable:
            return False
        self.post_message(self.InterruptWanted())
        return True

    def _enter(self) -> None:
        if self._before_search is not None:
            self._take_found(self._popup.chosen)
        elif (candidate := self._assist.chosen) is not None and (
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
        if self._before_search is not None:
            # Show it first: a history entry is rarely sent unchanged.
            self._take_found(self._popup.chosen)
            return
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
        self._parts.drafts.discard(draft)
        self._parts.history.add(draft)
        self.post_message(self.Submitted(draft, now))

    def _go_up(self) -> None:
        editor = self._editor
        if self._popup.count or self._before_search is not None:
            self._popup.move(-1)
        elif editor.cursor_row:
            editor.move_rows(-1)
        elif self._queued.count:
            self.post_message(self.TakeBack())
        elif (older := self._walk.older(editor.draft)) is not None:
            self._recall(older, to_first_row=True)

    def _go_down(self) -> None:
        editor = self._editor
        if self._popup.count or self._before_search is not None:
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
        if self._before_search is not None:
            self._take_found(self._popup.chosen)
        elif (candidate := self._assist.chosen or self._assist.choose(0)) is not None:
            self._take(candidate, may_send=False)
        else:
            self._assist.ask()

    def _search_history(self) -> None:
        if self._before_search is not None:
            self._popup.move(1)
            return
        self._before_search = self._editor.draft
        self._searched = -1
        self._editor.buffer.put(Draft())
        self._show_hint()
        self._keep_up()

    def _show_found(self) -> None:
        query = self._editor.text.strip()
        found = self._parts.history.search(query)
        self._found = [draft for draft, _positions in found]
        rows = [PopupRow(draft.text[:400], positions=positions) for draft, positions in found]
        note = "" if rows else "No earlier prompt matches." if query else "The history is empty."
        self._popup.open(rows, title="history", note=note, chosen=0, room=self._room())

    def _take_found(self, index: int) -> None:
        if not 0 <= index < len(self._found):
            self.dismiss()
            return
        draft = self._found[index]
        self._end_search()
        self._editor.buffer.put(draft)
        self._assist.quiet()

    def _end_search(self, *, restore: bool = False) -> bool:
        """End the history search; return whether there was one. `restore`: bring back the draft from before it."""
        before = self._before_search
        if before is None:
            return False
        self._before_search = None
        self._found = []
        self._popup.close()
        if restore:
            self._editor.buffer.put(before)
            self._assist.quiet()
        self._show_hint()
        self._keep_up()
        return True

    def pasted(self, text: str) -> None:
        """Insert pasted text. Never sends, however many line breaks it contains."""
        if self._before_search is None:
            self._outside.paste(text)
        else:
            self._editor.buffer.insert(plain_line(text))

    def changed(self, *, text: bool) -> None:
        """Called by the editor when the text, or only cursor or selection (`text` False), has changed."""
        if not self.is_attached:
            return
        self._keep_up()
        if text:
            self.last_typed = time.monotonic()
            if (call := self.on_next_edit) is not None:
                self.on_next_edit = None
                call()
            if self.on_edit is not None:
                self.on_edit()
            self._parts.drafts.changed(lambda: self.draft)

    def _keep_up(self) -> None:
        if self._before_search is None:
            self._assist.update()
            first = self._editor.text[:1]
            self._mark.set_kind({"!": "shell", "/": "command"}.get(first, "prompt"))
        elif self._editor.buffer.edits != self._searched:
            self._searched = self._editor.buffer.edits
            self._mark.set_kind("search")
            self._show_found()

    def _show_hint(self) -> None:
        searching = self._before_search is not None
        idle = f"{self._suggested}  ↵ Enter" if self._suggested else IDLE_HINT
        self._editor.hint = _SEARCH_HINT if searching else _BUSY_HINT if self._busy else idle
        self._editor.refresh()

    def _room(self) -> int:
        return max(2, self.region.y)

    def on_resize(self) -> None:
        self._popup.fit(self._room())

    def on_popup_clicked(self, event: Popup.Clicked) -> None:
        event.stop()
        self._keep_up()
        self._editor.focus()
        if self._before_search is not None:
            self._take_found(event.index)
        elif (candidate := self._assist.choose(event.index)) is not None:
            self._take(candidate, may_send=False)

    def on_click(self, event: events.Click) -> None:
        self._editor.focus()
        if event.widget is self._rule and self._rule.below:
            self.post_message(self.EndWanted())
