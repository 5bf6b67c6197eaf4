"""The data of a tool call: its input, converted to fit the tool, its result for the log, and the texts of refusals."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Literal, cast

from agentcli.agent.ports import StopSource
from agentcli.core.abort import AbortReason
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import (
    SAID,
    Json,
    Message,
    Origin,
    ResultContent,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    clean_text,
    user_message,
    wrapped_content,
)
from agentcli.core.permission import Decision, Need
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Tool, ToolContext
from agentcli.tools.schema import checked

if TYPE_CHECKING:
    from agentcli.shell.commands.command_parts import CommandPart

Outcome = Literal["done", "denied", "interrupted", "failed"]
"""How a call ended."""


@frozen
class CallResult:
    call: ToolUseBlock
    block: ToolResultBlock
    output: Output
    hook_stop: str | None = None
    hook_context: tuple[str, ...] = ()
    stopped_by: StopSource = "hook"
    """Source of `hook_stop`."""
    outcome: Outcome = "done"
    denied_by: str = ""
    """Who denied the call, for the user; "" if it was not denied, or was refused because the session is
    non-interactive."""
    waited: float = 0.0
    """Seconds for which the call waited for answers after it had begun."""
    accepted_hunks: tuple[int, int] | None = None
    said: tuple[UserWords, ...] = ()
    """The user's messages about this call. They follow the results as user messages, not inside the result."""

    @property
    def denied(self) -> bool:
        """Whether the user, a rule or a hook refused the call."""
        return self.outcome == "denied"


def failed(call: ToolUseBlock, text: str, summary: str = "", outcome: Outcome = "failed") -> CallResult:
    """An error result for a call that did not run, or not to its end."""
    output = Output(text, is_error=True, summary=summary or text.partition("\n")[0][:200])
    return CallResult(call, result_block(call, output), output, outcome=outcome)


def result_block(call: ToolUseBlock, output: Output) -> ToolResultBlock:
    """The result for the log: without characters that cannot be sent, never empty, and marked if the call failed."""
    content: ResultContent
    if isinstance(output.content, str):
        content = (TextBlock(clean_text(output.content)),) if output.content.strip() else ()
    else:
        content = tuple(
            replace(part, text=clean_text(part.text)) if isinstance(part, TextBlock) else part
            for part in output.content
        )
    if output.is_error and not output.is_exit_code:
        content = wrapped_content(content)
    return ToolResultBlock(call.id, content or (TextBlock("(no output)"),), output.is_error)


_LONGEST_TITLE = 120
_LONGEST_SCHEMA = 8_000
_REWRITES = (
    (lazy_pattern(r"<<"), "write the text to a file with the Write tool and name that file instead of a here-document"),
    (lazy_pattern(r"\n"), "write it as one line, or as several calls"),
    (
        lazy_pattern(r"\|&?\s*(?:env\s+)?(?:ba|da|z|k)?sh\b|\|&?\s*(?:env\s+)?(?:python|perl|ruby|node|php)[\d.]*\b"),
        "write the script to a file and run that file instead of piping into an interpreter",
    ),
    (lazy_pattern(r"\$|`"), "write the values themselves instead of variables and substitutions"),
    (lazy_pattern(r"[*?]|\["), "name the files instead of using wildcards"),
)


def allow_flag(rules: Sequence[str]) -> str:
    return f"--allowedTools {shlex.quote(','.join(rules))}"


def denial_sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}." if reason else "This call is denied."


def unfit_input(tool: Tool, wrong: Sequence[str]) -> str:
    """The problems of an input, with the schema if the model may not have seen it."""
    text = f"The input of {tool.name} is not right: {'; '.join(wrong)}"
    if not getattr(tool, "shows_schema", False):
        return text
    schema = json.dumps(tool.input_schema, ensure_ascii=False)
    cut = " … (cut off)" if len(schema) > _LONGEST_SCHEMA else ""
    return f"{text}\nThe schema of its input: {schema[:_LONGEST_SCHEMA]}{cut}"


def unattended_refusal(title: str, input: Json, decision: Decision, rules: Sequence[str]) -> str:
    """Why a non-interactive session denied a call, and what would allow it. `rules`: those that would, if any.

    One sentence. The system prompt forbids another way to the same end unless the result of the call names one."""
    denied = f"Denied `{plain_line(title, _LONGEST_TITLE)}`: {_cause(decision)}, and this session is non-interactive"
    part = f"the parts without `{decision.part}` can run as a call of their own" if decision.part else ""
    if rules:
        allow = f"the user can allow such calls with {allow_flag(rules)}"
        return f"{denied}; {f'{part}, and {allow}' if part else allow}."
    if decision.rule:
        return f"{denied}; an allow rule does not change that."
    command = input.get("command")
    if not isinstance(command, str) or decision.protected:
        return f"{denied}; no rule can allow it."
    advice = next((text for pattern, text in _REWRITES if pattern.search(command)), "")
    if not advice and not part and not re.search(r"[;&|]", command):
        return f"{denied}; no rule can allow it."
    way = advice or part or "run its parts as separate calls"
    return f"{denied}; no rule can cover it as it is written, so {way}: that may need no approval."


def _cause(decision: Decision) -> str:
    if decision.cause:
        return f"it needs approval because {decision.cause.rstrip('.')}"
    return decision.reason.rstrip(".") or "it needs approval"


_INTERRUPTED_BY = {
    AbortReason.USER_CANCEL: "The user interrupted",
    AbortReason.INTERRUPT: "The user interrupted with a new prompt",
    AbortReason.BUDGET: "The budget was spent",
    AbortReason.SHUTDOWN: "agentcli was closed",
}


def interrupted_call(reason: AbortReason | None, begun: bool) -> str:
    """The result of a call that an abort kept from running, or that had no result of its own when it was stopped."""
    by = _INTERRUPTED_BY[reason or AbortReason.USER_CANCEL]
    return f"{by} while this call ran; how far it got is not known." if begun else f"{by} before this call ran."


@frozen
class UserWords:
    """The user's message with an answer to a question."""

    about: str
    """What they declined or approved, in one line."""
    text: str
    approved: bool = False

    def message(self, id: str) -> Message:
        """A user message, which compaction keeps word for word like a prompt."""
        verb = "approved" if self.approved else "declined"
        text = f"[The user {verb} {plain_line(self.about, 200)} and said:]\n{self.text}"
        return user_message(text, id, Origin.QUEUED, {SAID: self.text})


def user_words(about: str, text: str, *, approved: bool = False) -> tuple[UserWords, ...]:
    """The user's message, if they wrote one."""
    return (UserWords(about, clean_text(text.strip()), approved),) if text.strip() else ()


def declined_result(declined: str, has_words: bool) -> str:
    """The result of a call that the user declined. It never contains their message, which follows the results."""
    return f"{declined} Their reason follows these results as a message of the user." if has_words else declined


Fitted = tuple[Json, list[str]]
"""A converted input and the problems found in it."""


def fit_input(tool: Tool, given: Json, *, answered: bool = False) -> Fitted:
    """Convert and check an input, unless the tool validates itself because it explains problems better. The result
    shares nothing with `given`, which is part of the log and of every later request: a tool may modify its input.

    `answered`: the input comes with the user's answer, in which a tool may accept more than from the model.
    """
    if getattr(tool, "validates_itself", False):
        return deepcopy(given), []
    schema = getattr(tool, "answer_schema", tool.input_schema) if answered else tool.input_schema
    return checked(schema, deepcopy(given))


def observed_input(tool: Tool | None, input: Json, context: ToolContext) -> Json:
    """An input as hooks and other programs see it: with the fields that the tool derives from it (T9)."""
    derive = getattr(tool, "observed", None)
    try:
        return input if derive is None else cast(Json, derive(input, context))
    except Exception:  # noqa: BLE001 - an input that does not fit the tool is shown as it is
        return input


def without_derived(updated: Json, input: Json, observed: Json) -> Json:
    """A hook's change of an observed input, without the fields that only the observation added."""
    return {
        name: value
        for name, value in updated.items()
        if name in input or name not in observed or observed[name] != value
    }


async def changed_paths(input: Json, needs: Sequence[Need], context: ToolContext) -> tuple[str, ...] | None:
    """Absolute paths that the call may change, including everything below them; None: any file. Call it before the tool
    runs: patterns in commands are expanded on disk."""
    kinds = {need.kind for need in needs}
    if kinds <= {"read", "write", "none"}:
        return _with_links(path for need in needs if need.kind == "write" for path in (need.target, need.real) if path)
    command = input.get("command")
    if (
        kinds <= {"read", "write", "none", "execute"}
        and isinstance(command, str)
        and not input.get("run_in_background")
    ):
        return await in_thread(paths_of_command, command, context)
    return None


def paths_of_command(command: str, context: ToolContext) -> tuple[str, ...] | None:
    """Like `changed_paths`, for a command line. Blocking: patterns may match many files."""
    from agentcli.shell.command_context import CommandContext
    from agentcli.shell.commands.command_parts import analyse
    from agentcli.shell.parser.strict_parser import NotPlain

    parts = analyse(command, CommandContext.of(context.cwd, context.working_dirs))
    if isinstance(parts, NotPlain):
        return None
    paths: list[str] = []
    for part in parts:
        found = _by_part(part)
        if found is None:
            return None
        paths += found
    return _with_links(paths)


def _by_part(part: CommandPart) -> list[str] | None:
    from agentcli.shell.commands.file_commands import part_changes

    written = [one.target for one in part.command.redirections if one.kind == "write"]
    if part.extended or not part.folders or part.command.expanded is not None:
        return None
    paths = [os.path.join(folder, target) for folder in part.folders for target in written]  # noqa: PTH118
    if part.objection is None:
        return paths
    for folder in part.folders:
        changes = part_changes(part, folder)
        if changes is None:
            return None
        paths += [*changes.writes, *changes.removes]
    return paths


def _with_links(paths: Iterable[str]) -> tuple[str, ...]:
    """Each path itself, and its resolved target."""
    found: dict[str, None] = {}
    for path in paths:
        parent, name = os.path.split(os.path.normpath(path))
        found[os.path.join(os.path.realpath(parent), name)] = None  # noqa: PTH118
        found[os.path.realpath(path)] = None
    return tuple(found)
