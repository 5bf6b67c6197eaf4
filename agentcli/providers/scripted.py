"""Transport of the scripted model, used by tests, the demo and replay: plays a `Script` without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from agentcli.core.messages import Json
from agentcli.providers.failures import Endpoint, ErrorResponse, broken, from_error_event, from_exception, from_response
from agentcli.providers.script import PING_SECONDS, Break, Delay, Emit, Player, Script, ScriptedReply
from agentcli.providers.transports.base import Transport, TransportFailure

Check = Callable[[Json], str | None]


class ScriptedTransport(Transport):
    """`requests` holds the bodies received. `on_request` may refuse one by returning an error text (a 400)."""

    name = "scripted"

    def __init__(self, script: Script, on_request: Check | None = None) -> None:
        self.requests: list[Json] = []
        self.betas: list[tuple[str, ...]] = []
        self.player = Player(script)
        self._on_request = on_request

    async def events(self, body: Json, betas: tuple[str, ...]) -> AsyncGenerator[Json, None]:
        self.requests.append(body)
        self.betas.append(betas)
        number = len(self.requests)
        where = Endpoint(host="the scripted model", model=str(body.get("model", "")))
        wrong = self._on_request(body) if self._on_request is not None else None
        reply = self.player.next(body) if wrong is None else ScriptedReply(error={"status": 400, "message": wrong})
        error = reply.error_answer()
        # A real request always yields to the event loop; not doing so would hide starvation.
        await asyncio.sleep(0)
        if error is not None:
            answer = ErrorResponse(error.status, error.headers, error.body, now="1970-01-01T00:00:00+00:00")
            raise TransportFailure(from_response(answer, where))
        for operation in reply.operations(number, str(body.get("model", ""))):
            if isinstance(operation, Emit):
                if operation.event.get("type") == "error":
                    raise TransportFailure(from_error_event(operation.event, where))
                yield operation.event
            elif isinstance(operation, Delay):
                await asyncio.sleep(operation.seconds)
            elif operation.fault == "eof":
                return
            elif operation.fault == "pings":
                while True:
                    yield {"type": "ping"}
                    await asyncio.sleep(PING_SECONDS)
            else:
                await _fail(operation, where)


async def _fail(operation: Break, where: Endpoint) -> None:
    if operation.fault == "stall":
        await asyncio.Event().wait()
    if operation.fault == "garbage":
        raise TransportFailure(broken("the server sent something that is not an event", "garbage"))
    raise TransportFailure(from_exception(ConnectionResetError("connection reset by peer"), where))
