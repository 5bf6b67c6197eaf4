"""What the front ends for people say about events, in words. One place, so that it reads as one voice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from agentcli.core import events as ev
from agentcli.core.messages import ATTACHED, Message, Origin
from agentcli.core.plaintext import plain_line, plain_text
from agentcli.core.plural import counted

if TYPE_CHECKING:
    from agentcli.tools.shell.background import BackgroundTask

_LONGEST_COMMAND = 60
_MOST_COMMANDS = 5

Level = Literal["info", "warning", "error"]
Outcome = Literal["done", "denied", "interrupted", "failed"]
"""Of a call that has ended."""

INTERRUPTED = "Interrupted. What came so far is kept; say what to do instead."
SUMMARY = "Summary of what came before"
ABORTED = ("aborted_streaming", "aborted_tools")


def told(message: Message) -> str:
    """A message that agentcli itself put into the conversation, as a quiet line; "" for what the person has seen
    already: the mode they chose, the command they ran, the undo they made."""
    text = plain_text(message.text)
    first = plain_line(text, 160)
    match message.origin:
        case Origin.HOOK:
            return f"A hook told the model: {first}"
        case Origin.RECOVERY:
            return f"The model was asked to go on: {first}"
    if isinstance(file := message.meta.get(ATTACHED), dict):
        # One that could not be attached was reported with a notice.
        return plain_line(f"Attached {file['name']} ({file['summary']}{file['part']})", 300) if "name" in file else ""
    if "restored" in message.meta:
        return _restored(message.meta)
    if "task_list" in message.meta:
        return "The model was reminded of its task list"
    if "permission_mode" in message.meta or text.startswith(_SEEN):
        return ""
    return f"The model was told: {first}"


_SEEN = ("[The user ran a command", "[The user undid", "[The user took the undo back", "[Background command")


def summary(message: Message) -> str:
    """The summary in a message that stands for what was compacted, without its words to the model."""
    from agentcli.context.compact import summary_shown

    return plain_text(summary_shown(message.text))


def _restored(meta: Mapping[str, Any]) -> str:
    """What a compaction has put back into the context, in one line."""
    files = [str(path) for path in meta.get("files") or ()]
    named = {"tasks": "the task list", "plan": "the approved plan", "background": "running background commands"}
    kinds = [str(kind) for kind in meta.get("restored") or ()]
    parts = [named[kind] for kind in kinds if kind in named]
    parts += ["pinned items"] if "pinned" in kinds else []
    return plain_line(f"Kept in the context: {', '.join([*parts, *files])}", 300) if parts or files else ""


def retry(event: ev.RetryScheduled) -> str:
    status = f"{event.status} " if event.status else ""
    what = _RETRIED.get(event.kind) or plain_line(event.text.rstrip("."), 120) or event.kind
    return f"{status}{what}, attempt {event.attempt} of {event.max_attempts}"


_RETRIED = {
    "overloaded": "overloaded",
    "rate_limit": "rate limit",
    "server_error": "server error",
    "timeout": "no answer in time",
    "broken_stream": "the reply broke off",
    "conflict": "conflict",
}


def compacted(trigger: str, before: int, after: int) -> str:
    why = {"auto": "compacted by itself", "reactive": "compacted because it was too long"}.get(trigger, "compacted")
    return f"{why}: {tokens(before)} → {tokens(after)} tokens"


def boundary(message: Message) -> str:
    """A compaction, by what its boundary in the log says."""
    meta = message.meta
    counts = (meta.get("tokens_before"), meta.get("tokens_after"))
    before, after = (count if isinstance(count, int) else 0 for count in counts)
    return compacted(str(meta.get("trigger", "")), before, after)


def notice(event: ev.Event) -> tuple[str, Level]:
    """Events that are one quiet line."""
    match event:
        case ev.ModelFellBack():
            return f"Switched from {event.from_model} to {event.to_model}: {event.reason}", "warning"
        case ev.FeatureDropped() | ev.RequestRepaired():
            return event.text, "warning"
        case ev.PrefixBroken():
            anew = f" ({tokens(event.rebilled_tokens)} tokens billed anew)" if event.rebilled_tokens else ""
            where = f" at {event.block}" if event.block else ""
            return f"The prompt cache broke{where}: {event.reason}{anew}", "info"
        case ev.LoopSuspected():
            return f"{plain_line(event.title)}: the same result {event.times} times in a row", "warning"
        case ev.RulesLearned():
            where = "for this session" if event.where == "session" else f"saved in {event.where}"
            return f"Allowed from now on ({where}): {', '.join(event.rules)}", "info"
        case ev.ModeChanged():
            return f"Permission mode: {event.mode} ({event.reason})", "info"
        case ev.BackgroundChanged():
            what = f"Background {event.task_id} {event.status}: {plain_line(event.command, 80)}"
            failed: Level = "warning" if event.status == "failed" else "info"
            return (f"{what} ({event.summary})" if event.summary else what), failed
        case ev.ContextEdited():
            if event.freed_tokens < 0:
                return f"The context: {event.text} (about {tokens(-event.freed_tokens)} tokens more)", "info"
            return f"Made room in the context: {event.text} (about {tokens(event.freed_tokens)} tokens)", "info"
        case ev.CompactionFailed():
            from agentcli.agent.context.compaction import CANCELLED

            if event.text == CANCELLED:
                return event.text, "info"
            return f"The conversation was not compacted: {event.text}", "warning"
    return type(event).__name__, "info"


def hunks_taken(event: ev.ToolFinished) -> str:
    """What of a change the user accepted, when it was not all; "" else."""
    match event.accepted_hunks:
        case [int(accepted), int(proposed)]:
            return f"you took {accepted} of {counted(proposed, 'hunk')}"
    return ""


def tool_status(event: ev.ToolFinished) -> Outcome:
    if event.outcome in ("done", "denied", "interrupted", "failed"):
        return event.outcome  # type: ignore[return-value]
    return "failed" if event.result.is_error else "done"


def ended(event: ev.Result) -> tuple[str, Level, tuple[str, ...]] | None:
    """The last line of a submission and what belongs below it; None for commands, which have said all themselves."""
    if event.terminal == "command_failed":
        return None
    if event.is_error:
        errors = tuple(plain_text(error) for error in event.errors)
        ending = _ENDINGS.get(event.terminal)
        if ending or not errors:
            return ending or "This could not be done.", "error", errors
        return errors[0], "error", errors[1:]
    if not event.turns or (event.turns == 1 and event.duration_ms < 1_000):
        return None
    parts = [seconds(event.duration_ms / 1000)] if event.duration_ms >= 1_000 else []
    if event.turns > 1:
        parts.append(counted(event.turns, "turn"))
    return " · ".join(parts), "info", ()


_ENDINGS = {
    "max_turns": "Stopped at the limit of turns. Send a prompt to go on.",
    "max_budget_usd": "Stopped at the budget.",
}


def seconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f} s"
    if value < 100:
        return f"{value:.0f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def tokens(count: int) -> str:
    if count < 1_000:
        return str(count)
    if count < 100_000:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    return f"{count / 1_000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def dollars(amount: float) -> str:
    """As many decimals as mean something: a request may cost less than a cent."""
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    return f"${amount:.3f}" if amount >= 0.01 else f"${amount:.4f}" if amount >= 0.0001 else "under $0.0001"


def ended_commands(tasks: Sequence[BackgroundTask]) -> str:
    """One line about the background commands that end with the program; empty if none runs."""
    running = [task for task in tasks if task.status == "running"]
    if not running:
        return ""
    shown = [f"{task.id} ({plain_line(task.command, _LONGEST_COMMAND)})" for task in running[:_MOST_COMMANDS]]
    if len(running) > len(shown):
        shown.append(f"{len(running) - len(shown)} more")
    return f"Ended {counted(len(running), 'background command')}: {', '.join(shown)}"


def in_order(details: Sequence[str]) -> list[str]:
    """What was found about the parts of a command: those that need approval first. A part that only looks allowed, by
    its own text, counts as needing it."""
    asks, allowed = ": needs approval because ", ": allowed because "
    return sorted(details, key=lambda detail: allowed in detail and asks not in detail)


def question_of(event: ev.PermissionRequested) -> str:
    """What is asked, in a few words, above what it is about."""
    match event.display.get("kind"):
        case "command" if "network" in event.display:
            return "Run it again with network?"
        case "command":
            where = " in the background" if event.input.get("run_in_background") else ""
            return f"Run this command{where}?"
        case "diff":
            new = not event.display.get("removed") and str(event.display.get("diff", "")).startswith("@@ -0,0 ")
            return "Create this file?" if new else "Make this change?"
        case "fetch":
            return "Fetch this address?"
        case "loop":
            return "Go on?"
        case _:
            return f"Use {plain_line(event.name)}?"
