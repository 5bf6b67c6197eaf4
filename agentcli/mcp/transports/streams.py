"""The two message streams between a transport and the `mcp` library, with results read by an `AnswerReader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from agentcli.mcp.link import ServerLink
from agentcli.mcp.replies.answers import AnswerReader

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage


class _Stream:
    def __init__(self, inner: Any, reader: AnswerReader) -> None:
        self._inner = inner
        self._reader = reader

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


class IncomingMessages(_Stream):
    """Messages from a server. The end of the stream ends the link."""

    def __init__(self, inner: Any, reader: AnswerReader, link: ServerLink) -> None:
        super().__init__(inner, reader)
        self._link = link

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> IncomingMessages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from mcp_types import JSONRPCNotification, JSONRPCResponse

        while True:
            try:
                item: SessionMessage | Exception = await self._inner.__anext__()
            except StopAsyncIteration:
                self._link.end("the connection was closed")
                raise
            except Exception as error:
                self._link.end(f"the connection broke: {error or type(error).__name__}")
                raise
            if isinstance(item, Exception):
                self._link.note(f"unreadable message: {item}")
                continue
            message = item.message
            if isinstance(message, JSONRPCResponse):
                message.result = await self._reader.take(message.id, message.result)
            elif isinstance(message, JSONRPCNotification) and not self._reader.admit(message.method, message.params):
                continue
            return item

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()


class OutgoingMessages(_Stream):
    """Messages to a server. Requests are recorded, so that their results can be read."""

    async def send(self, item: SessionMessage) -> None:
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._reader.note_request(message.id, message.method)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._reader.note_cancel((message.params or {}).get("requestId"))
        await self._inner.send(item)


class ReadTransport:
    """Wraps a transport of the library, so that an `AnswerReader` reads the results."""

    def __init__(self, inner: Any, reader: AnswerReader, link: ServerLink) -> None:
        self._inner = inner
        self._reader = reader
        self._link = link

    async def __aenter__(self) -> TransportStreams:
        incoming, outgoing = await self._inner.__aenter__()
        return (
            IncomingMessages(incoming, self._reader, self._link),
            OutgoingMessages(outgoing, self._reader),
        )

    async def __aexit__(self, *exc: object) -> bool | None:
        return await self._inner.__aexit__(*exc)  # type: ignore[no-any-return]
