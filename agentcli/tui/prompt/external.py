"""Edit a prompt in the user's own editor. The app is suspended while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from agentcli.interactive.editor import NotWritten, Written, edited


async def edit_outside(app: App[Any], text: str, environ: Mapping[str, str], cwd: Path) -> Written | NotWritten:
    """Open the text in $VISUAL or $EDITOR and read it back. Never raises for what the editor does."""
    try:
        return await edited(text, environ, cwd, _suspended(app))
    except SuspendNotSupported:
        return NotWritten("This terminal cannot be used by another program.")


@contextmanager
def _suspended(app: App[Any]) -> Iterator[None]:
    # The loop goes on, so that the agent does; only the painting waits, because the terminal is not ours now.
    with app.suspend(), app.batch_update():
        yield
