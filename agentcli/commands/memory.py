"""/memory: list, show, edit or add to the notes and instruction files. Without an editor, `edit` shows the file."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import Choice, FrontEnd, Unavailable
from agentcli.commands.memory_files import (
    MemoryFile,
    add_line,
    files_to_add_to,
    find_file,
    list_files,
    read_file,
    write_file,
)
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.files.bounded_read import read_start
from agentcli.core.text.format import byte_size
from agentcli.core.text.plaintext import plain_line, plain_text

MANUAL = Manual(
    "Notes that the agent keeps about this project across sessions, and AGENTS.md and CLAUDE.md files. Ask it to "
    'remember or forget something, or edit a note yourself. "memory": false in the settings turns it off.',
    (
        ("/memory", "list files with sizes and folders"),
        ("/memory build.md", "show one file"),
        ("/memory edit", "edit the index, or the named file, in your editor"),
        ("/memory add Run make check before a commit", "add a line to an instruction file"),
        ("# Run make check before a commit", "the same"),
    ),
)

_MOST_SHOWN = 40_000


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    words = arguments.split(maxsplit=1)
    if words[:1] == ["add"]:
        return await _added(engine, " ".join("".join(words[1:]).split()), front_end)
    edits = words[:1] == ["edit"]
    name = " ".join(words[1:]) if edits else arguments.strip()
    if not name and not edits:
        return await asyncio.to_thread(_listed, engine)
    file = await asyncio.to_thread(find_file, engine, name)
    with suppress(Unavailable):
        if edits:
            before = await asyncio.to_thread(read_file, file)
            after = await front_end.edit(before)
            return await asyncio.to_thread(write_file, file, before, after)
    text = await asyncio.to_thread(read_start, file.path, _MOST_SHOWN)
    content = plain_text(text).rstrip("\n") if file.exists else "(This file does not exist yet.)"
    return f"{plain_line(str(file.path), 400)}\n{content}"


async def _added(engine: Engine, text: str, front_end: FrontEnd) -> str | None:
    if not text:
        raise UsageError("There is nothing to add. /memory add TEXT, or # TEXT.")
    files = await asyncio.to_thread(files_to_add_to, engine)
    if not files:
        raise AgentError('Instruction files are off ("instructionFiles": false in the settings).')
    choices = [Choice(file.name, plain_line(file.name, 200), file.about) for file in files]
    chosen = await front_end.choose("Add this line to which file?", choices)
    file = next((file for file in files if file.name == chosen), None)
    if file is None:
        front_end.prefill(f"# {text}")
        return "Nothing was added. The text is in the prompt again."
    return await asyncio.to_thread(add_line, file, text)


def _listed(engine: Engine) -> str:
    files = list_files(engine)
    notes = [file for file in files if file.is_note]
    others = [file for file in files if not file.is_note]
    lines = []
    if engine.notes is None:
        lines.append('Memory is off ("memory": false in the settings).')
    else:
        lines.append(f"Memory of this project, in {plain_line(str(engine.notes.folder), 400)}:")
        lines += map(_row, notes) if notes else ["  no notes yet"]
    lines += ["Instruction files:", *(map(_row, others) if others else ["  none"])]
    return "\n".join(lines)


def _row(file: MemoryFile) -> str:
    about = f"  {plain_line(file.about, 200)}" if file.about else ""
    return f"  {plain_line(file.name, 300)}  {byte_size(file.size)}{about}"
