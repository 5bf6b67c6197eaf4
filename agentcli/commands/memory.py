"""/memory and /init: notes of the project and instruction files.

The user edits a copy in the front end's editor. It is written back atomically, and only if the file has not changed
since it was opened. Without an editor, `/memory edit` shows the file. `/init` lets the model write AGENTS.md; the user
reviews the change before it is made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import Choice, FrontEnd, Unavailable
from agentcli.config.files import replace_file
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.files.access import Reason, Unread, read_bounded, read_start
from agentcli.core.frozen import frozen
from agentcli.core.text.format import byte_size
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.memory.notes import INDEX

MAX_BYTES = 1024 * 1024


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
    notes = engine.session.notes.listed() if engine.session.notes is not None else []
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
    if not name and engine.session.notes is not None:
        return MemoryFile(INDEX, engine.session.notes.folder / INDEX, is_note=True, exists=False)
    if engine.session.notes is None and not name:
        raise AgentError('Memory is off ("memory": false in the settings).')
    raise AgentError(f"There is no note and no instruction file {plain_line(wanted)}. /memory lists them.")


def read_file(file: MemoryFile) -> str:
    """Read the text for an editor; "" for a missing file. Raises `AgentError`."""
    data = read_bounded(file.path, MAX_BYTES)
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


MAX_SHOWN = 40_000


async def run_memory(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Notes that the agent keeps about this project across sessions, and AGENTS.md and CLAUDE.md files. Ask it to
    remember or forget something, or edit a note yourself. "memory": false in the settings turns it off.

    /memory                                     list files with sizes and folders
    /memory build.md                            show one file
    /memory edit                                edit the index, or the named file, in your editor
    /memory add Run make check before a commit  add a line to an instruction file
    # Run make check before a commit            the same
    """
    words = arguments.split(maxsplit=1)
    if words[:1] == ["add"]:
        return await _add(engine, " ".join("".join(words[1:]).split()), front_end)
    edits = words[:1] == ["edit"]
    name = " ".join(words[1:]) if edits else arguments.strip()
    if not name and not edits:
        return await asyncio.to_thread(_list, engine)
    file = await asyncio.to_thread(find_file, engine, name)
    with suppress(Unavailable):
        if edits:
            before = await asyncio.to_thread(read_file, file)
            after = await front_end.edit(before)
            return await asyncio.to_thread(write_file, file, before, after)
    text = await asyncio.to_thread(read_start, file.path, MAX_SHOWN)
    content = plain_text(text).rstrip("\n") if file.exists else "(This file does not exist yet.)"
    return f"{plain_line(str(file.path), 400)}\n{content}"


async def _add(engine: Engine, text: str, front_end: FrontEnd) -> str | None:
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


def _list(engine: Engine) -> str:
    files = list_files(engine)
    notes = [file for file in files if file.is_note]
    others = [file for file in files if not file.is_note]
    lines = []
    if engine.session.notes is None:
        lines.append('Memory is off ("memory": false in the settings).')
    else:
        lines.append(f"Memory of this project, in {plain_line(str(engine.session.notes.folder), 400)}:")
        lines += map(_file_row, notes) if notes else ["  no notes yet"]
    lines += ["Instruction files:", *(map(_file_row, others) if others else ["  none"])]
    return "\n".join(lines)


def _file_row(file: MemoryFile) -> str:
    about = f"  {plain_line(file.about, 200)}" if file.about else ""
    return f"  {plain_line(file.name, 300)}  {byte_size(file.size)}{about}"


FILE = "AGENTS.md"
MAX_NAMES = 80
_BUILD_FILES = (
    *("README.md", "README.rst", "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "Makefile", "justfile", "Taskfile.yml"),
    *("pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", "package.json", "pnpm-workspace.yaml", "tsconfig.json"),
    *("Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts", "CMakeLists.txt", "Gemfile", "mix.exs"),
    *("composer.json", "docker-compose.yml", "Dockerfile", ".pre-commit-config.yaml", ".gitlab-ci.yml"),
    *(".github/workflows", ".circleci/config.yml", "Jenkinsfile", ".editorconfig"),
)
"""Files that show how a project is built and tested."""
_INSTRUCTION_FILES = (
    *("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", ".cursorrules", ".cursor/rules", ".windsurfrules"),
    *(".github/copilot-instructions.md", "GEMINI.md", ".clinerules"),
)
"""Instruction files for agents that a project may already have."""


async def run_init(engine: Engine, arguments: str, typed: str = "", added: str = "") -> AsyncGenerator[Event, None]:
    """The model reads the project and writes AGENTS.md: how to build and test it, and where things are. An existing
    file is improved, not replaced. You approve the change as a diff, also if the mode allows edits; -p does not ask.

    /init                         write or improve AGENTS.md
    /init keep it under 20 lines  with an instruction of your own
    """
    prompt = await asyncio.to_thread(_init_prompt, engine.root, "\n\n".join(filter(None, (arguments.strip(), added))))
    rules = [f"Edit(//{str(engine.root / FILE).lstrip('/')})"] if engine.session.interactive else []
    # An ask rule, so that the user is asked even in modes that allow edits.
    engine.permissions.change("session", "ask", add=rules, source="/init, which always asks first")
    try:
        async with aclosing(engine.submit(prompt, typed or f"/init {arguments}".strip(), mentions="")) as events:
            async for event in events:
                yield event
    finally:
        engine.permissions.change("session", "ask", remove=rules)


def _init_prompt(root: Path, wish: str) -> str:
    facts = [f"In the root: {', '.join(_names(root))}"]
    for title, names in (("Worth reading", _BUILD_FILES), ("Instructions that exist", _INSTRUCTION_FILES)):
        if found := [name for name in names if os.path.lexists(root / name)]:
            facts.append(f"{title}: {', '.join(found)}")
    template = Path(__file__).with_name("init.md").read_text(encoding="utf-8")
    text = template.rstrip().format(file=FILE, root=root, facts="\n".join(facts))
    return f"{text}\n\nThe user adds: {wish}" if wish else text


def _names(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except OSError:
        return ["(not readable)"]
    shown = [plain_line(name, 60) for name in names if name != ".git/"]
    more = [f"and {len(shown) - MAX_NAMES} more"] if len(shown) > MAX_NAMES else []
    return [*shown[:MAX_NAMES], *more] or ["(nothing)"]
