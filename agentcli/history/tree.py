"""The tree of a session: all prompts of all branches as rows with drawn lines, and what going back to one costs.

A branch is a conversation from the first prompt to a leaf. The current branch is drawn straight down; others stand
indented where they begin. Texts are safe to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentcli.agent.costs.cache_watch import LONG_TTL, SHORT_TTL
from agentcli.context.report import ChangePrice
from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.ids import seconds_between
from agentcli.core.text.format import ago, counted, money, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Price, Usage
from agentcli.session.base import Rewind
from agentcli.session.timeline import Leaf, PromptStep, RequestStep, Timeline

MAX_LEVELS = 12
"""Levels of branches that are drawn; deeper ones are not indented any further."""
MAX_LABEL = 200
HERE = "you are here"


@frozen
class PromptTotals:
    """What prompts cost and changed."""

    prompts: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    files: int = 0
    added: int = 0
    removed: int = 0

    @property
    def text(self) -> str:
        """`3 files +40 −2 · $0.12 · 12k tokens`."""
        files = f"{counted(self.files, 'file')} +{self.added} −{self.removed}" if self.files else "no files"
        return " · ".join((files, money(self.cost_usd), f"{token_count(self.tokens)} tokens"))


@frozen
class TreeRow:
    prompt: str
    """Id of the prompt; "" for the start of the conversation and for other sessions."""
    stem: str
    """Drawn lines and the mark: ● on the current branch, ○ on others, ◇ for another session."""
    label: str
    is_current: bool
    is_here: bool
    """Whether the conversation continues after it."""
    at: str
    changes: PromptTotals
    name: str = ""
    """Name of the branch that ends here."""
    branch: PromptTotals | None = None
    """What the branch that ends here changed since it began; None if none ends here, or if it is the only one."""
    session: str = ""
    """Id of another session: the origin of this one, or a copy of it."""

    def facts(self, now: str) -> str:
        if self.session or not self.prompt:
            return ""
        parts = [self.changes.text, ago(seconds_between(self.at, now) or 0.0)]
        if self.branch is not None and self.branch.prompts > 1:
            parts.append(f"branch: {counted(self.branch.prompts, 'prompt')}, {self.branch.text}")
        return " · ".join(parts)

    @property
    def indent(self) -> str:
        """What stands before a second line of the row."""
        return f"{self.stem[:-1].replace('├─', '│ ')}  "

    @property
    def title(self) -> str:
        """Its drawn line without the facts."""
        name = f"  [{self.name}]" if self.name else ""
        return f"{self.stem} {self.label}{name}{f'  ← {HERE}' if self.is_here else ''}"


@slotted
class _Nodes:
    """The prompts of a timeline by their parents."""

    timeline: Timeline
    children: dict[str, list[str]] = field(default_factory=dict)
    current: tuple[str, ...] = ()
    ends: dict[str, list[Leaf]] = field(default_factory=dict)
    """Leaves by their last prompt."""


def measure(prompts: Sequence[PromptStep]) -> PromptTotals:
    """What these prompts cost and changed. A file that was edited twice counts once."""
    named: set[str] = set()
    others = added = removed = 0
    usage = Usage()
    for prompt in prompts:
        usage = usage + prompt.usage
        for call in prompt.calls:
            path = call.input.get("file_path") or call.input.get("notebook_path")
            if call.files and isinstance(path, str):
                named.add(path)
            else:
                others += call.files
            added, removed = added + call.added, removed + call.removed
    tokens = usage.prompt_tokens + usage.output_tokens
    cost = sum(prompt.cost_usd for prompt in prompts)
    return PromptTotals(len(prompts), tokens, cost, len(named) + others, added, removed)


def build_tree(
    timeline: Timeline, origin: str = "", copies: Mapping[str, tuple[str, str]] | None = None
) -> list[TreeRow]:
    """All rows, from the first prompt on. `origin`: name of the session that this one was copied from, if it is known;
    `copies`: sessions that were copied from this one, as their name and the time of the copy by id."""
    nodes = _nodes_of(timeline)
    is_alone, here = len(timeline.leaves) < 2, nodes.current[-1] if nodes.current else ""
    rows = list(_draw(nodes))
    if timeline.forked_from and origin:
        label = f"copied from the session {plain_line(origin, MAX_LABEL)}"
        rows.insert(
            0, TreeRow("", "◇", label, False, False, timeline.began, PromptTotals(), session=timeline.forked_from)
        )
    if not here or len(nodes.children.get("", ())) > 1:
        rows.insert(0, TreeRow("", "●", "start of the conversation", True, not here, timeline.began, PromptTotals()))
    found = []
    for row in rows:
        step = timeline.prompts.get(row.prompt)
        if step is None:
            found.append(row)
            continue
        leaves = nodes.ends.get(row.prompt, [])
        names = ", ".join(dict.fromkeys(plain_line(leaf.name, 60) for leaf in leaves if leaf.name))
        branch = measure(_own_prompts(nodes, row.prompt)) if leaves and not is_alone else None
        row = replace(row, name=names, branch=branch, is_here=row.prompt == here, changes=measure([step]))
        found.append(row)
        found += _copies_after(row, timeline, copies or {})
    return found


def _nodes_of(timeline: Timeline) -> _Nodes:
    nodes = _Nodes(timeline, current=timeline.leaves[-1].prompts if timeline.leaves else ())
    for prompt in timeline.prompts.values():
        nodes.children.setdefault(prompt.parent, []).append(prompt.id)
    for leaf in timeline.leaves:
        if leaf.prompts:
            nodes.ends.setdefault(leaf.prompts[-1], []).append(leaf)
    return nodes


def _draw(nodes: _Nodes) -> Iterator[TreeRow]:
    """Rows in the order of the drawing: each branch stands before the rest of the one that it leaves."""
    current = frozenset(nodes.current)
    roots = nodes.children.get("", [])
    waiting = [(one, "", lead) for one, lead in reversed(_in_order(roots, current))]
    while waiting:
        prompt_id, prefix, lead = waiting.pop()
        step = nodes.timeline.prompts[prompt_id]
        is_current = prompt_id in current
        label = plain_line(step.text, MAX_LABEL) or "(no text)"
        yield TreeRow(
            prompt_id, f"{prefix}{lead}{'●' if is_current else '○'}", label, is_current, False, step.at, PromptTotals()
        )
        inner = f"{prefix}│ "[: 2 * MAX_LEVELS] if lead else prefix
        children = _in_order(nodes.children.get(prompt_id, []), current)
        waiting += [(one, inner, lead) for one, lead in reversed(children)]


def _in_order(children: Sequence[str], current: frozenset[str]) -> list[tuple[str, str]]:
    """Children in the order of the drawing with what leads to them: branches, then the one that continues straight
    down, which is that of the current branch or else the last one."""
    if not children:
        return []
    straight = next((one for one in children if one in current), children[-1])
    return [*((one, "├─") for one in children if one != straight), (straight, "")]


def _own_prompts(nodes: _Nodes, leaf: str) -> list[PromptStep]:
    """The prompts of a branch since it left another one, or since another one left it."""
    own: list[PromptStep] = []
    step = nodes.timeline.prompts.get(leaf)
    while step is not None:
        own.append(step)
        if len(nodes.children.get(step.parent, ())) > 1 or step.parent in nodes.ends:
            break
        step = nodes.timeline.prompts.get(step.parent)
    return own


def _copies_after(row: TreeRow, timeline: Timeline, copies: Mapping[str, tuple[str, str]]) -> Iterator[TreeRow]:
    """Rows of the sessions that were copied when this prompt was the last one sent."""
    ids = list(timeline.prompts)
    place = ids.index(row.prompt)
    until = timeline.prompts[ids[place + 1]].at if place + 1 < len(ids) else "~"
    for session, (name, at) in copies.items():
        if row.at <= at < until or (place == 0 and at < row.at):
            stem = f"{row.stem[:-1]}├─◇" if row.stem[:-1] != "├─" else "│ ├─◇"
            label = f"copied to the session {plain_line(name, MAX_LABEL)}"
            yield TreeRow("", stem, label, False, False, at, PromptTotals(), session=session)


def read_copies(sessions: Path, session_id: str) -> dict[str, tuple[str, str]]:
    """Sessions in a folder that were copied from this one: name and time of the copy by id. Blocking."""
    from agentcli.session.find import describe_session
    from agentcli.session.load import read_records

    found: dict[str, tuple[str, str]] = {}
    for path in sorted(sessions.glob("*.jsonl")):
        try:
            first = next(read_records(path), {})
        except OSError:
            continue
        if first.get("forkedFrom") == session_id and (info := describe_session(path)) is not None:
            found[path.stem] = (info.label, str(first.get("timestamp") or ""))
    return found


# --------------------------------------------------------------------------------------------------------- going back


def place_after(timeline: Timeline, prompt_id: str) -> Rewind | None:
    """Where to continue after a prompt: at the end of a branch, or where one goes on. None: the conversation is there
    already. "" stands for the start of the conversation."""
    leaf = next((one for one in reversed(timeline.leaves) if one.prompts[-1:] == (prompt_id,)), None)
    leaf = leaf or timeline.find_leaf(prompt_id) or next((one for one in timeline.leaves if one.prompts), None)
    if leaf is None:
        return None
    following = leaf.prompts.index(prompt_id) + 1 if prompt_id in leaf.prompts else 0
    if following < len(leaf.prompts):
        is_there = timeline.leaves[-1].prompts == leaf.prompts[:following]
        return None if is_there else Rewind(before=leaf.prompts[following], branch=leaf.branch)
    return Rewind(branch=leaf.branch) if leaf.branch else None


def place_before(timeline: Timeline, prompt_id: str) -> Rewind | None:
    """Where to continue instead of a prompt; None if there is no such prompt."""
    leaf = timeline.find_leaf(prompt_id)
    return None if leaf is None else Rewind(before=prompt_id, branch=leaf.branch)


def path_to(timeline: Timeline, prompt_id: str) -> list[PromptStep]:
    """A prompt and all before it on its branches, from the first one."""
    path: list[PromptStep] = []
    step = timeline.prompts.get(prompt_id)
    while step is not None:
        path.append(step)
        step = timeline.prompts.get(step.parent)
    return path[::-1]


def left_prompts(timeline: Timeline, prompt_id: str) -> list[PromptStep]:
    """The prompts of the current branch that a conversation which continues after this prompt does not have."""
    kept = {step.id for step in path_to(timeline, prompt_id)}
    return [step for step in timeline.current if step.id not in kept]


def price_of_return(timeline: Timeline, prompt_id: str, model: str, price: Price | None, now: str) -> ChangePrice:
    """What the next request after this prompt bills again: all that no answered request of the same model has left in
    the prompt cache, which forgets an entry a while after its last use."""
    path = path_to(timeline, prompt_id)
    whole = _last_request(path)
    if whole is None:
        return ChangePrice(0, 0.0)
    size = whole.usage.prompt_tokens + whole.usage.output_tokens
    cached, on_path = 0, {step.id: place for place, step in enumerate(path)}
    long_lived = False
    for step in timeline.prompts.values():
        warm = [one for one in _turns(step) if _is_warm(one, model, now)]
        if not warm:
            continue
        shared = next((one for one in reversed(path_to(timeline, step.id)) if one.id in on_path), None)
        last = (
            warm[-1] if shared is step else _last_request(path[: on_path[shared.id] + 1] if shared is not None else [])
        )
        if last is not None and last.model == model:
            usage = last.usage
            cached = max(cached, usage.cache_read_input_tokens + usage.cache_creation_input_tokens)
            long_lived = long_lived or usage.cache_write_1h_tokens > 0
    lost = max(0, size - cached)
    write = Usage(cache_write_1h_tokens=lost) if long_lived else Usage(cache_write_5m_tokens=lost)
    return ChangePrice(lost, None if price is None else price.at(size).cost(write))


def _turns(step: PromptStep) -> list[RequestStep]:
    return [one for one in step.requests if one.purpose == "turn" and not one.agent and one.usage.prompt_tokens]


def _last_request(path: Sequence[PromptStep]) -> RequestStep | None:
    return next((found[-1] for step in reversed(path) if (found := _turns(step))), None)


def _is_warm(request: RequestStep, model: str, now: str) -> bool:
    age = seconds_between(request.ended_at, now)
    lives = LONG_TTL if request.usage.cache_write_1h_tokens else SHORT_TTL
    return request.model == model and age is not None and age < lives
