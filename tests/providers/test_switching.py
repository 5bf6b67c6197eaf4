"""Interactive sessions use `wire` first and the anthropic package once it was imported in an idle moment."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from agentcli.core.abort import AbortController, AbortSignal
from agentcli.core.aio import in_daemon_thread
from agentcli.core.messages import Json
from agentcli.providers.credentials import Credentials
from agentcli.providers.transports.base import Transport
from agentcli.providers.transports.sdk import (
    BACKGROUND_NICENESS,
    IDLE_SECONDS,
    SdkTransport,
    SwitchingTransport,
    lower_priority,
)
from agentcli.providers.transports.wire import WireTransport
from tests.support.scripts import reply, say
from tests.support.server import LoopbackServer
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

BODY: Json = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 5,
    "stream": True,
    "messages": [{"role": "user", "content": "naïve ✓"}],
}
SAME_HEADERS = ("anthropic-version", "anthropic-beta", "authorization", "x-api-key", "content-type", "accept", "host")


class Recorded(Transport):
    """Two events a request, with the name of the transport in each."""

    def __init__(self, name: str, failure: Exception | None = None) -> None:
        self._name, self._failure = name, failure
        self.loads = self.closed = 0

    @property
    def name(self) -> str:
        return self._name

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        yield {"by": self._name}
        yield {"by": self._name}

    async def load(self) -> None:
        self.loads += 1
        await asyncio.sleep(1)
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        self.closed += 1


async def carriers(transport: Transport) -> list[str]:
    async with aclosing(transport.events({}, (), AbortController().signal)) as events:
        return [event["by"] async for event in events]


async def test_the_package_is_loaded_when_idle_after_a_reply_and_carries_the_next_request() -> None:
    first, later = Recorded("wire"), Recorded("sdk")

    transport = SwitchingTransport(first, later)
    await transport.warm()
    await asyncio.sleep(10 * IDLE_SECONDS)
    assert later.loads == 0
    assert await carriers(transport) == ["wire", "wire"]
    await asyncio.sleep(IDLE_SECONDS - 1)
    assert (await carriers(transport), later.loads) == (["wire", "wire"], 0)
    await asyncio.sleep(IDLE_SECONDS + 2)
    assert (later.loads, first.closed) == (1, 1)
    assert await carriers(transport) == ["sdk", "sdk"]
    await asyncio.sleep(10 * IDLE_SECONDS)
    assert later.loads == 1
    await transport.aclose()


async def test_a_request_stays_with_the_transport_it_began_with() -> None:
    first, later = Recorded("wire"), Recorded("sdk")

    transport = SwitchingTransport(first, later)
    await carriers(transport)
    await asyncio.sleep(IDLE_SECONDS + 0.5)
    assert later.loads == 1
    async with aclosing(transport.events({}, (), AbortController().signal)) as events:
        began = await anext(events)
        await asyncio.sleep(2)
        assert [began["by"], (await anext(events))["by"]] == ["wire", "wire"]
        assert first.closed == 0
    assert await carriers(transport) == ["sdk", "sdk"]
    await transport.aclose()


def test_a_package_that_cannot_be_imported_is_logged_once_and_not_needed(caplog: pytest.LogCaptureFixture) -> None:
    later = Recorded("sdk", ImportError("no module named anthropic"))

    async def main() -> None:
        transport = SwitchingTransport(Recorded("wire"), later)
        for _request in range(3):
            assert await carriers(transport) == ["wire", "wire"]
            await asyncio.sleep(2 * IDLE_SECONDS)
        await transport.aclose()

    run_virtual(main)
    assert later.loads == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "continue without it" in caplog.text


async def test_closing_ends_the_wait_and_the_import() -> None:
    for seconds in (1.0, IDLE_SECONDS + 0.5):
        first, later = Recorded("wire"), Recorded("sdk")
        transport = SwitchingTransport(first, later)
        await carriers(transport)
        await asyncio.sleep(seconds)
        await transport.aclose()
        assert (first.closed, later.closed) == (1, 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.anyio
async def test_both_transports_send_the_same_bytes_and_headers() -> None:
    async with LoopbackServer(reply(say("hi")), reply(say("hi"))) as server:
        credentials = Credentials(server.url, api_key="key", source="test")
        for transport in (WireTransport(credentials), SdkTransport(credentials)):
            async with aclosing(transport.events(BODY, ("one", "two"), AbortController().signal)) as events:
                assert [event async for event in events]
            await transport.aclose()
        wire, sdk = server.requests
        assert wire.raw == sdk.raw
        assert [wire.headers.get(name) for name in SAME_HEADERS] == [sdk.headers.get(name) for name in SAME_HEADERS]


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
async def test_only_the_importing_thread_gets_a_lower_priority() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()

    def lowered() -> int:
        lower_priority()
        return niceness()

    assert await in_daemon_thread(lowered) == max(before, BACKGROUND_NICENESS)
    assert niceness() == before
