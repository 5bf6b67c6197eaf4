"""A summary of the branch that the user leaves, carried over to where the conversation continues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.context.collapse import MAX_SUMMARY, SYSTEM, Span, format_span
from agentcli.agent.ports import EmitEvent
from agentcli.agent.side_call import SideCall
from agentcli.context.estimate import message_tokens
from agentcli.core.aio import AbortSignal
from agentcli.core.messages import NOTE, Message, Origin, clean_text, user_message
from agentcli.core.text.plaintext import plain_text

if TYPE_CHECKING:
    from agentcli.agent.session import Session

_MAX_TOKENS = 2_000
_LEAD = (
    "[The user went back to this point from another branch of the conversation, which you do not see. {files} A "
    "summary of it:]"
)
_STAY = "Files are as that branch left them."
_WENT_BACK = "Files are as they were at this point."


async def summarise_left(
    session: Session, messages: Sequence[Message], signal: AbortSignal, emit: EmitEvent
) -> tuple[str, str]:
    """Let the small model summarise these messages. Returns the summary, or "" and why there is none."""
    span = Span(tuple(messages), "exchange", 1, sum(map(message_tokens, messages)))
    request = replace(session.requests.small(SYSTEM, format_span(span)), max_tokens=_MAX_TOKENS)
    call = SideCall(session)
    await call.run(request, signal, emit)
    if signal.aborted:
        return "", "it was stopped"
    text = clean_text(plain_text(call.text or "")).strip()[:MAX_SUMMARY]
    return text, "" if text else call.failure.message if call.failure is not None else "the model gave none"


def summary_note(summary: str, message_id: str, *, files_stay: bool) -> Message:
    """The note with which the next prompt begins. `files_stay`: whether the files are still those of the branch."""
    lead = _LEAD.format(files=_STAY if files_stay else _WENT_BACK)
    return user_message(f"{lead}\n\n{summary}", message_id, Origin.ATTACHMENT, {NOTE: {"about": "branch"}})
