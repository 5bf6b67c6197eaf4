"""Events as single lines on standard error: their wording and importance. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentcli.core.events import (
    CompactionFailed,
    ContextCompacted,
    ContextEdited,
    Event,
    FeatureDropped,
    LoopSuspected,
    ModelFellBack,
    NoticeRaised,
    PermissionDenied,
    PrefixBroken,
    RequestRepaired,
    RetryScheduled,
    StreamWentQuiet,
)
from agentcli.core.messages import Json
from agentcli.core.plaintext import plain_line

_LONGEST_TITLE = 80
_MOST_TITLES = 3
ALWAYS, WATCHED, VERBOSE = 3, 2, 1
"""Shown always; if standard error is a terminal; only with --verbose."""


def notice(event: Event) -> tuple[int, str] | None:
    """Importance and text of the line for an event; None if it has none."""
    match event:
        case NoticeRaised(code="command"):
            return None  # it is the answer itself
        case NoticeRaised(text=text, level=level):
            return (VERBOSE if level == "info" else ALWAYS), _line(text)
        case RetryScheduled():
            return WATCHED, _line(
                f"{event.text} Attempt {event.attempt} of {event.max_attempts} in {event.wait_seconds:.0f} s; "
                "Ctrl+C stops."
            )
        case StreamWentQuiet(seconds=seconds):
            return WATCHED, f"No data for {seconds:.0f} s; still waiting. Ctrl+C stops."
        case ModelFellBack(from_model=old, to_model=new, reason=reason):
            return WATCHED, _line(f"Continuing with {new} instead of {old}: {reason}")
        case FeatureDropped(text=text) | RequestRepaired(text=text) | CompactionFailed(text=text):
            return VERBOSE, _line(text)
        case LoopSuspected(title=title, times=times):
            return WATCHED, _line(f"{title}: the same result {times} times in a row.")
        case PermissionDenied(name=name, reason=reason):
            return VERBOSE, _line(f"{name} was not allowed: {reason}")
        case PrefixBroken(block=block, reason=reason, rebilled_tokens=tokens):
            return VERBOSE, _line(f"The prompt cache broke at {block}: {reason}. {tokens:,} tokens were billed again.")
        case ContextEdited(step=step, text=text, freed_tokens=freed):
            return VERBOSE, _line(f"The context was edited ({step}): {text or 'old content'}. {_freed(freed)}")
        case ContextCompacted(tokens_before=before, tokens_after=after):
            return VERBOSE, f"The conversation was summarised: {before} tokens became {after}."
        case _:
            return None


def refusal_summary(refused: Sequence[PermissionDenied]) -> str:
    """One line about all refused calls of a run, with the flag that would allow them."""
    counts = Counter(event.title or event.name for event in refused)
    shown = [
        f"`{plain_line(title, _LONGEST_TITLE)}`{f' ({times} times)' if times > 1 else ''}"
        for title, times in counts.most_common(_MOST_TITLES)
    ]
    if len(counts) > len(shown):
        shown.append(f"{len(counts) - len(shown)} more")
    calls = "1 call was" if len(refused) == 1 else f"{len(refused)} calls were"
    text = f"{calls} refused: {', '.join(shown)}."
    rules = list(dict.fromkeys(rule for event in refused for rule in event.rules))
    if not rules:
        return text
    from agentcli.agent.toolcalls.refusals import allow_flag

    every = all(event.rules for event in refused)
    return f"{text} To allow {'them' if every and len(refused) > 1 else 'it' if every else 'some'}: {allow_flag(rules)}"


def ended_summary(tasks: Sequence[Json]) -> str:
    """One line about the background commands that were stopped at the end of the run."""
    shown = [f"{task['task_id']} ({plain_line(task['command'], _LONGEST_TITLE)})" for task in tasks[:_MOST_TITLES]]
    if len(tasks) > len(shown):
        shown.append(f"{len(tasks) - len(shown)} more")
    were = "1 background command was" if len(tasks) == 1 else f"{len(tasks)} background commands were"
    them = "it" if len(tasks) == 1 else "them"
    return f"{were} still running and stopped at the end: {', '.join(shown)}. --wait-background waits for {them}."


def _freed(tokens: int) -> str:
    return f"About {tokens:,} tokens are free." if tokens >= 0 else f"About {-tokens:,} tokens were restored."


def _line(text: str) -> str:
    return plain_line(text, 600)
