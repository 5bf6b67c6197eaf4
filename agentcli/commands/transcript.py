"""/copy, /find and /export: answers for the clipboard, a search, the conversation as a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Message, answers
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.history.export.files import (
    CHECK_IT,
    choose_format,
    default_name,
    export_bundle,
    export_document,
    read_context,
    write_new,
)
from agentcli.session.timeline import Timeline, read_timeline

_ARGUMENTS = re.compile(r"(code)?\s*(\d{1,6})?")


async def run_copy(engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    """Copies Markdown, without gutters and line wraps. Over ssh, the terminal sets the clipboard, if it allows that; in
    tmux its buffer is set too.

    /copy         copy the last answer
    /copy 2       copy the second last answer
    /copy code    copy the last code block
    /copy code 2  copy the second last code block
    """
    found = _ARGUMENTS.fullmatch(arguments)
    if found is None:
        raise UsageError("/copy takes a number, code, or code and a number: /copy code 2")
    messages = await engine.all_messages() if engine is not None else ()
    pieces = [text for answer in answers(messages) if (text := plain_text(answer).strip("\n"))]
    what = "answer"
    if found[1]:
        pieces, what = await in_thread(code_blocks, *pieces), "code block"
    place = int(found[2] or 1)
    if not pieces:
        raise UsageError(f"There is no {what} to copy yet.")
    if not 1 <= place <= len(pieces):
        raise UsageError(f"There is no {what} {place}. This session has {counted(len(pieces), what)}.")
    outcome = await front_end.copy(pieces[-place])
    front_end.hint(f"{f'Last {what}' if place == 1 else f'{what.capitalize()} {place} from the end'}: {outcome}")


def code_blocks(*answers: str) -> list[str]:
    """The content of every fenced code block, also in lists and quotes. The last one of an answer may be open."""
    from agentcli.history.export.markdown_parser import parse_blocks

    tokens = [token for answer in answers for token in parse_blocks(answer)]
    return [token.content.removesuffix("\n") for token in tokens if token.type == "fence"]


async def run_find(_engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    """Ctrl+F does the same. Enter finds the next match, Esc closes the search.

    /find       open the search
    /find TODO  search for TODO
    """
    await front_end.page("find", arguments)


_FOUND_BY_SEARCHES = "Searches in the project find it too: move it, or list it in .gitignore."


async def run_export(engine: Engine, arguments: str) -> str:
    """Writes the conversation to a new file in the project: prompts, replies, calls and the changes of each edit. The
    ending of the file decides the format: Markdown (.md, in which long diffs and results are cut), JSON (.json), a page
    for the browser (.html), or a bundle for a bug report (.zip). Without a name the file is called conversation-ID.md.
    Recognised secrets are replaced, and listed. Searches in the project find the file unless .gitignore lists it. A
    non-interactive run prints the text instead.

    /export             write the conversation to a Markdown file
    /export talk.html   write a page for the browser to this file
    /export report.zip  write a bundle for a bug report
    /export --thinking  include the model's thinking
    """
    words = arguments.split()
    name = " ".join(word for word in words if word != "--thinking")
    if name.startswith("-"):
        raise UsageError(f"/export does not know {plain_line(name, 80)}. It takes a file name and --thinking.")
    messages = await engine.all_messages()
    if not any(message.is_prompt for message in messages):
        raise UsageError("There is nothing to export yet.")
    if not engine.session.interactive and name:
        # A program may pass on prompts of others, which must not write files without a permission check.
        raise UsageError("In a non-interactive run /export prints the conversation. Redirect its output to a file.")
    # In a thread: a long conversation takes seconds.
    data, redactions = await in_thread(_export, engine, messages, choose_format(name), "--thinking" in words)
    if not engine.session.interactive:
        return data.decode()
    path = await in_thread(_write, engine, name, data)
    written = f"Wrote {byte_size(len(data))} to {plain_line(str(path), 400)}."
    return f"{written} {_FOUND_BY_SEARCHES}\n{plain_text(redactions)} {CHECK_IT}"


def _export(engine: Engine, messages: Sequence[Message], format: str, thinking: bool) -> tuple[bytes, str]:
    """Blocking. Raises `AgentError`."""
    from agentcli.history.export.document import describe

    path = engine.session.store.path
    context = read_context(engine.root, engine.session.environ or os.environ)
    if format == "bundle":
        if path is None:
            raise AgentError("This session is not saved, so there is no file for a bundle.")
        return export_bundle(path, context)
    timeline = Timeline(engine.session_id, Path(), str(engine.root), engine.title)
    if path is not None:
        with suppress(OSError):
            timeline = read_timeline(path)
    return export_document(describe(messages, timeline, thinking=thinking), format, context)


def _write(engine: Engine, name: str, data: bytes) -> Path:
    """Write a new file and return its path, relative to the project if inside. Blocking. Raises `AgentError`."""
    folder = engine.working_dirs[0]
    names = [name] if name else [default_name(engine.session_id, "md", number) for number in range(1, 100)]
    for each in names:
        try:
            path = Path(os.path.normpath(folder / Path(each).expanduser()))
        except RuntimeError as error:
            problem = f"The home folder of {plain_line(each, 400)} is unknown."
            raise AgentError(f"{problem} Name a file in the project.") from error
        parent = Path(os.path.realpath(path.parent))
        if not any(parent.is_relative_to(os.path.realpath(allowed)) for allowed in engine.working_dirs):
            raise AgentError(f"{plain_line(str(path), 400)} is outside the project. Name a file inside it.")
        try:
            write_new(path, data)
        except FileExistsError:
            continue
        return path.relative_to(folder) if path.is_relative_to(folder) else path
    raise AgentError(f"{plain_line(names[-1], 400)} exists already. Name another file: /export NAME")
