"""Edit a prompt in the user's own editor. The app is suspended while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from agentcli.interactive.drafts.editor import NotWritten, Written, edited


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
