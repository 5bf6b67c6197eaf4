"""The wording of every event and added message, for the app, plain mode and headless text alike."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from agentcli.core import events as ev
from agentcli.core.aio import in_thread
from agentcli.core.messages import (
    ATTACHED,
    EXPANDED,
    MCP_SERVERS,
    NOTE,
    SKILLS,
    SUMMARY,
    Message,
    Origin,
)
from agentcli.core.permission import PartFinding, mode_label
from agentcli.core.text.format import ago, counted, duration, format_elapsed, money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.permissions.rules import show_rule

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.session.find import SessionInfo

_MAX_COMMAND = 60
_MAX_COMMANDS = 5

Level = Literal["info", "warning", "error"]
Outcome = Literal["done", "denied", "interrupted", "failed"]
"""Outcome of a finished tool call."""

INTERRUPTED = "Interrupted. What should be done instead?"
CLOSED = "agentcli was closed before this was done."

SUMMARY_TITLE = "Summary of the conversation so far"
ABORTED = ("aborted_streaming", "aborted_tools")
PROMPT_BLOCKED = "prompt_blocked"
"""Terminal of a prompt that a hook blocked, which has a line of its own."""


def message_line(message: Message) -> str:
    """One line about a message that agentcli added to the conversation; "" if the user knows already: the mode they
    chose, the command they ran, the undo they made."""
    first = plain_line(plain_text(message.text), 160)
    match message.origin:
        case Origin.HOOK:
            return f"Hook output for the model: {first}"
        case Origin.RECOVERY:
            return f"The model was asked to continue: {first}"
    if isinstance(file := message.meta.get(ATTACHED), dict):
        # A file that could not be attached was reported with a notice.
        return plain_line(f"Attached {file['name']} ({file['summary']}{file['part']})", 300) if "name" in file else ""
    if "restored" in message.meta:
        return _describe_restored(message.meta)
    if isinstance(news := message.meta.get(SKILLS), Mapping):
        return _skills(news)
    if isinstance(servers := message.meta.get(MCP_SERVERS), Mapping):
        return _servers(servers)
    if paths := message.meta.get("changed_files"):
        names = ", ".join(str(path).rpartition("/")[2] for path in paths)
        return plain_line(f"The model was notified of changed files: {names}", 300)
    if "task_list" in message.meta:
        return "The model was reminded of its todos"
    if "permission_mode" in message.meta or NOTE in message.meta:
        return ""
    return f"The model was notified: {first}"


def is_entered(message: Message) -> bool:
    """Whether a prompt's typed line is recorded before it, since shell commands of its file ran in between."""
    made_from = message.meta.get(EXPANDED)
    return isinstance(made_from, Mapping) and bool(made_from.get("entered"))


def expansion_line(message: Message) -> str:
    """One line about the file that a prompt comes from; "" for a prompt that was typed."""
    made_from = message.meta.get(EXPANDED)
    if not isinstance(made_from, dict):
        return ""
    size = counted(message.text.count("\n") + 1, "line")
    return plain_line(f"Prompt of the {made_from.get('kind')} {made_from.get('file')} ({size})", 300)


def summary(message: Message) -> str:
    """The summary that replaces compacted messages, without the text added for the model."""
    return plain_text(str(message.meta.get(SUMMARY, message.text)))


def _skills(news: Mapping[str, Any]) -> str:
    """Skills added, changed or removed during the session; "" for those that only fit the prompt or its start."""
    if news.get("first") or news.get("unchanged"):
        return ""
    parts = [f"+{name}" for name in news.get("listed", ())] + [f"−{name}" for name in news.get("gone", ())]
    return plain_line(f"The model was notified of changed skills: {', '.join(parts)}", 300)


def _servers(news: Mapping[str, Any]) -> str:
    """MCP servers that disconnected; "" for new ones, which /mcp shows."""
    gone = [name for name, one in news.items() if isinstance(one, Mapping) and one.get("gone")]
    return plain_line(f"The model was notified: MCP servers not connected: {', '.join(gone)}", 300) if gone else ""


def _describe_restored(meta: Mapping[str, Any]) -> str:
    """One line that lists what a compaction put back into the context."""
    files = [str(path) for path in meta.get("files") or ()]
    named = {"tasks": "the todos", "plan": "the approved plan", "background": "running background commands"}
    named["skills"] = "skills in use"
    kinds = [str(kind) for kind in meta.get("restored") or ()]
    parts = [named[kind] for kind in kinds if kind in named]
    parts += ["pinned items"] if "pinned" in kinds else []
    return plain_line(f"Kept in the context: {', '.join([*parts, *files])}", 300) if parts or files else ""


def retry(event: ev.RetryScheduled) -> str:
    """Why a request is retried and which attempt is next, without the waiting time."""
    status = f"{event.status} " if event.status else ""
    what = _RETRIED.get(event.kind) or plain_line(event.text.rstrip("."), 120) or event.kind
    return f"{status}{what}, attempt {event.attempt} of {event.max_attempts}"


_RETRIED = {
    "overloaded": "overloaded",
    "rate_limit": "rate limit",
    "server_error": "server error",
    "timeout": "timed out",
    "broken_stream": "the reply was cut off",
    "conflict": "conflict",
}


def describe_compaction(trigger: str, before: int, after: int) -> str:
    how = {"auto": "compacted automatically", "reactive": "compacted because it was too long"}.get(trigger, "compacted")
    return f"{how}: {token_count(before)} → {token_count(after)} tokens"


def boundary(message: Message, *, can_undo: bool = True) -> str:
    """One line about a compaction, from the meta of its boundary message. `can_undo` is False for a sub-agent."""
    meta = message.meta
    counts = (meta.get("tokens_before"), meta.get("tokens_after"))
    before, after = (count if isinstance(count, int) else 0 for count in counts)
    text = describe_compaction(str(meta.get("trigger", "")), before, after)
    return f"{text} · /compact undo reverts it" if can_undo else text


def has_line(event: ev.Event) -> bool:
    """Whether the app and plain mode show the line about an event. They do not if another line says the same: that of
    the command that caused it, of the interruption, or of the call's result."""
    match event:
        case ev.PermissionDenied() | ev.ContextCompacted() | ev.HookStarted():
            return False
        case ev.HookFinished():
            return event.is_notable
        case ev.CompactionFailed():
            return not event.interrupted
        case ev.ContextEdited():
            return not any(edit.get("kind") == "undo_compaction" for edit in event.edits)
    return event.policy.line


def event_line(event: ev.Event) -> tuple[str, Level]:
    """The one line about an event, in every front end, and its level."""
    match event:
        case ev.NoticeRaised():
            return event.text, "error" if event.level == "error" else "warning" if event.level == "warning" else "info"
        case ev.SubmissionInterrupted():
            return INTERRUPTED, "warning"
        case ev.ReplyTombstoned():
            return "The reply was cut off. Its text is discarded.", "warning"
        case ev.RetryScheduled():
            return f"{retry(event)}, in {duration(event.wait_seconds)}", "warning"
        case ev.StreamWentQuiet():
            return f"No data for {format_elapsed(event.seconds)}; still waiting", "info"
        case ev.ModelFellBack():
            return f"Switched from {event.from_model} to {event.to_model}: {event.reason}", "warning"
        case ev.FeatureDropped() | ev.RequestRepaired():
            return event.text, "warning"
        case ev.LoopSuspected():
            during = f" in {duration(event.seconds)}" if event.seconds else ""
            return f"{plain_line(event.title)}: the same result {event.times} times in a row{during}", "warning"
        case ev.BackgroundChanged():
            what = f"Background {event.task_id} {event.status}: {plain_line(event.command, 80)}"
            failed: Level = "warning" if event.status == "failed" else "info"
            return f"{what} ({event.summary})" if event.summary else what, failed
        case _:
            return _permission_line(event)


def _permission_line(event: ev.Event) -> tuple[str, Level]:
    match event:
        case ev.PermissionDenied(by=by) if by:
            return f"{plain_line(event.name)} was denied by {plain_line(by, 200)}", "info"
        case ev.PermissionDenied():
            return f"{plain_line(event.name)} was denied: {event.reason}", "info"
        case ev.RulesLearned():
            where = "for this session" if event.where == "session" else f"saved in {event.where}"
            return f"Allowed from now on ({where}): {', '.join(map(show_rule, event.rules))}", "info"
        case ev.ModeChanged():
            return f"Permission mode: {mode_label(event.mode)} ({event.reason})", "info"
        case _:
            return _context_line(event)


def whose(event: ev.Event) -> str:
    """`explore-1: ` before the line of a sub-agent's event; "" for all others, and where the line names the agent."""
    named = event.policy.recorded == "agent"
    return f"{plain_line(event.agent)}: " if ev.is_of_subagent(event) and not named else ""


def shown_of_subagent(event: ev.Event) -> bool:
    """Whether a front end that hides the work of sub-agents shows a line about this event: their start and end, and
    changes for the whole session."""
    if isinstance(event, ev.NoticeRaised):
        return event.level != "info"
    return event.policy.line and event.policy.scope in ("parent", "session")


def _agent_line(event: ev.AgentStarted | ev.AgentMoved | ev.AgentFinished) -> tuple[str, Level]:
    if isinstance(event, ev.AgentMoved):
        return f"Agent {plain_line(event.agent)} continues in the background", "info"
    who = plain_line(event.agent or event.name)
    if isinstance(event, ev.AgentStarted):
        where = " in the background" if event.background else ""
        return f"Agent {who} started{where}: {plain_line(event.description, 80)}", "info"
    parts = [
        counted(event.turns, "turn"),
        f"{token_count(event.tokens)} tokens",
        format_elapsed(event.duration_ms / 1000),
    ]
    if event.cost_usd is not None:
        parts.insert(2, money(event.cost_usd))
    what = f"Agent {who} {event.status}: {plain_line(event.description, 80)}"
    if event.status == "failed":
        return f"{what} ({', '.join(parts)}). {plain_line(event.text, 200)}".rstrip(), "warning"
    is_told = event.background and event.status == "completed"
    next_step = ". The model gets its report with the next request." if is_told else ""
    return f"{what} ({', '.join(parts)}){next_step}", "info"


_HOOK_VERBS = {
    "denied": "denied the call",
    "blocked": "blocked",
    "stopped": "stopped the work",
    "timed_out": "timed out",
    "crashed": "failed",
    "failed": "failed",
    "asked": "asked for approval",
    "allowed": "allowed the call",
}


def _hook_line(event: ev.HookStarted | ev.HookFinished) -> tuple[str, Level]:
    if isinstance(event, ev.HookStarted):
        return f"Running the hook {plain_line(event.name)}", "info"
    source = f" ({plain_line(event.source, 120)})" if event.source else ""
    who = f"{plain_line(event.event_name)} hook {plain_line(event.name)}{source}"
    text = plain_line(plain_text(event.text), 500)
    verb = _HOOK_VERBS.get(event.outcome, "ended")
    return f"{who} {verb}: {text}" if text else f"{who} {verb}", "warning" if event.is_notable else "info"


def _context_line(event: ev.Event) -> tuple[str, Level]:
    """The lines about sub-agents, hooks and the context."""
    match event:
        case ev.AgentStarted() | ev.AgentMoved() | ev.AgentFinished():
            return _agent_line(event)
        case ev.HookStarted() | ev.HookFinished():
            return _hook_line(event)
        case ev.PrefixBroken():
            rebilled = f" ({token_count(event.rebilled_tokens)} tokens billed again)" if event.rebilled_tokens else ""
            where = f" at {event.block}" if event.block else ""
            return f"The prompt cache broke{where}: {event.reason}{rebilled}", "info"
        case ev.ContextEdited():
            freed, text = event.freed_tokens, event.text or "old content"
            if freed < 0:
                return f"Added about {token_count(-freed)} tokens to the context: {text}", "info"
            return f"Freed about {token_count(freed)} tokens of context: {text}", "info"
        case ev.CompactionStarted():
            return "Compacting the conversation", "info"
        case ev.ContextCompacted():
            return f"Conversation {describe_compaction(event.trigger, event.tokens_before, event.tokens_after)}", "info"
        case ev.CompactionFailed(cancelled=True):
            return event.text, "info"
        case ev.CompactionFailed():
            return f"The conversation was not compacted: {event.text}", "warning"
    raise ValueError(f"no wording for {type(event).__name__}")


def count_accepted_hunks(event: ev.ToolFinished) -> str:
    """How many hunks of a change the user accepted; "" if all."""
    match event.accepted_hunks:
        case [int(accepted), int(proposed)]:
            return f"you accepted {accepted} of {counted(proposed, 'hunk')}"
    return ""


def tool_outcome(event: ev.ToolFinished) -> Outcome:
    if event.outcome in ("done", "denied", "interrupted", "failed"):
        return event.outcome  # type: ignore[return-value]
    return "failed" if event.result.is_error else "done"


def progress_line(event: ev.ToolProgressed) -> str:
    """Progress of a call, which replaces the previous progress; "" if the event is output, which is appended."""
    return plain_line(event.text, 120) if "done" in event.data else ""


def interruption(result: ev.Result | None = None) -> str:
    """The line about an interruption. `result`: of the ended submission."""
    if result is not None and result.errors:
        from agentcli.agent.loop.wording import ABORTED as CAUSES
        from agentcli.core.aio import AbortReason

        if result.errors[0] == CAUSES[AbortReason.SHUTDOWN]:
            return CLOSED
    return INTERRUPTED


def cut_off(session: SessionInfo) -> str:
    """A sentence about a session that was cut off while it worked."""
    when, label = ago(max(0.0, time.time() - session.modified)), plain_line(session.label, _MAX_COMMAND)
    return f"A session was cut off while it worked, {when}: “{label}”."


def describe_changed_files(event: ev.CommandChangedFiles) -> str:
    """`changed 2 files +3 −1`; without the lines if none changed, as in binary files."""
    lines = f" +{event.added} −{event.removed}" if event.added or event.removed else ""
    return f"changed {counted(event.files, 'file')}{lines}"


def result_line(event: ev.Result, reported: Collection[str] = ()) -> tuple[str, Level, tuple[str, ...]] | None:
    """The last line of a submission, its level and the lines below it; None if there is nothing to add. `reported`:
    texts of failures already shown."""
    if event.terminal == "command_failed":
        return None
    if event.terminal == PROMPT_BLOCKED:
        return "The prompt was not sent.", "warning", ()
    if event.is_error:
        errors = tuple(plain_text(error) for error in event.errors if error not in reported)
        ending = _ENDINGS.get(event.terminal)
        if event.errors and not errors and not ending:
            return None
        if ending or not errors:
            return ending or "The request failed.", "error", errors
        return errors[0], "error", errors[1:]
    worked_ms = event.duration_ms - event.waited_ms
    if not event.turns or (event.turns == 1 and worked_ms < 1_000):
        return None
    parts = [duration(worked_ms / 1000)] if worked_ms >= 1_000 else []
    if event.turns > 1:
        parts.append(counted(event.turns, "turn"))
    return " · ".join(parts), "info", ()


_ENDINGS = {
    "max_turns": "Stopped at the turn limit. Send a prompt to continue.",
    "max_budget_usd": "Stopped: the budget is used up.",
}


async def farewell(engine: Engine, ended: str) -> str:
    """The message at exit, once the engine is closed: `ended` from `describe_ended_commands`, what was not saved, and
    the command that resumes the session."""
    lines, path, problem = [ended], engine.session.store.path, engine.session.store.problem
    if path is not None and engine.message_count:
        from shlex import quote

        if problem is not None:
            lines.append(problem.partition(" You can keep working")[0])
        if problem is None or await in_thread(path.exists):
            lines.append(f"To continue this session: agentcli -r {quote(await engine.resume_name())}")
    return "\n".join(filter(None, lines))


def describe_ended_commands(engine: Engine) -> str:
    """The background tasks that closing the engine stops."""
    running = [task for task in engine.background.tasks if task.status == "running"]
    if not running:
        return ""
    shown = [f"{task.id} ({plain_line(task.command, _MAX_COMMAND)})" for task in running[:_MAX_COMMANDS]]
    if len(running) > len(shown):
        shown.append(f"{len(running) - len(shown)} more")
    return f"Stopped {counted(len(running), 'background task')}: {', '.join(shown)}"


def approval_reason(event: ev.PermissionRequested) -> str:
    """Why a call needs approval, in one sentence; "" if the question or the findings say it."""
    if event.self_evident or (event.cause_listed and len(event.findings) > 1):
        return ""
    return f"Needs approval: {event.cause}" if event.cause else event.reason


def approval_findings(event: ev.PermissionRequested) -> list[PartFinding]:
    """Findings about the parts of a command, those that need approval first; none if the only one is the reason."""
    if event.cause_listed and len(event.findings) == 1:
        return []
    return sorted((PartFinding(**record) for record in event.findings), key=lambda finding: finding.allowed)


_CLAIMS = {
    "read-only": "that this tool only reads",
    "destructive": "that this tool may delete or overwrite data",
    "open world": "that this tool reaches beyond this machine",
}


def server_claims(display: Mapping[str, Any]) -> str:
    """One sentence with an MCP server's claims about its tool; "" if there are none."""
    claims = [_CLAIMS[claim] for claim in display.get("claims") or () if claim in _CLAIMS]
    return f"The server says {' and '.join(claims)}. agentcli cannot check it." if claims else ""


def question_of(event: ev.PermissionRequested) -> str:
    """The question above the command or change that needs approval."""
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
            return "Continue?"
        case "text" if question := plain_line(str(event.display.get("question", "")), 80):
            return question
        case "mcp":
            server, tool = (plain_line(str(event.display.get(key, "")), 80) for key in ("server", "tool"))
            return f"Use {tool} of the MCP server {server}?"
        case _:
            return f"Use {plain_line(event.name)}?"
