"""Answers that span several replies.

A reply that reached the output cap, filled the context window or was paused by the server is continued by the next
reply. For the user the pieces are one answer: their texts are joined without a separator, because the model continues
in the middle of a sentence or a word. Replies that a token target asked for extend a finished answer by paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentcli.core.messages import EXTENDS_ANSWER, Message, Origin

_UNFINISHED = ("max_tokens", "model_context_window_exceeded", "pause_turn")
"""Stop reasons after which the next reply continues the answer."""
_PROMPTS = (Origin.PROMPT, Origin.QUEUED)


def is_continued(message: Message) -> bool:
    """Whether the next reply continues this one. A reply with tool calls is complete: its results follow."""
    return (
        message.origin is Origin.REPLY
        and not message.is_copy
        and message.stop_reason in _UNFINISHED
        and not message.tool_uses
    )


class AnswerTracker:
    """Follows a conversation message by message."""

    def __init__(self) -> None:
        self.unfinished = False
        """Whether the next reply continues the text of the answer."""
        self.extends = False
        """Whether all replies until the next prompt belong to the answer."""

    def take(self, message: Message) -> None:
        if message.is_copy:
            return
        if message.origin is Origin.REPLY:
            self.unfinished = is_continued(message)
        elif message.origin in _PROMPTS:
            self.unfinished = self.extends = False
        elif message.meta.get(EXTENDS_ANSWER):
            self.extends = True

    def joined(self, answer: str, text: str) -> str:
        """The answer so far with the text of the next reply."""
        if self.unfinished:
            return answer + text
        if not self.extends:
            return text
        return "\n\n".join(part for part in (answer.rstrip(), text.lstrip("\n")) if part)


def answers(messages: Iterable[Message]) -> list[str]:
    """The text of every answer, oldest first; replies without text are skipped."""
    found: list[str] = []
    tracker = AnswerTracker()
    for message in messages:
        if message.origin is Origin.REPLY and not message.is_copy and message.text:
            if (tracker.unfinished or tracker.extends) and found:
                found[-1] = tracker.joined(found[-1], message.text)
            else:
                found.append(message.text)
        tracker.take(message)
    return found
