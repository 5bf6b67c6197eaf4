"""Servers that send floods, garbage and lies: limited, cleaned, refused by name, and never on the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import CallProgress
from tests.support.mcp_started import started, until

pytestmark = pytest.mark.anyio
CONTROL = {chr(code) for code in range(0x20) if chr(code) not in "\n\t"} | {chr(code) for code in range(0x7F, 0xA0)}


@asynccontextmanager
async def longest_wait() -> AsyncIterator[list[float]]:
    """CPU seconds that the event loop was held up for at most. Other processes do not count, nor does the garbage that
    earlier tests have left."""
    longest = [0.0]
    gc.disable()

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest[0] = max(longest[0], time.thread_time() - before)

    ticking = asyncio.ensure_future(tick())
    try:
        yield longest
    finally:
        ticking.cancel()
        gc.enable()


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("flood-line", "a line on its stdout is longer than 1 MB"),
        ("flood-garbage", "20 lines in a row on its stdout are not messages of the protocol"),
        ("unknown-version", "Unsupported protocol version from the server: 1999-01-01"),
    ],
)
async def test_a_server_beyond_the_protocol_is_disconnected_and_not_tried_again(mode: str, error: str) -> None:
    async with started(mode, message_bytes=1_000_000, restarts=5, grace_seconds=0.05) as (server, _):
        assert (server.state, server.error, server.retry_seconds) == ("failed", error, None)
        if mode == "flood-garbage":
            assert list(server.log) == ["not a message: this is not JSON"] * 20


async def test_a_flood_on_stderr_is_cut_and_does_no_harm() -> None:
    async with started("flood-stderr") as (server, _):
        assert server.state == "connected"
        assert (await server.call("work", {})).content[0].text == "done"
        assert len(server.log) <= 200
        assert max(map(len, server.log)) <= 500


async def test_a_few_malformed_frames_are_logged() -> None:
    async with started("malformed") as (server, _):
        assert server.state == "connected", server.error
        assert "not a message: {" in server.log
        assert "not a message: 👋 hello, I am a log line" in server.log


@pytest.mark.parametrize(("mode", "texts"), [("wrong-ids", ["done", "done"]), ("twice", ["first", "first"])])
async def test_answers_for_nobody_and_second_answers_are_ignored(mode: str, texts: list[str]) -> None:
    async with started(mode) as (server, _):
        assert [(await server.call("work", {})).content[0].text for _ in range(2)] == texts


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("malformed-answer", "bad: the answer is malformed"),
        ("fairly-big-result", "bad: the answer is larger than 1 MB"),
        ("escaped-error", "bad: red<U+202E> did not work"),
    ],
)
async def test_an_answer_that_cannot_be_used_fails_its_call_only(mode: str, said: str) -> None:
    async with started(mode, result_bytes=1_000_000) as (server, _):
        with pytest.raises(McpFailure) as raised:
            await server.call("work", {})
        assert (str(raised.value), server.state) == (said, "connected")


async def test_unreadable_parts_of_a_result_do_not_spoil_the_others() -> None:
    async with started("malformed-content") as (server, _):
        texts = [part.text for part in (await server.call("work", {})).content]
        assert texts == [
            "[a part that cannot be read]",
            "",
            "[image: not valid base64]",
            "[content of an unknown kind: hologram]",
            "[a resource that cannot be read]",
            "good",
        ]


async def test_requests_of_the_server_are_answered_by_the_rules() -> None:
    async with started("requests") as (server, _):
        answers = json.loads((await server.call("work", {})).content[0].text)
        by_id = {(answer["id"], "error" in answer): answer for answer in answers}
        assert by_id[1, False]["result"] == {}
        assert by_id[1, True]["error"]["code"] == -32601
        assert "Sampling not supported" in by_id[2, True]["error"]["message"]
        assert by_id[3, True]["error"]["code"] == -32602


async def test_unusable_tools_are_refused_by_name() -> None:
    async with started("lying") as (server, _):
        assert [tool.name for tool in server.offers.tools] == ["good", "untyped", "last"]
        assert server.offers.tools[1].input_schema["type"] == "object"
        reasons = dict(server.offers.refused)
        assert reasons["text"] == "its input schema describes string, not an object"
        assert reasons["list"] == "its input schema is not an object"
        assert reasons["invalid"] == "its input schema is not valid: type is 'nonsense'"
        assert "only local references" in reasons["remote"]
        assert reasons["parameter"] == "the API does not accept the parameter name 'not allowed'"
        assert "nested more than 48 levels deep" in reasons["deep"]
        assert reasons["good"] == "another tool has the same name"
        assert reasons["x" * 127 + "…"] == "its name has 129 characters (limit 128)"
        assert reasons["tool 10"] == "it has no name"
        assert reasons["bell"] == "its name has control characters"
        assert "has a list of 3,000 values" in reasons["wide"]
        assert reasons["tool 13"] == "it is not an object"


async def test_a_schema_of_megabytes_is_refused_by_name_off_the_event_loop() -> None:
    async with longest_wait() as longest, started("huge-schema", start_seconds=60) as (server, _):
        assert server.state == "connected", server.error
        assert [tool.name for tool in server.offers.tools] == ["small"]
        assert server.offers.refused == (("huge", "its input schema is larger than 256 KB"),)
    assert longest[0] < 0.02


async def test_a_large_result_does_not_hold_up_the_event_loop() -> None:
    async with started("big-result") as (server, _), longest_wait() as longest:
        result = await server.call("work", {})
        assert [len(part.data) for part in result.content] == [8_000_000, 8_000_000]
    assert longest[0] < 0.5


async def test_no_text_of_a_server_has_control_characters() -> None:
    async with started("escapes") as (server, _):
        offers = server.offers
        result = await server.call("work", {})
        await until(lambda: any("info" in line for line in server.log))
        shown = repr(offers) + repr(result)
        assert not [escape for escape in ("\\x1b", "\\x9b", "\\x07") if escape in shown]
        assert offers.refused[0][1] == "its name has control characters"
        assert len(offers.instructions) <= 2048
        assert offers.instructions.startswith("red<U+202E>xxx")
        assert not CONTROL & set("".join(server.log))


async def test_programs_are_asked_for_the_stateless_protocol_only_on_request() -> None:
    async with started("work") as (server, _):
        assert server.offers.protocol == "2025-11-25"
        assert list(server.log) == []
    async with started("work", {"MCP_PROTOCOL_NEGOTIATION": "auto"}) as (server, _):
        assert server.offers.protocol == "2025-11-25"
        assert list(server.log) == ["unknown method server/discover"]


async def test_a_list_without_an_end_is_cut_and_more_tools_than_allowed_are_counted() -> None:
    async with started("endless-pages", pages=5, tools=3) as (server, _):
        assert [tool.name for tool in server.offers.tools] == ["tool_0", "tool_1", "tool_2"]
        assert server.offers.refused == (("2 tools", "a server may have 3"),)


async def test_several_changes_at_once_are_one_refresh() -> None:
    async with started("four-changes", refresh_seconds=60) as (server, states):
        await server.call("work", {})
        assert states == ["connecting", "connected"]


async def test_a_list_that_changes_with_each_call_is_followed() -> None:
    async with started("shifting") as (server, states):
        for number in (1, 2):
            await server.call("work", {})
            await until(lambda expected=f"work_{number}": server.offers.tools[0].name == expected)
        assert states == ["connecting"] + ["connected"] * 3


async def test_a_failed_refresh_keeps_the_old_list() -> None:
    async with started("no-relist") as (server, _):
        await server.call("work", {})
        connection_tools = server.offers.tools
        server._on_change = lambda: pytest.fail("nothing has changed")
        assert server._connection is not None
        from agentcli.mcp.link import ServerLink

        await server._refresh(server._connection, ServerLink(server.log.append))
        assert server.offers.tools == connection_tools
        assert server.log[-1] == "the lists cannot be read: bad: not again"
        server._on_change = lambda: None


async def test_progress_is_forwarded_cleaned_and_thinned_out() -> None:
    seen: list[CallProgress] = []
    async with started("progress-flood", progress_seconds=60) as (server, _):
        await server.call("work", {}, seen.append)
    assert seen[0] == CallProgress(0.0, None, "red<U+202E>step 0")
    assert [progress.done for progress in seen] == list(range(30))


async def test_a_flood_of_log_messages_is_thinned_out() -> None:
    async with started("log-flood") as (server, _):
        await server.call("work", {})
        assert "info: line 0" in server.log
        assert "(more log messages in this second)" in server.log
        assert len(server.log) < 200
