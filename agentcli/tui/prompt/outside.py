"""Input to the prompt other than keys: pastes, pictures, the clipboard, and text from the user's own editor.

Slow work runs in threads and workers, so that typing continues meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported
from textual.widget import Widget

from agentcli.interactive.drafts.draft import Draft, ImagePiece, fitted_piece, loaded
from agentcli.interactive.drafts.editor import NotWritten, Written, edited
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.prompt.paste import picture_paths, read_clipboard, without_controls


async def edit_outside(app: App[Any], text: str, environ: Mapping[str, str], cwd: Path) -> Written | NotWritten:
    """Open the text in $VISUAL or $EDITOR and read it back. Never raises for failures of the editor."""
    try:
        return await edited(text, environ, cwd, _suspended(app))
    except SuspendNotSupported:
        return NotWritten("This terminal cannot be used by another program.")


@contextmanager
def _suspended(app: App[Any]) -> Iterator[None]:
    # The event loop, and with it the agent, keeps running; only painting stops, since the terminal is not ours.
    with app.suspend(), app.batch_update():
        yield


class Outside:
    def __init__(self, box: Widget, editor: PromptEditor, environ: Mapping[str, str], cwd: Path) -> None:
        self._box = box
        self._editor = editor
        self._environ = environ
        self._cwd = cwd

    def paste(self, text: str) -> None:
        if paths := picture_paths(text, self._cwd):
            for path in paths:
                self._attach(path.name, ImagePiece(str(path)))
        else:
            self._editor.buffer.insert_pasted(text)

    def _attach(self, name: str, piece: ImagePiece) -> None:
        label = self._editor.buffer.insert_image(name, piece)
        if not piece.data:
            # Read it now: a dropped screenshot may be deleted before the prompt is sent.
            self._box.run_worker(self._read_image(label, name, piece), group="pictures", exit_on_error=False)

    async def _read_image(self, label: str, name: str, piece: ImagePiece) -> None:
        found = await asyncio.to_thread(loaded, piece)
        if isinstance(found, str):
            self._tell(f"{name} cannot be attached: {found}.")
        elif self._editor.buffer.pieces.get(label) == piece:
            self._editor.buffer.pieces[label] = found

    def paste_clipboard(self) -> None:
        self._box.run_worker(self._paste_clipboard(), group="clipboard", exclusive=True, exit_on_error=False)

    async def _paste_clipboard(self) -> None:
        clipping = await asyncio.to_thread(read_clipboard, self._environ, self._cwd)
        if clipping.image:
            piece = await asyncio.to_thread(fitted_piece, clipping.image)
            if isinstance(piece, str):
                self._tell(f"The picture on the clipboard cannot be attached: {piece}.")
            else:
                self._attach("clipboard.png", piece)
        elif text := clipping.text or self._box.app.clipboard:
            self.paste(text)
        else:
            self._tell(clipping.problem)

    def edit(self, use: Callable[[Draft], None]) -> None:
        self._box.run_worker(self._edit(use), group="editor", exit_on_error=False)

    async def _edit(self, use: Callable[[Draft], None]) -> None:
        from agentcli.interactive.drafts.editor import NotWritten

        before = self._editor.draft
        outcome = await edit_outside(self._box.app, before.text, self._environ, self._cwd)
        if isinstance(outcome, NotWritten):
            self._tell(outcome.reason)
        elif outcome.text != before.text:
            use(Draft(without_controls(outcome.text), before.pieces))

    def _tell(self, text: str) -> None:
        self._box.notify(text, severity="warning", markup=False)
