"""Format events as single lines for standard error, and rate their importance. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentcli.core import events as ev
from agentcli.core.events import Event, PermissionDenied
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.wording import event_line, whose

_LONGEST_TITLE = 80
_MOST_TITLES = 3
ALWAYS, WATCHED, VERBOSE = 3, 2, 1
"""Importance: shown always; if standard error is a terminal; only with --verbose."""


_IMPORTANCE: dict[type[Event], int] = {
    ev.RetryScheduled: WATCHED,
    ev.StreamWentQuiet: WATCHED,
    ev.ModelFellBack: WATCHED,
    ev.LoopSuspected: WATCHED,
    ev.AgentStarted: WATCHED,
    ev.AgentMoved: WATCHED,
    ev.AgentFinished: WATCHED,
    ev.FeatureDropped: VERBOSE,
    ev.RequestRepaired: VERBOSE,
    ev.CompactionFailed: VERBOSE,
    ev.PermissionDenied: VERBOSE,
    ev.PrefixBroken: VERBOSE,
    ev.ContextEdited: VERBOSE,
    ev.ContextCompacted: VERBOSE,
    ev.NoticeRaised: ALWAYS,
    ev.HookFinished: ALWAYS,
}
"""Importance by event type; `importance` changes it for some events."""
_STOPPABLE = (ev.RetryScheduled, ev.StreamWentQuiet)


def importance(event: Event) -> int:
    """How important an event is; 0 for one that has no line."""
    most = _IMPORTANCE.get(type(event), 0)
    if not most:
        return 0
    if isinstance(event, ev.NoticeRaised):
        # The output of a command is the answer itself.
        return 0 if event.code == "command" else VERBOSE if event.level == "info" else most
    if isinstance(event, ev.HookFinished) and not event.is_notable:
        return 0
    if isinstance(event, ev.FeatureDropped) and event.requested:
        return ALWAYS
    return most


def notice(event: Event) -> str:
    """The line about an event that has one."""
    if isinstance(event, ev.NoticeRaised):
        return _line(f"{whose(event)}{event.text}")
    if isinstance(event, ev.HookFinished):
        return _line(event_line(event)[0])
    stop = ". Ctrl+C stops." if isinstance(event, _STOPPABLE) else ""
    return _line(f"{whose(event)}{event_line(event)[0]}{stop}")


def denial_summary(denied: Sequence[PermissionDenied]) -> str:
    """One line about all denied calls of a run, with the flag that would allow them."""
    counts = Counter(event.title or event.name for event in denied)
    shown = [
        f"`{plain_line(title, _LONGEST_TITLE)}`{f' ({times} times)' if times > 1 else ''}"
        for title, times in counts.most_common(_MOST_TITLES)
    ]
    if len(counts) > len(shown):
        shown.append(f"{len(counts) - len(shown)} more")
    calls = "1 call was" if len(denied) == 1 else f"{len(denied)} calls were"
    text = f"{calls} denied: {', '.join(shown)}."
    rules = list(dict.fromkeys(rule for event in denied for rule in event.rules))
    if not rules:
        return text
    from agentcli.agent.toolcalls.refusals import allow_flag

    every = all(event.rules for event in denied)
    return f"{text} To allow {'them' if every and len(denied) > 1 else 'it' if every else 'some'}: {allow_flag(rules)}"


def ended_summary(tasks: Sequence[Json]) -> str:
    """One line about the background commands that were stopped at the end of the run."""
    shown = [f"{task['task_id']} ({plain_line(task['command'], _LONGEST_TITLE)})" for task in tasks[:_MOST_TITLES]]
    if len(tasks) > len(shown):
        shown.append(f"{len(tasks) - len(shown)} more")
    were = "1 background task was" if len(tasks) == 1 else f"{len(tasks)} background tasks were"
    them = "it" if len(tasks) == 1 else "them"
    return f"{were} still running and stopped at the end: {', '.join(shown)}. --wait-background waits for {them}."


def _line(text: str) -> str:
    return plain_line(text, 600)
