"""One-line summaries of finished tool batches, made in the background by the small model (SPEC T10).

Nothing waits for one: `LoopState` holds it until it is ready, and the loop yields it in passing. At its end the loop
cancels the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentcli.agent.loop_state import PendingSummary
from agentcli.agent.side_call import SideCall
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.messages import Message

if TYPE_CHECKING:
    from agentcli.agent.session import Session

SYSTEM = "You write one short line, at most ten words, in the past tense, that says what these tool calls did."
SHOWN_CHARACTERS = 600


class Summaries:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, added: Sequence[Message], signal: AbortSignal) -> PendingSummary | None:
        """Start a summary of the calls and results in these messages; None without calls, or if the settings turn
        summaries off. Returns at once."""
        if not self._session.settings.tuning.tool_summaries:
            return None
        uses = [use for message in added for use in message.tool_uses]
        if not uses:
            return None
        results = {result.tool_use_id: result for message in added for result in message.tool_results}
        described = "\n\n".join(
            f"{use.name} {str(use.input)[:SHOWN_CHARACTERS]}\n-> {results[use.id].text[:SHOWN_CHARACTERS]}"
            for use in uses
            if use.id in results
        )
        summary = PendingSummary()
        coroutine = self._summarise(summary, described, [use.id for use in uses], signal)
        task = start_task(coroutine, name="tool summary")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return summary

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._tasks))

    async def _summarise(
        self, summary: PendingSummary, described: str, tool_use_ids: list[str], signal: AbortSignal
    ) -> None:
        call = SideCall(self._session.provider, self._session.price)
        try:
            async with aclosing(call.run(self._session.requests.small(SYSTEM, described), signal)) as events:
                async for event in events:
                    if isinstance(event, ev.UsageReported):
                        summary.ready.append(event)
        finally:
            summary.is_made = True
            if (lost := call.lost_usage()) is not None:
                summary.ready.append(lost)
        line = (call.text or "").strip().partition("\n")[0]
        if line:
            summary.ready.append(ev.ToolBatchSummarised(tool_use_ids=tool_use_ids, text=line[:200]))
