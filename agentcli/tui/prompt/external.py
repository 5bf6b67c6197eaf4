"""Writing a prompt in the person's own editor. The app steps aside for as long as that runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from agentcli.interactive.editor import NotWritten, Written, editor_command, file_in, read_back, run_editor


async def edit_outside(app: App[Any], text: str, environ: Mapping[str, str], cwd: Path) -> Written | NotWritten:
    """Open the text in $VISUAL or $EDITOR and read it back. Never raises for what the editor does."""
    command = editor_command(environ, cwd)
    if isinstance(command, NotWritten):
        return command
    folder = Path(tempfile.mkdtemp(prefix="agentcli-"))  # for this user alone
    try:
        file = file_in(folder, text)
        problem = await _run(app, [*command, str(file)], environ, cwd)
        return problem or read_back(file, Path(command[0]).name)
    except OSError as error:
        return NotWritten(f"The editor could not be used: {error.strerror or error}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(app: App[Any], command: list[str], environ: Mapping[str, str], cwd: Path) -> NotWritten | None:
    name = Path(command[0]).name
    try:
        # The loop goes on, so that the agent does; only the painting waits, because the terminal is not ours now.
        with app.suspend(), app.batch_update():
            code = await run_editor(command, environ, cwd)
    except SuspendNotSupported:
        return NotWritten("This terminal cannot be used by another program.")
    except OSError as error:
        return NotWritten(f"{name} could not be started: {error.strerror or error}.")
    if code:
        return NotWritten(f"{name} ended with code {code}; the text is unchanged.")
    return None
