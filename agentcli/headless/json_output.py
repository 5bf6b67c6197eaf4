"""--output-format json: one result object on standard output."""

from __future__ import annotations

from agentcli.core.events import Event, Result
from agentcli.core.ids import Ids
from agentcli.headless.encode import encode_whole
from agentcli.headless.output import Notices
from agentcli.headless.result_frame import failure_frame, result_frame
from agentcli.headless.streams import StreamWriter


class JsonOutput:
    def __init__(self, writer: StreamWriter, notices: Notices, ids: Ids) -> None:
        self._writer = writer
        self._notices = notices
        self._ids = ids

    async def show(self, event: Event) -> None:
        if isinstance(event, Result):
            await self._writer.write(encode_whole(result_frame(event)))
        else:
            self._notices.show(event)

    async def fail(self, message: str) -> None:
        await self._writer.write(encode_whole(failure_frame(message, "", self._ids.new())))
