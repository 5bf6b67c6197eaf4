"""The known states of a session's folders, and what led from each to the next: a call, or a change of the user.

Joins the journal of snapshots, which has trees, with the timeline of the session, which has prompts and calls. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import without_secrets
from agentcli.session.timeline import CallStep, PromptStep, RequestStep, Timeline
from agentcli.workspace.journal import SubmissionRecord

Trees = Mapping[str, str]
"""Trees of the snapshots by folder."""
_READ_ONLY = frozenset({"Read", "Grep", "Glob", "WebFetch", "WebSearch", "TodoWrite", "BashOutput", "AskUserQuestion"})


@slotted
class Change:
    kind: Literal["call", "prompt", "user"]
    """prompt: everything of one prompt, in a session without snapshots of single calls."""
    record: SubmissionRecord
    """The submission it belongs to; for a change of the user between two prompts, the later one."""
    trees: dict[str, tuple[str, str]]
    """The trees before and after it, of the folders that changed."""
    call_id: str = ""
    """"" if it is no call's."""
    previous: SubmissionRecord | None = None
    """The submission before, for a change of the user between the two."""


class States:
    """`changes[n]` leads from state n to state n + 1."""

    def __init__(self, submissions: Sequence[SubmissionRecord]) -> None:
        self.changes: list[Change] = []
        self.first: dict[str, str] = {}
        """The trees of state 0."""
        current: dict[str, str] = {}

        def move(kind: Literal["call", "prompt", "user"], trees: Trees, call_id: str = "") -> None:
            changed = {root: (current[root], tree) for root, tree in trees.items() if current.get(root, tree) != tree}
            for root in trees.keys() - current.keys():
                # It did not exist before, or was not known.
                self.first[root] = trees[root]
            current.update(trees)
            if changed:
                self.changes.append(Change(kind, record, changed, call_id, previous))

        previous: SubmissionRecord | None = None
        for record in submissions:
            move("user", _before(record))
            previous = None
            for span in record.calls:
                move("user", {root: before for root, (before, _after) in span.trees.items()})
                move("call", {root: after for root, (_before, after) in span.trees.items()}, span.call_id)
            if record.after is not None:
                is_users = record.calls or record.restored is not None
                move("user" if is_users else "prompt", {root: one.tree for root, one in record.after.items()})
            previous = record

    def drop(self, missing: Collection[tuple[str, str]]) -> None:
        """Leave out all states up to the last one with a tree that does not exist any more; `missing`: folders with
        their trees. The oldest ones are deleted first."""
        while self.changes and any(item in missing for item in self.list_trees()):
            self.first |= {root: after for root, (_before, after) in self.changes.pop(0).trees.items()}

    def trees(self, state: int) -> dict[str, str]:
        trees = dict(self.first)
        for change in self.changes[:state]:
            trees |= {root: after for root, (_before, after) in change.trees.items()}
        return trees

    def list_trees(self) -> Iterator[tuple[str, str]]:
        """Each tree with its folder, in order."""
        yield from self.first.items()
        for change in self.changes:
            yield from ((root, after) for root, (_before, after) in change.trees.items())

    def span(self, first: int, last: int) -> dict[str, tuple[str, str]]:
        """The trees of the folders that differ between two states."""
        before, after = self.trees(first), self.trees(last)
        return {root: (before[root], after[root]) for root in before if before[root] != after[root]}


def _before(record: SubmissionRecord) -> Trees:
    """The trees before the first call. The snapshot of the submission has ignored files that only a later call named,
    so those of the calls come first."""
    trees = {root: snapshot.tree for root, snapshot in record.before.items()}
    for span in reversed(record.calls):
        trees |= {root: before for root, (before, _after) in span.trees.items()}
    return trees


@frozen
class ChangeOrigin:
    """Where a change comes from. Texts are untrusted."""

    session_id: str
    prompt: PromptStep | None = None
    """None if the session file does not have it."""
    prompt_number: int = 0
    call: CallStep | None = None
    """None for a call of a sub-agent, and if there is no snapshot of single calls."""
    call_number: int = 0
    calls: int = 0
    """Number of all calls on this branch of the session."""
    request: RequestStep | None = None
    """The reply that made the call."""
    others: tuple[CallStep, ...] = ()
    """Calls that ran at the same time and may have made the change instead."""
    is_left: bool = False
    """Whether its prompt is on a branch that was left."""

    @property
    def at(self) -> str:
        """When it was made, as a timestamp; "" if unknown."""
        call, prompt = self.call, self.prompt
        return (call.ended_at if call is not None else "") or (prompt.at if prompt is not None else "")

    @property
    def model(self) -> str:
        if self.request is not None:
            return self.request.model
        return self.prompt.models[-1] if self.prompt is not None and self.prompt.models else ""

    @property
    def title(self) -> str:
        """The call as the transcript shows it; "" if it is not known."""
        return "" if self.call is None else title_of(self.call)

    @property
    def prompt_text(self) -> str:
        return "" if self.prompt is None else plain_line(without_secrets(self.prompt.text), 200)

    def record(self) -> Json:
        """For JSON output."""
        return {
            "session_id": self.session_id,
            "prompt": self.prompt_number or None,
            "prompt_text": "" if self.prompt is None else without_secrets(self.prompt.text),
            "call": self.call_number or None,
            "call_id": "" if self.call is None else self.call.id,
            "title": self.title,
            "model": self.model,
            "at": self.at,
            "cost_usd": None if self.request is None else self.request.cost_usd,
        }


def find_origin(timeline: Timeline, prompt_id: str, call_id: str = "") -> ChangeOrigin:
    leaf = timeline.find_leaf(prompt_id)
    if leaf is None:
        return ChangeOrigin(timeline.session_id)
    prompt = timeline.prompts[prompt_id]
    calls = [call for id in leaf.prompts for call in timeline.prompts[id].calls]
    call = next((one for one in prompt.calls if one.id == call_id), None)
    return ChangeOrigin(
        timeline.session_id,
        prompt,
        leaf.prompts.index(prompt_id) + 1,
        call,
        next((number for number, one in enumerate(calls, 1) if one is call), 0),
        len(calls),
        next((one for one in prompt.requests if call is not None and call in one.calls), None),
        tuple(_overlapping(prompt, call) if call_id else ()),
        is_left=bool(leaf.branch),
    )


def _overlapping(prompt: PromptStep, call: CallStep | None) -> Iterator[CallStep]:
    """Calls during which `call` ended; for one of a sub-agent, the calls that started sub-agents."""
    if call is None:
        yield from (other for other in prompt.calls if other.agents)
        return
    for other in prompt.calls:
        began = other is not call and other.name not in _READ_ONLY and other.started_at
        if began and began < call.ended_at and (not other.ended_at or other.ended_at > call.started_at):
            yield other


def title_of(call: CallStep) -> str:
    subject = next((call.input[name] for name in ("file_path", "notebook_path", "command") if name in call.input), "")
    return plain_line(without_secrets(call.title or f"{call.name} {subject}"), 200)
