"""Format events as single lines for standard error, and decide which are shown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from agentcli.core import events as ev
from agentcli.core.events import Event, PermissionDenied
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.wording import event_line, whose

_MAX_TITLE = 80
_MAX_TITLES = 3
_VERBOSITIES = ("always", "terminal", "verbose", "never")


def is_shown(event: Event, verbosity: Literal["verbose", "terminal", "always"]) -> bool:
    """Whether standard error shows the line of an event. `verbosity`: with --verbose, on a terminal, or neither."""
    if isinstance(event, ev.NoticeRaised) and event.code == "command":
        return False  # The output of a command is the answer itself.
    if not event.policy.line or (isinstance(event, ev.HookFinished) and not event.is_notable):
        return False
    shown: str = event.policy.stderr
    if isinstance(event, ev.NoticeRaised) and event.level == "info":
        shown = "verbose"
    elif isinstance(event, ev.FeatureDropped) and event.requested:
        shown = "always"
    return _VERBOSITIES.index(shown) <= _VERBOSITIES.index(verbosity)


def notice(event: Event) -> str:
    """The line about an event that has one."""
    if isinstance(event, ev.NoticeRaised):
        return _line(f"{whose(event)}{event.text}")
    if isinstance(event, ev.HookFinished):
        return _line(event_line(event)[0])
    stop = ". Ctrl+C stops." if isinstance(event, ev.RetryScheduled | ev.StreamWentQuiet) else ""
    return _line(f"{whose(event)}{event_line(event)[0]}{stop}")


def denial_summary(denied: Sequence[PermissionDenied]) -> str:
    """One line about all denied calls of a run, with the flag that would allow them."""
    counts = Counter(event.title or event.name for event in denied)
    shown = [
        f"`{plain_line(title, _MAX_TITLE)}`{f' ({times} times)' if times > 1 else ''}"
        for title, times in counts.most_common(_MAX_TITLES)
    ]
    if len(counts) > len(shown):
        shown.append(f"{len(counts) - len(shown)} more")
    calls = "1 call was" if len(denied) == 1 else f"{len(denied)} calls were"
    text = f"{calls} denied: {', '.join(shown)}."
    rules = list(dict.fromkeys(rule for event in denied for rule in event.rules))
    if not rules:
        return text
    from agentcli.agent.toolcalls.calls import allow_flag

    every = all(event.rules for event in denied)
    return f"{text} To allow {'them' if every and len(denied) > 1 else 'it' if every else 'some'}: {allow_flag(rules)}"


def summarize_ended(tasks: Sequence[Json]) -> str:
    """One line about the background commands that were stopped at the end of the run."""
    shown = [f"{task['task_id']} ({plain_line(task['command'], _MAX_TITLE)})" for task in tasks[:_MAX_TITLES]]
    if len(tasks) > len(shown):
        shown.append(f"{len(tasks) - len(shown)} more")
    were = "1 background task was" if len(tasks) == 1 else f"{len(tasks)} background tasks were"
    them = "it" if len(tasks) == 1 else "them"
    return f"{were} still running and stopped at the end: {', '.join(shown)}. --wait-background waits for {them}."


def _line(text: str) -> str:
    return plain_line(text, 600)
