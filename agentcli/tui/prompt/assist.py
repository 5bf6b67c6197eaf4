"""Keeps the completion menu in step with the typed text: queries the sources, shows candidates, inserts the chosen one.

File searches run as a task: one at a time, always for the newest query; late results for an older query are dropped.
Commands are available immediately and shown at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.interactive.completion.sources import (
    ArgumentSource,
    CommandSource,
    FileSource,
    FoundFiles,
    ServerArguments,
    no_server_arguments,
)
from agentcli.interactive.completion.targets import (
    Candidate,
    Menu,
    Target,
    argument_menu,
    command_menu,
    file_menu,
    target_at,
)
from agentcli.tui.prompt.widgets import Popup, PopupRow

if TYPE_CHECKING:
    from agentcli.tui.prompt.editor import PromptEditor

_MAX_FILES = 50
_NOWHERE = (-1, 0)
_AGAIN_SECONDS = 0.05
"""Seconds between two updates of the results for one query, while files are still being listed or searched."""


class Assist:
    def __init__(
        self,
        editor: PromptEditor,
        popup: Popup,
        files: FileSource,
        commands: CommandSource,
        choices: ArgumentSource,
        room: Callable[[], int],
        late: ServerArguments = no_server_arguments,
    ) -> None:
        self._editor = editor
        self._popup = popup
        self._files = files
        self._commands = commands
        self._choices = choices
        self._room = room
        self._late = late
        self._asking: asyncio.Task[None] | None = None
        self._menu: Menu | None = None
        self._target: Target | None = None
        self._seen = _NOWHERE
        self._dismissed: tuple[str, int] | None = None
        """Kind and start of the target whose menu was closed with Esc; typing on in it does not open the menu again."""
        self._wanted: Target | None = None
        self._asked_again = asyncio.Event()
        self._searching: asyncio.Task[None] | None = None
        self._take_first = False

    def update(self) -> None:
        now = self._position
        if now == self._seen:
            return
        typed = now[0] != self._seen[0]
        self._seen = now
        line, column, is_first = self._editor.line
        target = target_at(line, column, first_line=is_first) if not self._editor.buffer.selected_text else None
        if target is None or (not typed and self._target is None):
            self._dismissed = None if target is None else self._dismissed
            self._show(None)
            self._target = None
            return
        if self._dismissed == (target.kind, target.start):
            return
        self._dismissed = None
        self._look_for(target)

    @property
    def _position(self) -> tuple[int, int]:
        return self._editor.buffer.edits, self._editor.buffer.cursor

    def refresh_commands(self) -> None:
        """Update an open menu after commands were added or removed."""
        if self._target is not None and self._target.kind == "command":
            self._look_for(self._target)

    def quiet(self) -> None:
        """Text was set by other means than typing: no menu opens until the user types."""
        self._seen = self._position
        self._target = None
        self._show(None)

    def ask(self) -> bool:
        """Tab: open the menu at the cursor, even if it was closed. Return False if nothing can be completed there."""
        self._dismissed = None
        self._seen = _NOWHERE
        self.update()
        self._take_first = self._target is not None and self._menu is None
        return self._target is not None

    def dismiss(self) -> bool:
        if self._menu is None:
            return False
        self._dismissed = (self._menu.target.kind, self._menu.target.start)
        self._target = None
        self._show(None)
        return True

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that Enter would accept. None if the menu is older than the text."""
        menu = self._menu
        if menu is None or menu.target != self._target or not 0 <= self._popup.chosen < len(menu.candidates):
            return None
        return menu.candidates[self._popup.chosen]

    @property
    def typed(self) -> str:
        line, column, _is_first = self._editor.line
        return "" if self._target is None else line[self._target.start : column]

    def choose(self, index: int) -> Candidate | None:
        menu = self._menu
        if menu is None or menu.target != self._target or not 0 <= index < len(menu.candidates):
            return None
        self._popup.chosen = index
        return menu.candidates[index]

    def take(self, candidate: Candidate) -> None:
        target = self._target
        if target is None:
            return
        buffer, insert = self._editor.buffer, candidate.insert
        if buffer.text[buffer.cursor : buffer.cursor + 1] == " ":
            insert = insert.rstrip(" ")
        buffer.replace(buffer.line_start + target.start, buffer.cursor, insert)
        if candidate.then == "go on" or insert.startswith("/"):
            self._seen = _NOWHERE
            self.update()
        else:
            self.quiet()

    def _look_for(self, target: Target) -> None:
        began = self._target is None or self._target.kind != target.kind or self._target.start != target.start
        self._target = target
        if target.kind == "command":
            menu = command_menu(target, self._commands)
            self._show(menu if menu.candidates else None)
        elif target.kind == "argument":
            self._show(argument_menu(target, self._commands, self._choices))
            self._ask_late(target)
        else:
            if began:
                self._show(None)
                self._files.begin()
            self._wanted = target  # replaces an older query
            self._asked_again.set()
            if self._searching is None or self._searching.done():
                self._searching = start_task(self._search(), name="completion")

    async def _search(self) -> None:
        while (target := self._wanted) is not None:
            self._wanted = None
            self._asked_again.clear()
            found = await self._files.files(target.query, _MAX_FILES)
            if target != self._target:
                continue
            wanted = self._wanted
            self._show_files(target, found)
            self._wanted = wanted
            if self._take_first and (candidate := self.choose(0)) is not None:
                self._take_first = False
                self.take(candidate)
            self._take_first &= not found.is_complete
            if not found.is_complete and self._wanted is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._asked_again.wait(), _AGAIN_SECONDS)
                if self._wanted is None and target == self._target:
                    self._wanted = target

    def _show_files(self, target: Target, found: FoundFiles) -> None:
        """Show files, keeping the selected one selected when more are found."""
        menu = file_menu(target, found)
        before = self.chosen if self._menu is not None and self._popup.chosen > 0 else None
        if before is not None and self._menu is not None and self._menu.target == target:
            at = next((at for at, one in enumerate(menu.candidates) if one.insert == before.insert), 0)
            menu = replace(menu, chosen=at)
        if self._menu is None or replace(menu, chosen=self._menu.chosen) != self._menu:
            self._show(menu if menu.candidates or menu.note else None)

    def _ask_late(self, target: Target) -> None:
        """Add slow completions when they arrive; a pending request for an older text is cancelled."""

        async def ask() -> None:
            values = await self._late(target.command, target.query)
            if values and target == self._target:
                self._show(argument_menu(target, self._commands, lambda name: [*self._choices(name), *values]))

        if self._asking is not None:
            self._asking.cancel()
        self._asking = start_task(ask(), name="completion of arguments")

    def _show(self, menu: Menu | None) -> None:
        self._menu = menu
        if menu is None:
            self._wanted = None
            self._popup.close()
            return
        rows = [PopupRow(one.label, one.hint, one.detail, one.positions, one.is_dimmed) for one in menu.candidates]
        self._popup.open(rows, title=menu.title, note=menu.note, chosen=menu.chosen, room=self._room())

    async def aclose(self) -> None:
        await cancel_and_wait([task for task in (self._searching, self._asking) if task is not None])
