"""Prompts that are made when a submission has begun: from a command or skill file, or by an MCP server.

A file's arguments are filled in and its `!` commands run. Such a command is a Bash call like the model's own: rules,
hooks, questions and the sandbox apply to it. If it may not run, the prompt is not sent. Its output is data: mentions
and arguments in it are not expanded. A file may also grant rights (`allowed-tools`) for the submission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.ports import EmitEvent, Prompt
from agentcli.agent.toolcalls.calls import CallResult
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.context.compact import cut_middle
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal, Merge
from agentcli.core.frozen import frozen
from agentcli.core.messages import EXPANDED, TYPED, Json, Message, Origin, ToolUseBlock, unwrap_error, user_message
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.files import CommandFile, ShellPart, SkillFile, expand, fill_arguments, uses_arguments
from agentcli.tools.base import ToolContext

OUTPUT_TOKENS = 8_000
"""Limit for the output of one `!` command in a prompt; the middle of a longer output is left out."""
_SHOWN_EVENTS = ev.ToolStarted | ev.ToolProgressed | ev.ToolFinished


@frozen
class DefinedPrompt:
    """A prompt that a file defines."""

    definition: CommandFile | SkillFile
    arguments: str = ""
    typed: str = ""
    """Text that the transcript shows."""
    added: str = ""
    """Text after the prompt in which nothing is expanded, e.g. piped input."""

    @property
    def runs_commands(self) -> bool:
        body = self.definition.body if isinstance(self.definition, CommandFile) else ""
        return any(isinstance(part, ShellPart) for part in expand(body, self.arguments))


class PromptExpansion:
    """Results: the `message` to send, or the `problem` that prevents it; `mentions`: the text whose `@path`
    mentions are attached."""

    def __init__(self, prompt: DefinedPrompt, runner: ToolRunner, context: ToolContext, signal: AbortSignal) -> None:
        self._prompt = prompt
        self._runner = runner
        self._context = context
        self._signal = signal
        self.message: Message | None = None
        self.problem = ""
        self.mentions = ""
        self._output = ""

    async def run(self, emit: EmitEvent) -> None:
        prompt, texts = self._prompt, list[str]()
        definition = prompt.definition
        if isinstance(definition, SkillFile):
            texts.append(skill_text(definition, prompt.arguments))
            self.mentions = prompt.arguments
        else:
            for part in expand(definition.body, prompt.arguments):
                if isinstance(part, str):
                    texts.append(part)
                    self.mentions += part
                    continue
                await self._run_command(part, definition, emit)
                if self.problem:
                    return
                texts.append(self._output)
        text = "".join(texts).strip()
        if prompt.added:
            text = f"{text}\n\n{prompt.added}"
        if not text.strip():
            self.problem = f"{definition.origin.label} has no text, so nothing was sent."
            return
        kind = "skill" if isinstance(definition, SkillFile) else "command"
        made_from: Json = {"kind": kind, "name": definition.name, "file": definition.origin.label}
        if prompt.runs_commands:
            made_from["entered"] = True
        meta = {TYPED: prompt.typed, EXPANDED: made_from}
        self.message = user_message(text, self._runner.session.ids.new(), Origin.PROMPT, meta)

    async def _run_command(self, part: ShellPart, definition: CommandFile, emit: EmitEvent) -> None:
        call = ToolUseBlock(self._runner.session.ids.new(), "Bash", {"command": part.command})
        merged: Merge[ev.Event] = Merge()
        results: list[CallResult] = []

        async def run() -> None:
            results.append(await self._runner.run(call, self._context, self._signal, merged.put, lambda: None))

        try:
            merged.start(run(), name="command of a prompt")
            async for event in merged:
                # No reply of the model contains this call: it is shown and recorded like a command of the user.
                await emit(replace(event, agent=ev.USER_AGENT) if isinstance(event, _SHOWN_EVENTS) else event)
        finally:
            await merged.aclose()
        result = results[0]
        text = unwrap_error(result.block.text)
        if result.outcome == "done" or result.output.is_exit_code:
            self._output = cut_middle(text.rstrip("\n"), OUTPUT_TOKENS)
            return
        where = f"{definition.origin.label}:{definition.body_line + part.line - 1}"
        what = f"`{plain_line(part.command, 200)}`"
        if result.outcome == "interrupted":
            self.problem = f"Interrupted while {what} ran. Nothing was sent."
        elif result.denied:
            self.problem = f"Nothing was sent: {what} was not allowed ({where}). {text}"
        else:
            self.problem = f"Nothing was sent: {what} failed ({where}). {text}"


def skill_text(skill: SkillFile, arguments: str) -> str:
    """The text of a skill for the model, with the folder of its further files."""
    head = f"The skill {skill.name} is loaded. Its folder: {skill.folder}\nPaths in it are relative to that folder."
    # Without a label, the arguments at the end would look like part of the instructions.
    given = arguments if not arguments or uses_arguments(skill.body) else f"Arguments: {arguments}"
    return f"{head}\n\n{fill_arguments(skill.body, given)}"


@frozen
class RequestedPrompt:
    request: Callable[[], Awaitable[Prompt]]
    """Fetches the text. Raises `AgentError`: then nothing is sent. An abort cancels it."""
    typed: str
    """Text that the transcript shows."""
    kind: str
    """Kind of source, for the user: `MCP server`."""
    name: str
    """Name of the source."""
    mentions: str = ""
    """Text whose `@path` mentions are attached: what the user typed, never what was received."""


def grant_rights(definition: CommandFile | SkillFile, permissions: LivePermissions) -> list[str]:
    """Allow the tools that the file lists until `permissions.revoke_rules`, if the user trusts it. Returns notices."""
    if notice := rights_notice(definition):
        return [notice]
    label = definition.origin.label
    return [f"{label}: {problem}" for problem in permissions.grant_rules(definition.allowed_tools, label)]


def rights_notice(definition: CommandFile | SkillFile) -> str:
    """Why a file's permissions do not apply; "" if they do, or if it has none."""
    if not definition.allowed_tools or definition.origin.approved:
        return ""
    problem = f"The allowed-tools of {definition.origin.label} do not apply"
    if definition.origin.scope == "user":
        return f"{problem}: it is a link to a file of the project."
    return f"{problem}: it changed since you trusted it. /trust or `agentcli trust` applies them."
