"""One contract, every transport: every fault of the API that concerns the provider, over HTTP where it applies."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from agentcli.core.aio import AbortController
from agentcli.core.messages import TextBlock, ThinkingBlock, ToolUseBlock, UnknownBlock
from agentcli.core.usage import TOKEN_LIMIT, Usage
from agentcli.providers.base import (
    Broken,
    Closed,
    Delta,
    Failed,
    Failure,
    FailureKind,
    Finished,
    ModelEvent,
    Quiet,
    Request,
    Started,
    Waiting,
)
from agentcli.providers.credentials import Credentials, resolve_credentials
from agentcli.providers.failures import Endpoint, from_exception
from agentcli.providers.provider import MessagesProvider, RetryPolicy, Timeouts
from agentcli.providers.script import ScriptedTransport
from agentcli.providers.transports.sdk import SdkTransport
from agentcli.providers.transports.wire import WireTransport
from tests.support.listener import Listener
from tests.support.scripts import (
    call,
    event,
    fails,
    fault,
    pause,
    provider_on,
    reply,
    say,
    script,
    think,
)
from tests.support.server import LoopbackServer, Manners
from tests.support.validate import first_problem

pytestmark = pytest.mark.anyio

# Real waiting is kept short by the policy, never by patching: the computations themselves are tested elsewhere.
QUICK = RetryPolicy(base_delay=0.001)
USER = {"role": "user", "content": [{"type": "text", "text": "hello"}]}


@dataclass
class Rig:
    """A provider and what its model received."""

    provider: MessagesProvider
    bodies: Callable[[], list[dict[str, Any]]]
    server: LoopbackServer | None

    def stream(self, controller: AbortController | None = None, **rest: Any) -> AsyncGenerator[ModelEvent, None]:
        request = Request(**{"model": "claude-opus-5-5", "messages": (USER,), **rest})
        return self.provider.stream(request, (controller or AbortController()).signal)

    async def ask(self, **rest: Any) -> list[ModelEvent]:
        return [item async for item in self.stream(**rest)]


MakeRig = Callable[..., Awaitable[Rig]]
ALL = ("wire", "sdk", "scripted")
HTTP = ("wire", "sdk")


@pytest.fixture
async def rig(transport: str) -> AsyncIterator[MakeRig]:
    """`await rig(*replies, manners=..., policy=..., timeouts=...)` for the transport of the test."""
    async with AsyncExitStack() as stack:

        async def make(*replies: Any, manners: Manners | None = None, key: str = "", **rest: Any) -> Rig:
            rest = {"policy": QUICK, **rest}
            if transport == "scripted":
                scripted = ScriptedTransport(script(*replies), first_problem)
                return Rig(provider_on(scripted, **rest), lambda: scripted.requests, None)
            server = await stack.enter_async_context(LoopbackServer(*replies, manners=manners))
            environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": key}
            provider = provider_on(carrier(transport, resolve_credentials(environ)), **rest)
            stack.push_async_callback(provider.aclose)
            await provider.warm()
            return Rig(provider, lambda: server.bodies, server)

        yield make


def carrier(name: str, credentials: Credentials) -> WireTransport | SdkTransport:
    return WireTransport(credentials) if name == "wire" else SdkTransport("anthropic", credentials)


over_all = pytest.mark.parametrize("transport", ALL)
over_http = pytest.mark.parametrize("transport", HTTP)


def kinds(events: list[ModelEvent]) -> list[str]:
    return [type(item).__name__ for item in events if not isinstance(item, Delta)]


def failure(events: list[ModelEvent]) -> Failure:
    last = events[-1]
    assert isinstance(last, Failed)
    return last.failure


def blocks(events: list[ModelEvent]) -> list[Any]:
    return [item.block for item in events if isinstance(item, Closed)]


TEXT = ["Started", "Opened", "Closed", "Finished"]
HALF = ["Started", "Opened", "Closed", "Broken"]
BASH = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
UNFINISHED = [
    event({"type": "content_block_start", "index": 0, "content_block": BASH}),
    event({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a'}}),
]
HOLOGRAM = [
    event({"type": "something_new", "x": 1}),
    event({"type": "content_block_start", "index": 0, "content_block": {"type": "hologram", "data": "a"}}),
    event({"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta", "data": "b"}}),
    event({"type": "content_block_stop", "index": 0}),
]
END = event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})


# ------------------------------------------------------------------------------------------------------------- replies


@over_all
@pytest.mark.parametrize(
    ("replies", "seen"),
    [
        *(((fails(status), "x"), ["Waiting", *TEXT]) for status in (500, 502, 503, 504, 529, 408, 409)),
        ((reply(fault("reset")), "x"), ["Waiting", *TEXT]),
        *(((reply("half", fault(kind)), "x"), [*HALF, "Waiting", *TEXT]) for kind in ("drop", "garbage", "eof")),
        ((reply(*UNFINISHED, fault("drop")), "x"), ["Started", "Opened", "Broken", "Waiting", *TEXT]),
        ((fails(400, "thinking: Extra inputs are not permitted"), "x"), ["Dropped", *TEXT]),
    ],
)
async def test_a_fault_that_passes_voids_the_partial_reply_and_is_retried(
    rig: MakeRig, replies: tuple[Any, ...], seen: list[str]
) -> None:
    events = await (await rig(*replies)).ask()
    assert kinds(events) == seen
    assert blocks(events)[-1] == TextBlock("x")


@over_all
@pytest.mark.parametrize(
    ("steps", "block"),
    [
        ((think("hm", "sig"), "grüße 🎉"), TextBlock("grüße 🎉")),
        ((call("Read", file_path="ä/🎉"),), ToolUseBlock("toolu_000001_00", "Read", {"file_path": "ä/🎉"})),
        (HOLOGRAM, UnknownBlock({"type": "hologram", "data": "ab"})),
    ],
)
async def test_what_the_model_wrote_arrives_whole(rig: MakeRig, steps: Sequence[Any], block: object) -> None:
    events = await (await rig(reply(*steps))).ask()
    assert blocks(events)[-1] == block
    assert blocks(events)[0] in (block, ThinkingBlock("hm", "sig"))


@over_all
@pytest.mark.parametrize("reason", ["refusal", "pause_turn", "model_context_window_exceeded", "max_tokens", "novel"])
async def test_every_stop_reason_is_passed_on(rig: MakeRig, reason: str) -> None:
    made = await rig(reply("x", stop_reason=reason, stop_details={"category": "c"}))
    assert (await made.ask())[-1] == Finished(reason, Usage(10, 5), {"category": "c"})


@over_all
async def test_strange_usage_and_a_missing_end_do_no_harm(rig: MakeRig) -> None:
    strange = {"input_tokens": -5, "output_tokens": 10**30, "cache_read_input_tokens": None}
    made = await rig(reply("x", usage=strange), reply("a", END, fault("eof")))
    assert (await made.ask())[-1] == Finished("end_turn", Usage(0, TOKEN_LIMIT))
    assert (await made.ask())[-1] == Finished("end_turn", Usage(10, 3))


@over_http
@pytest.mark.parametrize(
    "manners",
    [
        *(Manners(line_end="\r\n"), Manners(line_end="\r"), Manners(comments=True), Manners(split=1)),
        *(Manners(split=3, line_end="\r\n", comments=True), Manners(chunked=False)),
    ],
    ids=["crlf", "cr", "comments", "split utf-8", "all at once", "close-delimited"],
)
async def test_every_legal_way_to_write_a_stream_is_read(rig: MakeRig, manners: Manners) -> None:
    made = await rig(reply("grüße 🎉\r\nzeile", call("Read", file_path="é")), manners=manners)
    events = await made.ask()
    assert blocks(events)[0] == TextBlock("grüße 🎉\r\nzeile")
    assert isinstance(events[-1], Finished)


@over_http
@pytest.mark.parametrize("key", ["k", ""])
async def test_version_betas_and_key_are_sent(rig: MakeRig, key: str) -> None:
    made = await rig("one", key=key)
    await made.ask(task_budget_total=20000, task_budget_remaining=100)
    assert made.server is not None
    headers = made.server.requests[0].headers
    assert headers["anthropic-version"] == "2026-10-21"
    assert headers["anthropic-beta"] == "task-budgets-2026-03-13"
    assert headers.get("authorization") == (f"Bearer {key}" if key else None)


@over_http
async def test_connections_are_used_again(rig: MakeRig) -> None:
    made = await rig("one", "two", "three")
    for _turn in range(3):
        assert kinds(await made.ask()) == TEXT
    assert made.server is not None
    assert made.server.connections == 1


@over_all
async def test_the_same_conversation_gives_the_same_body(rig: MakeRig) -> None:
    made = await rig("one", "two")
    await made.ask(system=("You.",), effort="low")
    await made.ask(system=("You.",), effort="low")
    first, second = made.bodies()
    assert first == second
    if made.server is not None:
        assert made.server.requests[0].raw == made.server.requests[1].raw


@over_http
async def test_silence_is_reported_then_ended_and_counted(rig: MakeRig) -> None:
    made = await rig(
        reply("a", fault("stall"), repeat=True),
        timeouts=Timeouts(quiet_after=0.1, idle_timeout=0.3, content_deadline=10),
        policy=RetryPolicy(base_delay=0.001, max_stalls=1),
    )
    events = await made.ask()
    assert kinds(events) == [
        *("Started", "Opened", "Closed", "Quiet", "Broken", "Waiting"),
        *("Started", "Opened", "Closed", "Quiet", "Broken", "Failed"),
    ]
    assert failure(events).kind is FailureKind.TIMEOUT
    assert Quiet(0.1) in events


@over_http
async def test_pings_reset_the_idle_timeout_but_are_no_reply(rig: MakeRig) -> None:
    made = await rig(reply(fault("pings")), timeouts=Timeouts(quiet_after=5, idle_timeout=10, content_deadline=0.3))
    events = await made.ask()
    assert kinds(events) == ["Started", "Broken", "Failed"]
    assert failure(events).detail == "deadline"


@over_http
async def test_a_slow_consumer_slows_the_server_and_loses_nothing(rig: MakeRig) -> None:
    text = "".join(chr(97 + i % 26) for i in range(2_400))
    made = await rig(reply(say(text, chunk=2)))
    seen: list[ModelEvent] = []
    async for item in made.provider.stream(Request("claude-opus-5-5", (USER,)), AbortController().signal):
        seen.append(item)
        if len(seen) % 150 == 0:
            await asyncio.sleep(0)
    assert blocks(seen) == [TextBlock(text)]


@over_http
async def test_comments_reset_the_idle_timeout(rig: MakeRig) -> None:
    # Silent for longer than the limit in all, but never at a stretch; the gap leaves room for a busy machine.
    steps = [step for _ in range(11) for step in (pause(0.1), event({"type": "ping"}))]
    made = await rig(reply(*steps, "x"), timeouts=Timeouts(0.9, 1.0, 60), manners=Manners(comments=True))
    assert kinds(await made.ask()) == TEXT


# ------------------------------------------------------------------------------------------------------------ refusals


@over_all
async def test_429_with_retry_after_waits_as_long_as_requested(rig: MakeRig) -> None:
    made = await rig(fails(429, headers={"retry-after": "0.01"}), fails(429, headers={"retry-after-ms": "20"}), "x")
    waits = [item for item in await made.ask() if isinstance(item, Waiting)]
    assert [wait.seconds for wait in waits] == [pytest.approx(0.0105), pytest.approx(0.021)]
    assert waits[0].failure.kind is FailureKind.RATE_LIMIT


@over_http
async def test_429_with_an_http_date_waits_by_the_servers_own_clock(rig: MakeRig) -> None:
    dates = {"date": "Wed, 21 Oct 2015 07:28:00 GMT", "retry-after": "Wed, 21 Oct 2015 07:38:00 GMT"}
    told = failure(await (await rig(fails(429, headers=dates))).ask())
    assert told.retry_after == 600
    assert "10 min" in told.message


UNANSWERED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]}
NO_RETRY = {"x-should-retry": "false"}


@over_http
@pytest.mark.parametrize(
    ("refusal", "kind", "words", "asked"),
    [
        (fails(401, "invalid x-api-key"), FailureKind.AUTHENTICATION, ("ANTHROPIC_API_KEY",), {}),
        (fails(403, "invalid x-api-key"), FailureKind.PERMISSION, ("ANTHROPIC_API_KEY",), {}),
        ("never", FailureKind.PAIRING, (), {"messages": (USER, UNANSWERED, USER)}),
        (fails(400, "messages: something odd"), FailureKind.INVALID_REQUEST, ("something odd", "(request id "), {}),
        (fails(404, "model: opus"), FailureKind.UNKNOWN_MODEL, ("'claude-opus-5-5'", "--model"), {}),
        (fails(413, "Request exceeds the maximum size"), FailureKind.PROMPT_TOO_LONG, ("/compact",), {}),
        (fails(400, "prompt is too long: 9 tokens > 8 maximum"), FailureKind.PROMPT_TOO_LONG, ("/compact",), {}),
        (fails(503, headers=NO_RETRY), FailureKind.SERVER, ("503",), {}),
        (fails(502, body="<html>Bad Gateway</html>", headers=NO_RETRY), FailureKind.SERVER, ("502",), {}),
    ],
    ids=["401", "403", "pairing", "400", "404", "413", "too long", "x-should-retry", "html"],
)
async def test_a_refusal_that_no_retry_helps_is_explained(
    rig: MakeRig, refusal: Any, kind: FailureKind, words: tuple[str, ...], asked: dict[str, Any]
) -> None:
    made = await rig(refusal, key="very-secret")
    told = failure(await made.ask(**asked))
    assert (told.kind, len(made.bodies())) == (kind, 1)
    assert all(word in told.message for word in words), told.message
    assert "<" not in told.message + told.detail
    assert "very-secret" not in told.message + told.detail


@over_all
async def test_an_error_event_counts_as_the_status_of_its_type(rig: MakeRig) -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    made = await rig(reply("a", event(error)), "x")
    lost = next(item for item in await made.ask() if isinstance(item, Broken))
    assert (lost.failure.kind, lost.failure.status) == (FailureKind.RATE_LIMIT, 429)


# --------------------------------------------------------------------------------------------------------- connecting


async def ask_at(transport: str, url: str, policy: RetryPolicy) -> list[ModelEvent]:
    provider = provider_on(carrier(transport, Credentials(url)), policy)
    events = [item async for item in provider.stream(Request("m", (USER,)), AbortController().signal)]
    await provider.aclose()
    return events


@over_http
async def test_connection_refused_is_retried_and_names_the_host(transport: str) -> None:
    async with LoopbackServer() as server:
        url = server.url
    events = await ask_at(transport, url, RetryPolicy(base_delay=0.001, max_retries=2))
    assert kinds(events) == ["Waiting", "Waiting", "Failed"]
    told = failure(events)
    assert (told.kind, told.retryable) == (FailureKind.CONNECTION, True)
    assert url.removeprefix("http://") in told.message


@over_http
async def test_a_proxy_that_requires_a_password_is_not_retried(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with Listener() as proxy:
        proxy.raw = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        events = await ask_at(transport, "https://example.invalid", QUICK)
    assert kinds(events) == ["Failed"]
    assert failure(events).kind is FailureKind.PROXY
    assert "HTTPS_PROXY" in failure(events).message


async def test_a_certificate_error_is_not_retried_and_names_the_setting() -> None:
    told = from_exception(ssl.SSLCertVerificationError("CERTIFICATE_VERIFY_FAILED"), Endpoint("api.example"))
    assert (told.kind, told.retryable) == (FailureKind.TLS, False)
    assert "api.example" in told.message
    assert "SSL_CERT_FILE" in told.message


# ------------------------------------------------------------------------------------------------------------ stopping


@over_all
async def test_a_consumer_may_salvage_by_closing_at_broken(rig: MakeRig) -> None:
    made = await rig(reply(call("Write", file_path="x"), fault("drop")), "never")
    async with aclosing(made.stream()) as events:
        async for item in events:
            if isinstance(item, Broken):
                break
    assert len(made.bodies()) == 1


@over_all
async def test_an_abort_ends_the_stream_and_reports_its_usage(rig: MakeRig) -> None:
    made = await rig(reply("a", fault("stall")))
    controller = AbortController()
    seen: list[ModelEvent] = []
    async for item in made.stream(controller):
        seen.append(item)
        if isinstance(item, Closed):
            controller.abort()
    assert kinds(seen) == ["Started", "Opened", "Closed", "Failed"]
    assert seen[-1] == Failed(failure(seen), Usage(10, 1), "claude-opus-5-5")
    assert failure(seen).kind is FailureKind.ABORTED


@over_http
async def test_an_abort_closes_the_connection_even_without_a_waiting_consumer(rig: MakeRig) -> None:
    made = await rig(reply("a", fault("stall")))
    assert made.server is not None
    controller = AbortController()
    stream = made.stream(controller)
    async for item in stream:
        if isinstance(item, Closed):
            break
    started = asyncio.get_running_loop().time()
    controller.abort()
    closed = await asyncio.wait_for(made.server.client_closed(), 5)
    assert closed - started < 0.05
    await stream.aclose()


@over_http
async def test_closing_the_stream_closes_the_connection_and_the_next_request_works(rig: MakeRig) -> None:
    made = await rig(reply("a", fault("stall")), "x")
    assert made.server is not None
    async with aclosing(made.stream()) as events:
        async for item in events:
            if isinstance(item, Started):
                break
    await asyncio.wait_for(made.server.client_closed(), 5)
    assert kinds(await made.ask()) == TEXT


async def test_time_is_measured_by_the_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that jumps by a day changes nothing."""
    days = iter(range(0, 10**9, 86400))
    monkeypatch.setattr(time, "time", lambda: float(next(days)))
    provider = provider_on(ScriptedTransport(script(fails(529), "x")), QUICK)
    events = [item async for item in provider.stream(Request("m", (USER,)), AbortController().signal)]
    assert kinds(events) == ["Waiting", *TEXT]
