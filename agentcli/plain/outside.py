"""A text in the person's own editor, which has the terminal for as long as it runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agentcli.core.errors import AgentError
from agentcli.interactive.editor import NotWritten, editor_command, file_in, read_back, run_editor


async def edited_outside(text: str, environ: Mapping[str, str], cwd: Path) -> str:
    """What the person has made of the text. Raises `AgentError` with the reason when nothing came of it."""
    command = editor_command(environ, cwd)
    if isinstance(command, NotWritten):
        raise AgentError(command.reason)
    folder = Path(tempfile.mkdtemp(prefix="agentcli-"))  # for this user alone
    try:
        file = file_in(folder, text)
        name = Path(command[0]).name
        if code := await run_editor([*command, str(file)], environ, cwd):
            raise AgentError(f"{name} ended with code {code}; the text is unchanged.")
        found = read_back(file, name)
        if isinstance(found, NotWritten):
            raise AgentError(found.reason)
        return found.text
    except OSError as error:
        raise AgentError(f"The editor could not be used: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
