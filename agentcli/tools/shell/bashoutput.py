"""BashOutput and KillShell: read the new output of a background command, or stop it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agentcli.core.aio import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, visible_text
from agentcli.tools.base import BuiltinTool, Output, ToolContext, ToolRun, failure, is_encodable, object_schema
from agentcli.tools.search.ripgrep import search
from agentcli.tools.shell.background import Shell, Shells
from agentcli.tools.shell.output import SHOWN, HeadAndTail

_MAX_LINES = 30_000


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
        return None if shell_of(input, context) else describe_unknown(input, context.shells)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        shell = shell_of(input, context)
        if shell is None:
            yield failure(describe_unknown(input, context.shells))
            return
        pattern, output = input.get("filter"), shell.command.output
        # Before consuming output: an invalid filter would lose it.
        if pattern and (problem := (await _filter(b"", pattern, context, signal))[1]):
            yield failure(visible_text(f"The filter does not work: {problem}\nNo output was taken; try again."))
            return
        # Read the state first: then later output is still shown, and the end is not reported before its output.
        status, ended = shell.status, shell.ended
        text = (await output.take_unread()).strip("\n")
        if status != "running":
            shell.is_reported = True
        saved, note = output.saved_to, ""
        if pattern and text:
            whole = text.encode("utf-8", errors="replace")
            is_cut = len(text) > SHOWN and saved is not None and saved.is_file()
            found, _problem = await _filter(saved if is_cut and saved else whole, pattern, context, signal)
            lines = "Its whole output so far was filtered" if is_cut else counted(text.count("\n") + 1, "new line")
            note = f"{lines}{'' if found else '; nothing matches'}. " if is_cut or not found else ""
            text = found
        state = "It is still running." if status == "running" else f"It has ended: {ended}."
        count = text.count("\n") + 1 if text else 0
        yield Output(
            f"{text}\n\n{note}{state}" if text else f"{note or 'No new output. '}{state}",
            summary=f"{count:,} new {'matching ' if pattern else ''}lines, {ended or 'running'}",
            display={"kind": "text", "text": text, "background": shell.id},
            data={"ended": "" if status == "running" else shell.id},
            structured={
                "output": text,
                "status": status,
                "exit_code": None if status == "running" else shell.command.code,
                "saved_to": str(saved) if saved else None,
            },
        )


def shell_of(input: Json, context: ToolContext) -> Shell | None:
    return context.shells.get(input["bash_id"]) if context.shells is not None else None


def describe_unknown(input: Json, shells: Shells | None) -> str:
    for shell in shells.earlier if shells is not None else ():
        if shell.id == input["bash_id"]:
            return f"{shell.id} ran before this session was resumed: {shell.ended}. Its output is gone."
    known = [f"{shell.id} ({shell.status})" for shell in shells.known()] if shells is not None else []
    there = f"There are {', '.join(known)}." if known else "There are none."
    return f"There is no background command {plain_line(input['bash_id'], 40)!r} in this session. {there}"


async def _filter(source: bytes | Path, pattern: str, context: ToolContext, signal: AbortSignal) -> tuple[str, str]:
    """The matching lines of a text or a file, and the reason why the filter does not work. With ripgrep, whose
    expressions cannot run forever."""
    with tempfile.TemporaryFile() if isinstance(source, bytes) else source.open("rb") as file:
        if isinstance(source, bytes):
            file.write(source)
            file.flush()
        number = file.fileno()
        arguments = ["--no-filename", "--no-line-number", "--text", f"--regexp={pattern}", "--", f"/dev/fd/{number}"]
        found = await search(arguments, context, signal, most=_MAX_LINES, pass_descriptors=(number,))
    bounded = HeadAndTail()
    bounded.add("\n".join(line.decode("utf-8", errors="replace") for line in found.lines))
    return bounded.text(""), found.error


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
        return None if _agent(input, context) or shell_of(input, context) else describe_unknown(input, context.shells)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        if (agent := _agent(input, context)) and context.agents is not None:
            report = await context.agents.stop(agent)
            yield Output(report, summary=f"stopped {agent}", data={"ended": agent})
            return
        shell = shell_of(input, context)
        if shell is None or context.shells is None:
            yield failure(describe_unknown(input, context.shells))
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
