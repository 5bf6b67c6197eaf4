"""What each prompt changed as the snapshots have it, and where restoring files begins. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.text.format import change_count
from agentcli.history.tree import measure
from agentcli.session.timeline import PromptStep, Timeline
from agentcli.workspace.journal import CallSpan, SubmissionRecord


def find_since(
    submissions: Sequence[SubmissionRecord], timeline: Timeline, prompt_id: str, *, after: bool
) -> int | None:
    """Number of the first submission after a place, on whatever branch; None: no files were changed since. `prompt_id`:
    "" for the start of the conversation."""
    places = {id: place for place, id in enumerate(timeline.prompts)}
    wanted, place = places.get(prompt_id, -1), -1
    for one in submissions:
        place = max(place, places.get(one.prompt_id, place))
        # A restoration has the last prompt before it.
        is_later = place > wanted if after and one.restored is None else place >= wanted
        if is_later and (one.changed or one.missed):
            return one.taken.since if one.taken is not None and one.prompt_id == prompt_id else one.number
    return None


def changes_files_later(timeline: Timeline, prompt_id: str, *, after: bool) -> bool:
    """Whether calls changed files after a place, as far as they reported it."""
    ids = list(timeline.prompts)
    later = ids[ids.index(prompt_id) + after :] if prompt_id in ids else ids
    return any(call.files for id in later for call in timeline.prompts[id].calls)


def submissions_of(prompt: PromptStep, submissions: Sequence[SubmissionRecord]) -> list[SubmissionRecord]:
    """Those of one prompt: several if background agents continued after it."""
    return [one for one in submissions if one.prompt_id == prompt.id and one.restored is None and one.changed]


def spans_of(prompt: PromptStep, submissions: Sequence[SubmissionRecord]) -> list[CallSpan]:
    return [span for one in submissions_of(prompt, submissions) for span in one.calls]


def agent_spans(prompt: PromptStep, submissions: Sequence[SubmissionRecord]) -> list[CallSpan]:
    """What calls of sub-agents changed."""
    own = {call.id for call in prompt.calls}
    return [span for span in spans_of(prompt, submissions) if span.call_id not in own]


def describe_changes(prompt: PromptStep, by_agents: tuple[int, int, int]) -> str:
    """`3 files +10 −2 (1 by command, 1 by sub-agent)`. `by_agents`: files, added and removed lines of sub-agents."""
    totals = measure([prompt])
    edits = {call.id for call in prompt.calls if call.end is not None and call.end.display.get("kind") == "diff"}
    commands = sum(call.files for call in prompt.calls if call.id not in edits)
    files = totals.files + by_agents[0]
    if not files:
        return "no files"
    kinds = ((totals.files - commands, "edit"), (commands, "command"), (by_agents[0], "sub-agent"))
    by = [f"{number} by {kind}" for number, kind in kinds if number > 0]
    text = change_count(files, totals.added + by_agents[1], totals.removed + by_agents[2])
    return f"{text} ({', '.join(by)})" if commands or by_agents[0] else text
