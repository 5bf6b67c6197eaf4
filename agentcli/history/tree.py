"""The tree of a session: all prompts of all branches as rows with drawn lines, and what going back to one costs.

A branch is a conversation from the first prompt to a leaf. The current branch is drawn straight down; others stand
indented where they begin. Texts are safe to show.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentcli.agent.costs.cache_watch import LONG_TTL, SHORT_TTL
from agentcli.context.report import ChangePrice, ExpectedCache
from agentcli.core.frozen import frozen
from agentcli.core.ids import seconds_between
from agentcli.core.text.format import ago, change_count, counted, money, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import Price, Usage
from agentcli.session.base import Rewind
from agentcli.session.timeline import PromptStep, RequestStep, Timeline

_MAX_LEVELS = 12
"""Levels of branches that are drawn; deeper ones are not indented any further."""


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
        files = change_count(self.files, self.added, self.removed) or "no files"
        return " · ".join((files, money(self.cost_usd), f"{token_count(self.tokens)} tokens"))


@frozen
class TreeRow:
    prompt: str
    """Id of the prompt; "" for the start of the conversation."""
    lines: str
    """The drawn lines before it."""
    mark: str
    """● on the current branch, ○ on others, ◉ where the conversation continues."""
    label: str
    at: str
    changes: PromptTotals
    names: tuple[str, ...] = ()
    """Names of the branches that end here."""
    branch: PromptTotals = PromptTotals()
    """What the branch that ends here changed since it began; empty if none ends here, or if it is the only one."""

    def facts(self, now: str) -> str:
        if not self.prompt:
            return ""
        parts = [self.changes.text, ago(seconds_between(self.at, now) or 0.0)]
        if self.branch.prompts > 1:
            parts.append(f"branch: {counted(self.branch.prompts, 'prompt')}, {self.branch.text}")
        return " · ".join(parts)

    @property
    def is_here(self) -> bool:
        """Whether the conversation continues after it."""
        return self.mark == "◉"

    @property
    def title(self) -> str:
        # The name stands first, because lists cut the end of long prompts.
        return "".join(f"[{name}] " for name in self.names) + self.label


def measure(prompts: Sequence[PromptStep]) -> PromptTotals:
    """What these prompts cost and changed. A file that was edited twice counts once."""
    named: set[str] = set()
    others = added = removed = 0
    usage = Usage()
    for prompt in prompts:
        usage = usage + prompt.usage
        for call in prompt.calls:
            if call.files and call.path:
                named.add(call.path)
            else:
                others += call.files
            added, removed = added + call.added, removed + call.removed
    tokens = usage.prompt_tokens + usage.output_tokens
    cost = sum(prompt.cost_usd for prompt in prompts)
    return PromptTotals(len(prompts), tokens, cost, len(named) + others, added, removed)


def build_tree(timeline: Timeline) -> list[TreeRow]:
    """All rows, from the first prompt on: each branch stands before the rest of the one that it leaves."""
    path = timeline.leaves[-1].prompts if timeline.leaves else ()
    current = frozenset(path)
    children: dict[str, list[str]] = {"": []}
    for step in timeline.prompts.values():
        children.setdefault(step.parent, []).append(step.id)
    ends: dict[str, list[str]] = {}
    for leaf in timeline.leaves:
        ends.setdefault(leaf.prompts[-1] if leaf.prompts else "", []).append(plain_line(leaf.name, 60))
    forks = {id for id, following in children.items() if len(following) > 1} | ends.keys()
    rows: list[TreeRow] = []
    if not current or len(children[""]) > 1:
        mark = "●" if current else "◉"
        rows.append(TreeRow("", "", mark, "start of the conversation", timeline.began, PromptTotals()))
    waiting = _in_order(children[""], current, "")
    while waiting:
        prompt_id, above, lead = waiting.pop()
        step, names = timeline.prompts[prompt_id], ends.get(prompt_id, [])
        own = _own_prompts(timeline, prompt_id, forks) if names and len(timeline.leaves) > 1 else []
        rows.append(
            TreeRow(
                prompt_id,
                f"{above}{lead}",
                "◉" if prompt_id in path[-1:] else "●" if prompt_id in current else "○",
                plain_line(step.text, 200) or "(no text)",
                step.at,
                measure([step]),
                names=tuple(dict.fromkeys(filter(None, names))),
                branch=measure(own),
            )
        )
        inner = f"{above}│ "[: 2 * _MAX_LEVELS] if lead else above
        waiting += _in_order(children.get(prompt_id, []), current, inner)
    return rows


def _in_order(children: Sequence[str], current: Collection[str], above: str) -> list[tuple[str, str, str]]:
    """Children with the lines above and beside them, the first one to draw last: branches, then the one that continues
    straight down, which is that of the current branch or else the last one."""
    if not children:
        return []
    straight = next((one for one in children if one in current), children[-1])
    return [(straight, above, ""), *((one, above, "├─") for one in reversed(children) if one != straight)]


def _own_prompts(timeline: Timeline, last: str, forks: Collection[str]) -> list[PromptStep]:
    """The prompts of a branch since it left another one, or since another one left it."""
    path = path_to(timeline, last)
    begin = next((place for place in range(len(path) - 1, 0, -1) if path[place].parent in forks), 0)
    return path[begin:]


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
        shared: PromptStep | None = step
        while shared is not None and shared.id not in on_path:
            shared = timeline.prompts.get(shared.parent)
        before = path[: on_path[shared.id] + 1] if shared is not None else []
        last = warm[-1] if shared is step else _last_request(before)
        if last is not None and last.model == model:
            usage = last.usage
            cached = max(cached, usage.cache_read_input_tokens + usage.cache_creation_input_tokens)
            long_lived = long_lived or usage.cache_write_1h_tokens > 0
    lost = max(0, size - cached)
    write = ExpectedCache(long_lived=long_lived).writing(lost)
    return ChangePrice(lost, None if price is None else price.at(size).cost(write))


def _turns(step: PromptStep) -> list[RequestStep]:
    return [one for one in step.requests if one.purpose == "turn" and not one.agent and one.usage.prompt_tokens]


def _last_request(path: Sequence[PromptStep]) -> RequestStep | None:
    return next((found[-1] for step in reversed(path) if (found := _turns(step))), None)


def _is_warm(request: RequestStep, model: str, now: str) -> bool:
    age = seconds_between(request.ended_at, now)
    lives = LONG_TTL if request.usage.cache_write_1h_tokens else SHORT_TTL
    return request.model == model and age is not None and age < lives
