"""A text in the person's own editor: which program that is, and the file it gets. What becomes of the screen
meanwhile is the front end's.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.own_programs import run_in_foreground, user_environment
from agentcli.core.plural import counted
from agentcli.core.programs import find_program, lies_in

_USUAL = ("nano", "vim", "vi", "emacs")
_LARGEST = 10 * 1024 * 1024


@frozen
class Written:
    text: str


@frozen
class NotWritten:
    reason: str


async def run_editor(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> int:
    """Its exit code. The terminal has to be its own by now. Ends it when cancelled. Raises OSError."""
    return await run_in_foreground(command, cwd=cwd, environ=user_environment(environ, [cwd]))


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
        program = _named(words[0], environ, cwd)
        if program is not None and lies_in(program, [cwd]):
            return NotWritten(
                f"${variable} names {program}, which is in the working directory, where the agent can change it. "
                "Choose an editor elsewhere."
            )
        if program is None:
            return NotWritten(f"${variable} names {words[0]!r}, which was not found. Set it to another editor.")
        return [program, *words[1:]]
    for name in _USUAL:
        if (program := find_program(name, environ.get("PATH"), [cwd])) is not None:
            return [program]
    return NotWritten("No editor was found. Set $VISUAL or $EDITOR to the name of one.")


def _named(word: str, environ: Mapping[str, str], cwd: Path) -> str | None:
    return os.path.normpath(cwd / word) if "/" in word else find_program(word, environ.get("PATH"), [cwd])


def file_in(folder: Path, text: str) -> Path:
    """A file with the text, for this user alone. Raises OSError."""
    file = folder / "prompt.md"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as opened:
        opened.write(text)
    return file


def read_back(file: Path, name: str) -> Written | NotWritten:
    """What the editor of this name has made of it. Raises OSError."""
    size = file.stat().st_size
    if size > _LARGEST:
        return NotWritten(f"The text from {name} is too large for a prompt ({counted(size, 'byte')}).")
    return Written(file.read_text(encoding="utf-8", errors="replace").removesuffix("\n"))
