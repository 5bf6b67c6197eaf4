"""The files that `/memory` shows and edits: notes of the project and instruction files. Blocking.

The user edits a copy in the front end's editor. It is written back atomically, and only if the file has not changed
since it was opened.
"""

from __future__ import annotations

from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.config.atomic import replace_file
from agentcli.core.errors import AgentError
from agentcli.core.files.bounded_read import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.memory.notes import INDEX

_LARGEST = 1024 * 1024


@frozen
class MemoryFile:
    name: str
    """Argument for `/memory`: a note's file name, or the path of an instruction file."""
    path: Path
    size: int = 0
    """Bytes."""
    about: str = ""
    is_note: bool = False
    exists: bool = True


def list_files(engine: Engine) -> list[MemoryFile]:
    notes = engine.notes.listed() if engine.notes is not None else []
    found = [
        MemoryFile(note.name, note.path, note.size, "the index" if note.name == INDEX else "", is_note=True)
        for note in notes
    ]
    for file in engine.instruction_files():
        path = Path(file.path)
        found.append(MemoryFile(_short(engine, path), path, _size(path), file.whose))
    return found


def find_file(engine: Engine, name: str) -> MemoryFile:
    """Find a file by its name in `list_files`, its path or its last part; "": the index. Raises `AgentError`."""
    files = list_files(engine)
    wanted = name or INDEX
    for file in files:
        if wanted in (file.name, str(file.path)):
            return file
    last = [file for file in files if file.path.name == wanted]
    if len(last) == 1:
        return last[0]
    if len(last) > 1:
        raise AgentError(f"Several files are called {plain_line(wanted)}. Give the path of one, as /memory lists it.")
    if not name and engine.notes is not None:
        return MemoryFile(INDEX, engine.notes.folder / INDEX, is_note=True, exists=False)
    if engine.notes is None and not name:
        raise AgentError('Memory is off ("memory": false in the settings).')
    raise AgentError(f"There is no note and no instruction file {plain_line(wanted)}. /memory lists them.")


def read_file(file: MemoryFile) -> str:
    """Read the text for an editor; "" for a missing file. Raises `AgentError`."""
    data = read_bounded(file.path, _LARGEST)
    if isinstance(data, Unread):
        if data.reason is Reason.MISSING:
            return ""
        raise AgentError(f"{plain_line(str(file.path), 400)} cannot be edited: it is {data.reason.value}.")
    try:
        return data.decode("utf-8")
    except ValueError:
        raise AgentError(f"{plain_line(str(file.path), 400)} cannot be edited: it is not UTF-8 text.") from None


def write_file(file: MemoryFile, before: str, text: str) -> str:
    """Replace `before` by the user's text; returns a sentence for the user. Raises `AgentError`."""
    where = plain_line(str(file.path), 400)
    text = text if not text or text.endswith("\n") else f"{text}\n"
    if text == before:
        return f"{where} is unchanged."
    if read_file(file) != before:
        raise AgentError(f"{where} was changed meanwhile. Nothing was written; edit it again.")
    try:
        file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file.path, text.encode("utf-8", "replace"), 0o600 if file.is_note else 0o644)
    except OSError as error:
        raise AgentError(f"{where} could not be written: {error.strerror or error}.") from error
    return f"Saved {where}."


def files_to_add_to(engine: Engine) -> list[MemoryFile]:
    """The instruction files to which a line can be added."""
    found = []
    for path, whose in engine.instruction_files_to_add_to():
        is_there = path.exists()
        about = whose if is_there else f"{whose}; new"
        found.append(MemoryFile(_short(engine, path), path, _size(path), about, exists=is_there))
    return found


def add_line(file: MemoryFile, text: str) -> str:
    """Append a line to an instruction file; returns a sentence for the user. Raises `AgentError`."""
    before = read_file(file)
    start = before if not before or before.endswith("\n") else f"{before}\n"
    line = text if text.startswith(("- ", "* ", "#")) else f"- {text}"
    write_file(file, before, f"{start}{line}\n")
    return f"Added to {plain_line(file.name, 300)}: {plain_line(line, 300)}"


def _short(engine: Engine, path: Path) -> str:
    root = engine.working_dirs[0]
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
