"""Writing a prompt in the person's own editor. The app steps aside for as long as that runs."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from agentcli.core.frozen import frozen
from agentcli.core.programs import find_program

_USUAL = ("nano", "vim", "vi", "emacs")
_LARGEST = 10 * 1024 * 1024


@frozen
class Written:
    text: str


@frozen
class NotWritten:
    reason: str


async def edit_outside(app: App[Any], text: str, environ: Mapping[str, str], cwd: Path) -> Written | NotWritten:
    """Open the text in $VISUAL or $EDITOR and read it back. Never raises for what the editor does."""
    command = editor_command(environ, cwd)
    if isinstance(command, NotWritten):
        return command
    folder = Path(tempfile.mkdtemp(prefix="agentcli-"))  # for this user alone
    try:
        file = _file_in(folder, text)
        problem = await _run(app, [*command, str(file)], environ, cwd)
        return problem or _read(file, Path(command[0]).name)
    except OSError as error:
        return NotWritten(f"The editor could not be used: {error.strerror or error}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def editor_command(environ: Mapping[str, str], cwd: Path) -> list[str] | NotWritten:
    for variable in ("VISUAL", "EDITOR"):
        if (wanted := environ.get(variable, "").strip()) == "":
            continue
        try:
            words = shlex.split(wanted)
        except ValueError:
            words = []
        if not words:
            return NotWritten(f"${variable} is not a command: {wanted!r}. Set it to the name of an editor.")
        program = words[0] if "/" in words[0] else find_program(words[0], environ.get("PATH"), [cwd])
        if program is None:
            return NotWritten(f"There is no program {words[0]!r}, which ${variable} names. Set it to another editor.")
        return [program, *words[1:]]
    for name in _USUAL:
        if (program := find_program(name, environ.get("PATH"), [cwd])) is not None:
            return [program]
    return NotWritten("No editor was found. Set $VISUAL or $EDITOR to the name of one.")


def _file_in(folder: Path, text: str) -> Path:
    file = folder / "prompt.md"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as opened:
        opened.write(text)
    return file


def _read(file: Path, name: str) -> Written | NotWritten:
    size = file.stat().st_size
    if size > _LARGEST:
        return NotWritten(f"What {name} wrote is too large for a prompt ({size:,} bytes).")
    return Written(file.read_text(encoding="utf-8", errors="replace").removesuffix("\n"))


async def _run(app: App[Any], command: list[str], environ: Mapping[str, str], cwd: Path) -> NotWritten | None:
    name = Path(command[0]).name
    try:
        # The loop goes on, so that the agent does; only the painting waits, because the terminal is not ours now.
        with app.suspend(), app.batch_update():
            process = await asyncio.create_subprocess_exec(*command, env=dict(environ), cwd=cwd)
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
    except SuspendNotSupported:
        return NotWritten("This terminal cannot be handed to another program.")
    except OSError as error:
        return NotWritten(f"{name} could not be started: {error.strerror or error}.")
    if code:
        return NotWritten(f"{name} ended with code {code}; the text in the box is as it was.")
    return None
