"""/memory: the notes and instruction files of this project: which there are, what is in one; editing is for front ends.

`edit` opens a file in the user's editor where a front end can (`commands/memory_files.py`); elsewhere it prints it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.memory_files import MemoryFile, find_file, list_files
from agentcli.core.bounded_read import read_start
from agentcli.core.errors import AgentError
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line, plain_text

_MOST_SHOWN = 40_000


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    words = arguments.split(maxsplit=1)
    edits = words[:1] == ["edit"]
    name = " ".join(words[1:]) if edits else arguments.strip()
    if not name and not edits:
        yield say(await asyncio.to_thread(_listed, engine))
        return
    try:
        found = await asyncio.to_thread(find_file, engine, name)
        text = await asyncio.to_thread(read_start, found.path, _MOST_SHOWN)
    except AgentError as error:
        yield fail(str(error))
        return
    content = plain_text(text).rstrip("\n") if found.exists else "(This file does not exist yet.)"
    yield say(f"{plain_line(str(found.path), 400)}\n{content}")


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
    size = "1 byte" if file.size == 1 else f"{file.size:,} bytes"
    about = f"  {plain_line(file.about, 200)}" if file.about else ""
    return f"  {plain_line(file.name, 300)}  {size}{about}"
