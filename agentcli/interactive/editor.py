"""Edit a text in the user's own editor: which program that is, and the file it gets. What becomes of the screen
meanwhile is the front end's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from agentcli.core.errors import AgentError
from agentcli.core.processes.own_programs import find_program, lies_in, run_in_foreground, user_environment
from agentcli.core.text.format import counted

_USUAL = ("nano", "vim", "vi", "emacs")
_MAX_BYTES = 10 * 1024 * 1024


async def edit_in_editor(
    text: str, environ: Mapping[str, str], cwd: Path, terminal_lent: AbstractContextManager[None] | None = None
) -> str:
    """Open a text in the user's editor and read it back. Raises `AgentError`. `terminal_lent`: entered while the editor
    has the terminal."""
    command = editor_command(environ, cwd)
    name = Path(command[0]).name
    folder = Path(tempfile.mkdtemp(prefix="agentcli-"))  # readable by this user only
    try:
        file = folder / "prompt.md"
        file.touch(0o600)
        file.write_text(text, encoding="utf-8", errors="replace")
        with terminal_lent or nullcontext():
            own = user_environment(environ, [cwd])
            code = await run_in_foreground([*command, str(file)], cwd=cwd, environ=own)
        if code:
            raise AgentError(f"{name} ended with code {code}; the text is unchanged.")
        if (size := file.stat().st_size) > _MAX_BYTES:
            raise AgentError(f"The text from {name} is too large for a prompt ({counted(size, 'byte')}).")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    except OSError as error:
        raise AgentError(f"The editor could not be used: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def editor_command(environ: Mapping[str, str], cwd: Path) -> list[str]:
    """The program and arguments of the configured editor, or of a usual one. Raises `AgentError`."""
    for variable in ("VISUAL", "EDITOR"):
        if (wanted := environ.get(variable, "").strip()) == "":
            continue
        try:
            words = shlex.split(wanted)
        except ValueError:
            words = []
        if not words:
            raise AgentError(f"${variable} is not a command: {wanted!r}. Set it to the name of an editor.")
        program = _find_named(words[0], environ, cwd)
        if program is not None and lies_in(program, [cwd]):
            raise AgentError(
                f"${variable} names {program}, which is in the working directory, where the agent can change it. "
                "Choose an editor elsewhere."
            )
        if program is None:
            raise AgentError(f"${variable} names {words[0]!r}, which was not found. Set it to another editor.")
        return [program, *words[1:]]
    for name in _USUAL:
        if (program := find_program(name, environ.get("PATH"), [cwd])) is not None:
            return [program]
    raise AgentError("No editor was found. Set $VISUAL or $EDITOR to the name of one.")


def _find_named(word: str, environ: Mapping[str, str], cwd: Path) -> str | None:
    return os.path.normpath(cwd / word) if "/" in word else find_program(word, environ.get("PATH"), [cwd])
