"""BashOutput: what a background command has put out since it was last asked for, and how it stands."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.plaintext import plain_line, visible_text
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import BuiltinTool, failure, is_encodable, object_schema
from agentcli.tools.ripgrep import search
from agentcli.tools.shells import Shell, Shells

_MOST_LINES = 30_000


class BashOutput(BuiltinTool):
    name = "BashOutput"
    subject = "bash_id"
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
        # What has been read is gone: it must not be asked for in a reply that may be thrown away.
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        if not is_encodable(input.get("filter", "")):
            return "The filter contains characters that cannot be searched for."
        return None if shell_of(input, context) else unknown(input, context.shells)

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        shell = shell_of(input, context)
        if shell is None:
            yield failure(unknown(input, context.shells))
            return
        # The state first: what comes between the two is then shown, and the end is not said before its output.
        status, ended = shell.status, shell.ended
        text = (await shell.command.output.take_unread()).strip("\n")
        if status != "running":
            shell.told = True
        if input.get("filter") and text:
            text, problem = await _filtered(text, input["filter"], context, signal)
            if problem:
                yield failure(problem)
                return
        state = "It is still running." if status == "running" else f"It has ended: {ended}."
        summary = f"{text.count(chr(10)) + 1 if text else 0} new lines, {ended or 'running'}"
        saved = shell.command.output.saved_to
        yield Output(
            f"{text}\n\n{state}" if text else f"No new output. {state}",
            summary=summary,
            display={"kind": "text", "text": text, "background": shell.id},
            structured={
                "output": text,
                "status": status,
                "exit_code": None if status == "running" else shell.command.code,
                "saved_to": str(saved) if saved else None,
            },
        )


def shell_of(input: Json, context: ToolContext) -> Shell | None:
    return context.shells.get(input["bash_id"]) if context.shells is not None else None


def unknown(input: Json, shells: Shells | None) -> str:
    known = [f"{shell.id} ({shell.status})" for shell in shells.known()] if shells is not None else []
    there = f"There are {', '.join(known)}." if known else "There are none."
    return f"There is no background command {plain_line(input['bash_id'], 40)!r} in this session. {there}"


async def _filtered(text: str, pattern: str, context: ToolContext, signal: AbortSignal) -> tuple[str, str]:
    """The lines that match, and what was wrong. By ripgrep, whose expressions cannot be made to take for ever."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", errors="replace"))
        file.flush()
        number = file.fileno()
        arguments = ["--no-filename", "--no-line-number", "--text", f"--regexp={pattern}", "--", f"/dev/fd/{number}"]
        found = await search(arguments, context, signal, most=_MOST_LINES, pass_descriptors=(number,))
    if found.error and not found.lines:
        return "", visible_text(f"The filter does not work: {found.error}")
    return "\n".join(line.decode("utf-8", errors="replace") for line in found.lines), ""
