"""The tool calls of a reply: when each runs (SPEC T1, T2), and their data: inputs that fit the tool, results for the
log, texts of refusals, the files that a call may change.

Calls that can run in parallel start as soon as they are known, up to a limit. Any other call waits until all calls
before it have ended, and all calls after it wait for it. Results are kept in the order of the calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from agentcli.agent.ports import StopSource
from agentcli.core.aio import AbortController, AbortReason, AbortSignal, cancel_and_wait, in_thread
from agentcli.core.events import Event
from agentcli.core.frozen import frozen, replace, slotted
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
    wrap_error_content,
)
from agentcli.core.permission import Decision, Need
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Tool, ToolContext, check_input

if TYPE_CHECKING:
    from agentcli.agent.toolcalls.toolcall import ToolRunner
    from agentcli.shell.commands.command_parts import CommandPart


ABORT_GRACE_SECONDS = 3.0
"""Time for an aborted tool to clean up: two seconds for a process that ignores SIGTERM, and a little more."""

SIBLING_FAILED = "Not run to its end: a call that ran beside it failed, and this one depended on it."


Put = Callable[[Event | None], Awaitable[None]]


class Spawn(Protocol):
    def __call__(self, producer: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]: ...


@slotted
class _Entry:
    call: ToolUseBlock
    safe: bool
    beside: bool
    """Whether it may run in parallel."""
    task: asyncio.Task[None] | None = None
    working: bool = False
    """Whether the tool itself has started: the call is no longer waiting for permission."""
    result: CallResult | None = None


class Executor:
    """One per reply. `submit` calls as they complete, then `close`. Starts calls while the reply streams."""

    starts_while_streaming: ClassVar[bool] = True

    def __init__(self, runner: ToolRunner, context: ToolContext, limit: int, signal: AbortSignal) -> None:
        self._runner = runner
        self._limit = limit
        self._entries: list[_Entry] = []
        self._closed = False
        self._controller = AbortController(parent=signal)
        self._spawn: Spawn | None = None
        self._put: Put | None = None
        self.given = context
        """The context in which all calls of the reply run."""

    @property
    def context(self) -> ToolContext:
        """The context for the calls of the next reply: changes by the calls of this one, applied in their order (T8).
        They do not affect one another: the model sends them together because they are independent."""
        folders = (entry.result.output.new_cwd for entry in reversed(self._entries) if entry.result is not None)
        cwd = next((folder for folder in folders if folder is not None), None)
        return self.given if cwd is None else replace(self.given, cwd=cwd)

    def connect(self, spawn: Spawn, put: Put) -> None:
        """Set where its tasks are started and its events are sent; None is sent when a result has become available."""
        self._spawn, self._put = spawn, put

    def submit(self, call: ToolUseBlock) -> None:
        is_safe = self._runner.is_safe(call)
        self._entries.append(_Entry(call, is_safe, is_safe or self._runner.runs_beside(call)))
        self._start_ready()

    def close(self) -> None:
        self._closed = True
        self._start_ready()

    @property
    def has_unsafe_work(self) -> bool:
        """Whether a call with side effects has begun: then the reply can no longer be discarded."""
        return any(entry.working and not entry.safe for entry in self._entries)

    @property
    def waiting_ids(self) -> tuple[str, ...]:
        """Ids of the calls that have no result yet and may still get one."""
        if self._controller.signal.aborted:
            return ()
        return tuple(entry.call.id for entry in self._entries if entry.result is None)

    @property
    def last_begun(self) -> ToolUseBlock | None:
        return next((entry.call for entry in reversed(self._entries) if entry.working), None)

    def results_ready(self) -> list[CallResult]:
        """Results in the order of the calls, up to the first call that has none yet."""
        ready = []
        for entry in self._entries:
            if entry.result is None:
                break
            ready.append(entry.result)
        return ready

    def results(self) -> list[CallResult]:
        """One result for every call, synthetic for calls without one. Call it when nothing runs any more."""
        return [entry.result or self._interrupt(entry) for entry in self._entries]

    def _interrupt(self, entry: _Entry) -> CallResult:
        text = describe_interruption(self._controller.signal.reason, entry.working)
        return fail_call(entry.call, text, "interrupted", "interrupted")

    def drop_unstarted(self) -> None:
        """Drop the calls that have not begun to work; for a reply that was cut off after them."""
        last = self.last_begun
        kept = next((i + 1 for i, entry in enumerate(self._entries) if entry.call is last), 0)
        for entry in self._entries[kept:]:
            if entry.task is not None:
                entry.task.cancel()
        self._entries = self._entries[:kept]

    async def abandon(self) -> None:
        """Cancel everything; results are void. Waits until all tasks have ended."""
        self._controller.abort(AbortReason.USER_CANCEL)
        await cancel_and_wait([entry.task for entry in self._entries if entry.task is not None])
        self.dispose()

    def dispose(self) -> None:
        """Detach it from its turn when nothing runs any more. The turn refers to it and holds a whole request: in a
        reference cycle both would stay until the garbage collector finds them."""
        self._controller.close()
        self._spawn = self._put = None

    # ------------------------------------------------------------------------------------------------ scheduling

    def _start_ready(self) -> None:
        if self._controller.signal.aborted or not (self._closed or self.starts_while_streaming):
            return
        running = sum(entry.task is not None and entry.result is None for entry in self._entries)
        all_done = True
        for entry in self._entries:
            if entry.task is None and entry.result is None:
                if running >= self._limit or not (entry.beside or all_done):
                    return
                assert self._spawn is not None
                entry.task = self._spawn(self._work(entry), name=f"tool {entry.call.name}")
                running += 1
            if entry.result is None:
                all_done = False
                if not entry.beside:
                    return

    async def _work(self, entry: _Entry) -> None:
        assert self._put is not None
        entry.result = await self._run_bounded(entry, self._put)
        if entry.result.output.cancel_siblings:
            self._cancel_siblings(entry)
        self._start_ready()
        await self._put(None)

    async def _run_bounded(self, entry: _Entry, put: Put) -> CallResult:
        """The call's result; after an abort it has `ABORT_GRACE_SECONDS` to clean up."""
        signal, loop, task = self._controller.signal, asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        timer: asyncio.TimerHandle | None = None

        def begun() -> None:
            entry.working = True

        def end_later(_reason: AbortReason) -> None:
            nonlocal timer
            timer = loop.call_later(ABORT_GRACE_SECONDS, end_now)

        def end_now() -> None:
            # A second cancellation would interrupt the cleanup after the first.
            if not task.cancelling():
                limit.reschedule(loop.time())

        unhook: Callable[[], None] | None = None
        try:
            async with asyncio.timeout(None) as limit:
                unhook = signal.on_abort(end_later)
                return await self._runner.run(entry.call, self.given, signal, put, begun)
        except TimeoutError:
            return self._interrupt(entry)
        finally:
            if unhook is not None:
                unhook()
            if timer is not None:
                timer.cancel()

    def _cancel_siblings(self, failed_entry: _Entry) -> None:
        for entry in self._entries:
            if entry is not failed_entry and entry.result is None:
                entry.result = fail_call(entry.call, SIBLING_FAILED, "cancelled")
                if entry.task is not None:
                    entry.task.cancel()


class BatchExecutor(Executor):
    """Starts calls only when the reply is complete."""

    starts_while_streaming = False


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


def fail_call(call: ToolUseBlock, text: str, summary: str = "", outcome: Outcome = "failed") -> CallResult:
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
        content = wrap_error_content(content)
    return ToolResultBlock(call.id, content or (TextBlock("(no output)"),), output.is_error)


_MAX_TITLE = 120
_MAX_SCHEMA = 8_000
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
    cut = " … (cut off)" if len(schema) > _MAX_SCHEMA else ""
    return f"{text}\nThe schema of its input: {schema[:_MAX_SCHEMA]}{cut}"


def describe_unattended(title: str, input: Json, decision: Decision, rules: Sequence[str]) -> str:
    """Why a non-interactive session denied a call, and what would allow it. `rules`: those that would, if any.

    One sentence. The system prompt forbids another way to the same end unless the result of the call names one."""
    denied = f"Denied `{plain_line(title, _MAX_TITLE)}`: {_cause(decision)}, and this session is non-interactive"
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


def describe_interruption(reason: AbortReason | None, begun: bool) -> str:
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


def describe_decline(declined: str, has_words: bool) -> str:
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
    return check_input(schema, deepcopy(given))


def observe_input(tool: Tool | None, input: Json, context: ToolContext) -> Json:
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


async def list_changed_paths(input: Json, needs: Sequence[Need], context: ToolContext) -> tuple[str, ...] | None:
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
    """Like `list_changed_paths`, for a command line. Blocking: patterns may match many files."""
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
