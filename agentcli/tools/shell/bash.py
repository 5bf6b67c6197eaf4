"""Bash: run a shell command to its end, until an abort, or in the background.

The next command starts in the directory where this one ended, if that is inside the working directories; no other tool
uses it. Processes that a command leaves running are stopped when it ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path

from agentcli.core.aio import AbortReason, AbortSignal, in_thread
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.processes.child import GRACE, SHUTDOWN_GRACE, exit_text
from agentcli.core.text.plaintext import has_control_characters, plain_line, show_command
from agentcli.core.text.terminal_colours import ColourSpan, moved
from agentcli.tools.base import (
    BuiltinTool,
    Output,
    Progress,
    ToolContext,
    ToolRun,
    failure,
    is_encodable,
    object_schema,
    os_failure,
)
from agentcli.tools.shell.background import MAX_RUNNING, Shell, Shells
from agentcli.tools.shell.output import CollectedOutput
from agentcli.tools.shell.running_command import CommandEnding, ShellCommand, describe_refused_hosts, private_hosts_note

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
_PROGRESS_SECONDS = 0.1
"""Time between two progress events."""
_SHORT_OUTPUT = 4_000
"""Characters of output up to which the result of a successful command is made on the event loop."""


class Bash(BuiltinTool):
    name = "Bash"
    subject = "command"
    again = "Run it again if you need its output and that does no harm."
    explores = True
    input_schema = object_schema(
        ["command"],
        {
            "command": {"type": "string", "minLength": 1, "description": "The command"},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "description": f"Milliseconds, default {DEFAULT_TIMEOUT_MS}, at most {MAX_TIMEOUT_MS}",
            },
            "description": {"type": "string", "description": "What it does, in a few words, for the user"},
            "run_in_background": {"type": "boolean", "description": "Return at once; see BashOutput and KillShell"},
        },
    )

    def __init__(self, read_only: Callable[[str], bool] = lambda _command: False) -> None:
        """`read_only`: whether a command is proved to be read-only. Any other command runs alone."""
        self._read_only = read_only

    def title(self, input: Json) -> str:
        where = " (in the background)" if input.get("run_in_background") else ""
        return plain_line(f"Bash {input.get('command', '')}{where}")

    def is_safe(self, input: Json) -> bool:
        # A safe call may be discarded with its reply, but a background command would stay.
        return not input.get("run_in_background") and self._read_only(input["command"])

    def observed(self, input: Json, context: ToolContext) -> Json:
        return {**input, "cwd": str(context.cwd)}

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("execute", input["command"]),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if not input["command"].strip():
            return "The command is empty."
        if has_control_characters(input["command"]) or not is_encodable(input["command"]):
            return "The command contains control characters. Write it without them, for example with printf."
        return None

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        """For a permission question: the complete command, never shortened."""
        shown = {"kind": "command", "command": show_command(input["command"]), "folder": str(context.cwd)}
        return {**shown, "description": plain_line(str(input.get("description") or ""))}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        if signal.aborted:
            yield failure("The command was not started: the work was stopped before.", summary="stopped")
            return
        if not context.cwd.is_dir():
            gone = f"{_directory_name(context)}, {context.cwd}, is gone, so the command was not run."
            yield Output(
                f"{gone} It is {context.root} now; run the command again from there.",
                is_error=True,
                summary="the working directory is gone",
                new_cwd=context.root,
            )
            return
        shells, wants_background = context.shells, bool(input.get("run_in_background"))
        if wants_background and (shells is None or shells.full):
            yield failure(_refuse_background(shells), summary="no background")
            return
        output = CollectedOutput(context.results_dir, f"bash-{os.urandom(6).hex()}.txt")
        try:
            command = await ShellCommand.start(input["command"], context, output)
        except OSError as error:
            yield os_failure(error, "The command could not be started")
            return
        if wants_background and shells is not None:
            shell = shells.add(command)
            started = _report_background(shell, "", f"The command runs in the background as {shell.id}.")
            # The title already has "in the background".
            yield replace(started, summary=f"as {shell.id}")
            return
        seconds = min(input.get("timeout") or DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS) / 1000
        async with aclosing(_run_foreground(command, context, signal, seconds)) as items:
            async for item in items:
                yield item


async def _run_foreground(command: ShellCommand, context: ToolContext, signal: AbortSignal, seconds: float) -> ToolRun:
    """Watch a command until it ends, is stopped, or moves to the background."""
    loop = asyncio.get_running_loop()
    shells, deadline = context.shells, loop.time() + seconds
    # Terminate in the aborting call itself, not one iteration of the event loop later.
    unhook = signal.on_abort(lambda _reason: command.terminate())
    in_background = False
    try:
        with shells.foreground(context.call_id) if shells is not None else nullcontext(asyncio.Event()) as send_away:
            while not (signal.aborted or send_away.is_set() or (left := deadline - loop.time()) <= 0):
                if await command.wait(min(_PROGRESS_SECONDS, left)):
                    break
                if text := command.output.fresh():
                    data = {"bytes": command.output.bytes, "lines": command.output.line_breaks}
                    yield Progress(text, {**data, **_colours(command.output.fresh_colours)})
        ending = CommandEnding.EXITED if command.done else CommandEnding.TIMED_OUT
        if signal.aborted:
            ending = CommandEnding.ABORTED
        if ending is CommandEnding.TIMED_OUT and shells is not None and not shells.full:
            unhook()
            in_background = True
            why = "was sent to the background" if send_away.is_set() else f"is still running after {seconds:g} s"
            shell = shells.add(command)
            text = await command.output.take_unread()
            sentence = f"The command {why}; it continues in the background as {shell.id}."
            yield _report_background(shell, text, sentence)
            return
        await command.stop(SHUTDOWN_GRACE if signal.reason is AbortReason.SHUTDOWN else GRACE)
        await command.wait(0)
        reason = signal.reason or AbortReason.USER_CANCEL
        if ending is CommandEnding.EXITED and command.code == 0 and command.output.characters <= _SHORT_OUTPUT:
            # Not in a thread: only explaining a failure or searching a long text takes milliseconds.
            yield _result(ending, command, context, seconds, reason)
        else:
            yield await in_thread(_result, ending, command, context, seconds, reason)
    finally:
        unhook()
        if not in_background:
            await command.aclose()


def _refuse_background(shells: Shells | None) -> str:
    if shells is None:
        return "Commands cannot run in the background here. Run it without run_in_background."
    running = ", ".join(shell.id for shell in shells.known() if shell.status == "running")
    return f"{MAX_RUNNING} commands run in the background already ({running}). End one with KillShell first."


def _report_background(shell: Shell, text: str, sentence: str) -> Output:
    """The result of a command that runs in the background. `text`: its output so far."""
    text = text.strip("\n")
    sentence += " Read its output with BashOutput, stop it with KillShell; you are notified when it ends."
    return Output(
        f"{text}\n\n{sentence}" if text else sentence,
        summary=f"in the background as {shell.id}",
        display={"kind": "text", "text": text, "background": shell.id},
        structured={"output": text, "background_id": shell.id},
    )


_STOPPED_BY = {
    AbortReason.USER_CANCEL: "The user stopped this command",
    AbortReason.INTERRUPT: "The user stopped this command with a new prompt",
    AbortReason.BUDGET: "This command was stopped because the budget was spent",
    AbortReason.SHUTDOWN: "This command was stopped because agentcli was closed",
}


def _result(
    ending: CommandEnding, command: ShellCommand, context: ToolContext, seconds: float, reason: AbortReason
) -> Output:
    """The result of a command that has ended. `seconds`: its time limit; `reason`: of an abort."""
    output = command.output
    whole = output.text()
    text = whole.strip("\n")
    so_far = "; its output so far is above." if text else "; it had printed nothing."
    notes: list[str] = []
    new_cwd: Path | None = None
    wanted_hosts: tuple[str, ...] | None = None
    match ending:
        case CommandEnding.ABORTED:
            summary = "stopped"
            notes.append(f"{_STOPPED_BY[reason]}{so_far}")
        case CommandEnding.TIMED_OUT:
            summary = f"timed out after {seconds:g} s"
            notes.append(f"The command was stopped after {seconds:g} s, its time limit{so_far}")
        case CommandEnding.EXITED:
            summary = exit_text(command.code)
            if command.code != 0:
                notes.append(f"{summary[0].upper()}{summary[1:]}")
            # Also after exit code 0: a pipe or `; true` hides a failure, but not its message.
            cause = command.stopped_for or context.launcher.explain(command.code, text, context.grant)
            if cause:
                notes.append(cause)
            new_cwd, note = _next_directory(command.folder, context)
            notes += [note] if note else []
            wanted_hosts = _find_wanted_hosts(command, text, context)
            if wanted_hosts:
                notes.append(f"{describe_refused_hosts(wanted_hosts)}.")
            if private_hosts := command.private_hosts:
                notes.append(f"{private_hosts_note(private_hosts)}.")
    if command.left_running and ending is CommandEnding.EXITED:
        notes.append("Processes it left running were stopped. Use run_in_background to keep a process running.")
    if command.stopped_by_sandbox:
        summary = "stopped by the sandbox"
        notes.append("The command was stopped because it created protected files.")
    findings = tuple(finding.text for finding in command.findings)
    notes += [f"Sandbox: {text}" for text in findings]
    if not text and ending is CommandEnding.EXITED:
        notes.insert(0, "(no output)" if command.code else "(no output, exit code 0)")
    return Output(
        "\n\n".join([*([text] if text else []), *notes]),
        is_error=ending is not CommandEnding.EXITED or command.code != 0 or command.stopped_by_sandbox,
        is_exit_code=ending is CommandEnding.EXITED and not command.stopped_by_sandbox,
        summary=summary,
        display={
            "kind": "text",
            "text": text,
            **({"lines": output.lines} if output.is_cut else {}),
            **_colours(moved(output.colours(), len(whole.lstrip("\n")) - len(whole), len(text))),
        },
        structured={
            "output": text,
            "exit_code": command.code,
            "interrupted": ending is CommandEnding.ABORTED,
            "timed_out": ending is CommandEnding.TIMED_OUT,
            "saved_to": str(output.saved_to) if output.saved_to else None,
        },
        new_cwd=new_cwd,
        wanted_hosts=wanted_hosts,
        notices=findings,
    )


def _colours(spans: Iterable[ColourSpan]) -> Json:
    """Colours of a text for a display, if there are any."""
    found = [list(span) for span in spans]
    return {"colours": found} if found else {}


def _find_wanted_hosts(command: ShellCommand, text: str, context: ToolContext) -> tuple[str, ...] | None:
    """The hosts that a command could not reach; empty if it failed without network access and they are unknown."""
    if refused := command.refused_hosts:
        return refused
    return () if context.launcher.lacked_network(command.code, text, context.grant) else None


def _next_directory(folder: str, context: ToolContext) -> tuple[Path | None, str]:
    """The directory of the next command, None if it stays, and a note for the model. `folder`: where this one ended."""
    # The command reports a path without links, so equal names are the same directory.
    if not folder.startswith("/") or folder == str(context.cwd):
        return None, ""
    if folder == os.path.realpath(context.cwd) or not Path(folder).is_dir():
        return None, ""
    real = Path(os.path.realpath(folder))
    if any(real.is_relative_to(os.path.realpath(allowed)) for allowed in context.working_dirs):
        return real, f"{_directory_name(context)} is now {plain_line(str(real))}."
    outside = f"{plain_line(folder)} is outside the working directories."
    return None, f"{_directory_name(context)} is {context.cwd} again: {outside}"


def _directory_name(context: ToolContext) -> str:
    """How to call the directory: the tool and the user's `!` commands each have their own."""
    return f"The working directory of {'! commands' if context.by_user else 'Bash'}"
