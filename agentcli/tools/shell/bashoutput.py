"""BashOutput and KillShell: read the new output of a background command, or stop it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, visible_text
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import BuiltinTool, failure, is_encodable, object_schema
from agentcli.tools.search.ripgrep import RipgrepResult, search
from agentcli.tools.shell.background import Shell, Shells
from agentcli.tools.shell.output import SHOWN, HeadAndTail

_MAX_LINES = 30_000
_PIECE = 1 << 20
_MAX_LINE_LENGTH = 16_384
"""More characters than an unfinished line can have before it counts as output."""


class BashOutput(BuiltinTool):
    name = "BashOutput"
    subject = "bash_id"
    again = "Its output until then cannot be read again."
    keeps_state = True
    max_repeats = 20  # Polling gives the same output until there is more.
    input_schema = object_schema(
        ["bash_id"],
        {
            "bash_id": {"type": "string", "description": "As Bash gave it"},
            "filter": {
                "type": "string",
                "description": "A regular expression; other new lines are left out, and are not shown later either",
            },
        },
    )

    def is_safe(self, input: Json) -> bool:
        # Reading consumes the output, so it must not happen in a reply that may be discarded.
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        if not is_encodable(input.get("filter", "")):
            return "The filter contains characters that cannot be searched for."
        if context.agents is not None and context.agents.has_background(input["bash_id"]):
            agent = plain_line(input["bash_id"], 40)
            return f"{agent} is an agent, not a command. Its report comes in a later message; there is nothing to read."
        return None if shell_of(input, context) else unknown(input, context.shells)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        shell = shell_of(input, context)
        if shell is None:
            yield failure(unknown(input, context.shells))
            return
        pattern, output = input.get("filter"), shell.command.output
        # Before consuming output: an invalid filter would lose it.
        if pattern and (problem := await _problem(pattern, context, signal)):
            yield failure(problem)
            return
        # Read the state first: then later output is still shown, and the end is not reported before its output.
        status, ended = shell.status, shell.ended
        unread, characters = output.unread, output.characters
        text = await output.take_unread()
        if status != "running":
            shell.is_reported = True
        saved = output.saved_to
        new = _New(text, saved, max(0, characters - unread), unread)
        shown = await _filtered(new, pattern, context, signal) if pattern and text else _Shown(text.strip("\n"))
        state = "It is still running." if status == "running" else f"It has ended: {ended}."
        lines = shown.text.count("\n") + 1 if shown.text else 0
        yield Output(
            f"{shown.text}\n\n{shown.note}{state}" if shown.text else f"{shown.note or 'No new output. '}{state}",
            summary=f"{lines:,} new {'matching ' if pattern else ''}lines, {ended or 'running'}",
            display={"kind": "text", "text": shown.text, "background": shell.id},
            data={"ended": "" if status == "running" else shell.id},
            structured={
                "output": shown.text,
                "status": status,
                "exit_code": None if status == "running" else shell.command.code,
                "saved_to": str(saved) if saved else None,
            },
        )


def shell_of(input: Json, context: ToolContext) -> Shell | None:
    return context.shells.get(input["bash_id"]) if context.shells is not None else None


def unknown(input: Json, shells: Shells | None) -> str:
    for shell in shells.earlier if shells is not None else ():
        if shell.id == input["bash_id"]:
            return f"{shell.id} ran before this session was resumed: {shell.ended}. Its output is gone."
    known = [f"{shell.id} ({shell.status})" for shell in shells.known()] if shells is not None else []
    there = f"There are {', '.join(known)}." if known else "There are none."
    return f"There is no background command {plain_line(input['bash_id'], 40)!r} in this session. {there}"


@frozen
class _New:
    text: str
    """The text to show, with the middle cut out if it is long."""
    saved: Path | None
    """The file with all of this output and the output before it."""
    read: int
    """Number of characters of the file returned before; fewer if a line was unfinished then."""
    size: int

    @property
    def is_cut(self) -> bool:
        return len(self.text) > SHOWN


@frozen
class _Shown:
    text: str
    note: str = ""


async def _problem(pattern: str, context: ToolContext, signal: AbortSignal) -> str:
    with tempfile.TemporaryFile() as nothing:
        error = (await _search(pattern, nothing, context, signal)).error
    return visible_text(f"The filter does not work: {error}\nNo output was taken; try again.") if error else ""


async def _search(pattern: str, file: IO[bytes], context: ToolContext, signal: AbortSignal) -> RipgrepResult:
    number = file.fileno()
    arguments = ["--no-filename", "--no-line-number", "--text", f"--regexp={pattern}", "--", f"/dev/fd/{number}"]
    return await search(arguments, context, signal, most=_MAX_LINES, pass_descriptors=(number,))


async def _filtered(new: _New, pattern: str, context: ToolContext, signal: AbortSignal) -> _Shown:
    """The new lines that match a filter. Uses ripgrep, whose expressions cannot run forever."""
    with tempfile.TemporaryFile() as file:
        lines, whole = await in_thread(_copy, new, file)
        found = await _search(pattern, file, context, signal)
    where = f"; {'all of it is in' if whole else 'see'} {new.saved}" if new.saved else ""
    note = "" if whole else "Not all of it could be kept; what is missing was not filtered. "
    if found.more or found.timed_out:
        note += f"Not all of the new lines are filtered{where}. "
    if found.error and not found.lines:
        return _Shown(new.text.strip("\n"), visible_text(f"This is not filtered: {found.error}\n"))
    if not found.lines:
        return _Shown("", f"{_none_of(lines)} the filter{where}. {note}")
    bounded = HeadAndTail()
    bounded.add("\n".join(line.decode("utf-8", errors="replace") for line in found.lines))
    return _Shown(bounded.text(where), note)


def _none_of(lines: int) -> str:
    return "1 new line, which does not match" if lines == 1 else f"{lines:,} new lines, none match"


def _copy(new: _New, target: IO[bytes]) -> tuple[int, bool]:
    """Copy all new output to a separate file; return the number of lines, and whether it is complete. Blocking."""
    lines, ending = 0, ""
    if new.is_cut and new.saved is not None:
        # The saved file may have been removed; the part in memory is still available.
        with contextlib.suppress(OSError):
            for piece in _span(new):
                lines += piece.count("\n")
                ending = (ending + piece)[-SHOWN:]
                target.write(piece.encode("utf-8", errors="replace"))
    tail = new.text[-(SHOWN // 2) :]
    whole = not new.is_cut or tail in ending
    if not new.is_cut or not whole:
        # A file that is full or could not be written has only the beginning of the output.
        rest = f"\n{tail}" if ending else new.text.strip("\n")
        lines, ending = lines + rest.count("\n"), rest
        target.write(rest.encode("utf-8", errors="replace"))
    target.flush()
    return lines + (not ending.endswith("\n")), whole


def _span(new: _New) -> Iterator[str]:
    """The position of the new text in the file."""
    assert new.saved is not None
    with new.saved.open(encoding="utf-8", errors="replace", newline="") as file:
        left = new.read
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            left -= len(piece)
        # The start is known except for an unfinished line; the text's beginning gives the exact position.
        head = new.text[: SHOWN // 2]
        first = file.read(len(head) + _MAX_LINE_LENGTH)
        first = first[max(0, first.find(head)) :]
        yield first[: new.size]
        left = new.size - len(first)
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            yield piece
            left -= len(piece)


class KillShell(BuiltinTool):
    name = "KillShell"
    subject = "bash_id"
    keeps_state = True
    input_schema = object_schema(["bash_id"], {"bash_id": {"type": "string", "description": "As Bash gave it"}})

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None if _agent(input, context) or shell_of(input, context) else unknown(input, context.shells)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        if (agent := _agent(input, context)) and context.agents is not None:
            report = await context.agents.stop(agent)
            yield Output(report, summary=f"stopped {agent}", data={"ended": agent})
            return
        shell = shell_of(input, context)
        if shell is None or context.shells is None:
            yield failure(unknown(input, context.shells))
            return
        command = plain_line(shell.command.text)
        shell.is_reported = True
        if shell.status != "running":
            text = f"{shell.id} had ended already ({shell.ended}): {command}"
            summary = f"had ended already: {shell.ended}"
            yield Output(text, summary=summary, structured={"status": shell.status}, data={"ended": shell.id})
            return
        await context.shells.stop(shell)
        unread = shell.command.output.unread
        rest = f" It printed {counted(unread, 'character')} that you have not read." if unread else ""
        yield Output(
            f"{shell.id} was ended: {command}.{rest}",
            summary=f"ended {shell.id}",
            structured={"status": shell.status},
            data={"ended": shell.id},
        )


def _agent(input: Json, context: ToolContext) -> str:
    """The id, if it belongs to a background agent; otherwise empty."""
    agent_id = str(input.get("bash_id", ""))
    return agent_id if context.agents is not None and context.agents.has_background(agent_id) else ""
