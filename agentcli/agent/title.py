"""The generated title of a session: one short request to the small model, after the first answer, for which nothing
waits. A name given by the user always wins, and a failure is silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agentcli.agent.session import Session
from agentcli.agent.side_call import SideCall
from agentcli.core import events as ev
from agentcli.core.aio import AbortController
from agentcli.core.messages import Origin
from agentcli.core.text.plaintext import plain_line

SYSTEM = (
    "You name conversations with a coding agent. Answer with a title of three to seven words for the task, in the "
    "language of the prompt, without quotes and without a full stop. Do not do the task."
)
MAX_TITLE = 60
_MAX_PROMPT = 2_000
_MAX_ANSWER = 500
_MAX_TOKENS = 64


def needs_title(session: Session) -> bool:
    """Whether a title may be generated now: for a new session that is saved, has an answer and has no name."""
    store, settings = session.store, session.settings
    if not settings.tuning.session_titles or store.path is None or store.title or session.resumed.log:
        return False
    # A model outside the catalogue may be large or slow.
    is_small_known = session.catalog.get(session.profile.small_model).known
    has_answer = any(message.origin is Origin.REPLY and message.text for message in session.log.messages)
    return is_small_known and has_answer and not session.costs.budget.is_nearly_spent


async def generate_title(session: Session, show: Callable[[ev.Event], None]) -> None:
    """Ask for a title and store it. `show` gets the usage, which is counted already."""
    messages = session.log.messages
    prompt = next((message.typed for message in messages if message.is_prompt), "")
    answer = next((message.text for message in reversed(messages) if message.origin is Origin.REPLY), "")
    described = f"Prompt:\n{prompt[:_MAX_PROMPT]}\n\nBeginning of the answer:\n{answer[:_MAX_ANSWER]}"
    request = replace(session.requests.small(SYSTEM, described), max_tokens=_MAX_TOKENS, purpose="title")

    def count(event: ev.Event) -> None:
        if isinstance(event, ev.UsageReported):
            session.costs.take(event)
            session.store.record(event)
            show(event)

    async def take(event: ev.Event) -> None:
        count(event)

    call = SideCall(session)
    with AbortController() as controller:
        await call.run(request, controller.signal, take, count)
    title = plain_line((call.text or "").strip().partition("\n")[0].strip(" \"'“”„«»`*#."), MAX_TITLE)
    if title and not session.store.title:
        session.store.set_title(title, generated=True)
