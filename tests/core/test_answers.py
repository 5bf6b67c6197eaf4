from __future__ import annotations

import pytest

from agentcli.core.messages import (
    EXTENDS_ANSWER,
    Message,
    Origin,
    TextBlock,
    ToolUseBlock,
    answers,
    user_message,
)


def said(text: str, stop_reason: str | None = "end_turn", **meta: str) -> Message:
    return Message("assistant", (TextBlock(text),), text, Origin.REPLY, stop_reason=stop_reason, meta=meta)


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "pause_turn"])
def test_pieces_of_a_continued_reply_are_one_answer(reason: str) -> None:
    asked = user_message("Go on.", "r", Origin.RECOVERY)
    log = [said("The quick bro", reason), asked, said("wn fox "), said("Another.")]
    assert answers(log) == ["The quick brown fox ", "Another."]


def test_a_cut_reply_with_a_call_is_an_answer_of_its_own() -> None:
    content = (TextBlock("Looking."), ToolUseBlock("1", "Look", {}))
    called = Message("assistant", content, "c", Origin.REPLY, stop_reason="max_tokens")
    assert answers([called, said("Done.")]) == ["Looking.", "Done."]


def test_replies_that_a_token_target_asked_for_are_paragraphs_of_the_answer() -> None:
    asked = user_message("Go on.", "r", Origin.RECOVERY, {EXTENDS_ANSWER: True})
    log = [said("One.\n"), asked, said("Two is lo", "max_tokens"), said("ng."), asked, said("\nThree.")]
    following = [user_message("new", "p", Origin.PROMPT), said("Else."), said("More.")]
    assert answers([*log, *following]) == ["One.\n\nTwo is long.\n\nThree.", "Else.", "More."]
