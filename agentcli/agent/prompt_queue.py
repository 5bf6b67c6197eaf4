"""Prompts that the user sent while the agent worked, until the loop picks them up (SPEC 2.6)."""

from __future__ import annotations

from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, TextBlock, clean_text

Priority = Literal["now", "next", "later"]
"""When the running work takes a prompt in: `next` after the next tool results, `later` when the work would end, `now`
at the first of both. What is `next` when the work ends stays queued, for a submission of its own."""
_RANK: dict[Priority, int] = {"now": 0, "next": 1, "later": 2}

Prompt = str | tuple[Block, ...]


@frozen
class QueuedPrompt:
    id: str
    content: tuple[Block, ...]
    priority: Priority
    mentions: str | None = None
    """Text whose `@path` mentions are attached; None: the prompt's own."""

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


def prompt_blocks(prompt: Prompt) -> tuple[Block, ...]:
    return (TextBlock(clean_text(prompt)),) if isinstance(prompt, str) else tuple(prompt)


class PromptQueue:
    def __init__(self) -> None:
        self._waiting: list[QueuedPrompt] = []

    def add(self, prompt: QueuedPrompt) -> None:
        self._waiting.append(prompt)

    def take(self, most: Priority = "later") -> tuple[QueuedPrompt, ...]:
        """Remove and return all prompts up to a priority, `now` first, in order of arrival within one priority."""
        taken = sorted(
            (p for p in self._waiting if _RANK[p.priority] <= _RANK[most]), key=lambda prompt: _RANK[prompt.priority]
        )
        self._waiting = [p for p in self._waiting if p not in taken]
        return tuple(taken)

    def first(self, most: Priority = "later") -> QueuedPrompt | None:
        """The next prompt up to a priority. The caller that logs it removes it in the same step, so that it is never
        lost."""
        waiting = [p for p in self._waiting if _RANK[p.priority] <= _RANK[most]]
        return min(waiting, key=lambda prompt: _RANK[prompt.priority], default=None)

    @property
    def holds_back_end(self) -> bool:
        """Whether the work may not end before the queued prompts are taken in."""
        return any(prompt.priority != "next" for prompt in self._waiting)

    def remove(self, prompt_id: str) -> QueuedPrompt | None:
        found = next((prompt for prompt in self._waiting if prompt.id == prompt_id), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(prompt.id for prompt in self._waiting)
