"""Count damaged lines in the part of a long resumed session that no request needs, during the run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentcli.core.aio import start_task
from agentcli.core.messages import Json
from agentcli.headless.output import Notices

if TYPE_CHECKING:
    from agentcli.session.recent_messages import EarlierPart, Pace

_AT_ONCE = 50
"""Records read between two pauses."""
_PAUSE_SECONDS = 0.01
"""Length of a pause, in which the run itself gets the processor."""


class _RunEnded(Exception):
    """Raised in the reading thread to end it."""


@asynccontextmanager
async def report_unread_lines(part: EarlierPart, notices: Notices) -> AsyncIterator[None]:
    """Report damaged lines of `part` on standard error if they are found before the run ends, which does not wait."""
    has_ended = False

    def paced(records: Iterator[Json]) -> Iterator[Json]:
        for number, record in enumerate(records, 1):
            if has_ended:
                raise _RunEnded
            if number % _AT_ONCE == 0:
                time.sleep(_PAUSE_SECONDS)
            yield record

    reading = start_task(_report(part, paced, notices))
    try:
        yield
    finally:
        has_ended = True
        await reading


async def _report(part: EarlierPart, paced: Pace, notices: Notices) -> None:
    from agentcli.session.load import unreadable_lines

    try:
        count = await asyncio.to_thread(part.count_unreadable, paced)
    except (OSError, _RunEnded):
        return
    if count:
        notices.say(unreadable_lines(count))
