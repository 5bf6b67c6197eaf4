"""Every way a call can fail is reported alike (`core/messages.py`); what happens after a call does not change it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agentcli.agent.ports import Hooks, HookVerdict
from agentcli.agent.profile import Tuning
from agentcli.agent.toolcalls.calls import BatchExecutor, Executor
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason, AbortSignal
from agentcli.core.messages import (
    ImageBlock,
    Json,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    unwrap_error,
)
from agentcli.core.permission import Answer, PermissionMode
from agentcli.tools.base import Output, Progress, ToolContext
from tests.support.fakes import Bench, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, call_raw, reply

pytestmark = pytest.mark.virtual

PICTURE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "eA=="})


class OddHooks(Hooks):
    """Deny a call, or raise after one."""

    def __init__(self, *, deny: str = "", crash: bool = False) -> None:
        self.deny = deny
        self.crash = crash

    async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        return HookVerdict("deny", self.deny) if self.deny else HookVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        if self.crash:
            raise ValueError("the hook is broken")
        return HookVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        if self.crash:
            raise ValueError("the hook is broken")
        return HookVerdict()


class Silent(FakeTool):
    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        yield Progress("working")


def failing(output: Output) -> FakeTool:
    return FakeTool(output=output)


def results(b: Bench) -> list[ToolResultBlock]:
    return [r for message in b.engine.messages if not message.is_copy for r in message.tool_results]


LOOK: Json = call("Look", what="x")
ASKED: dict[str, Any] = {"mode": PermissionMode.DEFAULT}
FAILURES: list[tuple[str, Json, FakeTool, dict[str, Any], str]] = [
    ("unknown tool", call("Lok", what="x"), FakeTool(), {}, "Did you mean Look?"),
    ("bad JSON", call_raw("Look", '{"what": "cut'), FakeTool(), {}, "not a JSON object"),
    ("schema", call("Look", what=5), FakeTool(), {}, "The input of Look is not right"),
    ("validation", call("Look", what="forbidden"), FakeTool(), {}, "That is forbidden."),
    (
        "hook",
        LOOK,
        FakeTool(),
        {"hooks": OddHooks(deny="Not on Fridays.")},
        "Not on Fridays.",
    ),
    ("rule", LOOK, FakeTool(safe=False, need="write"), {"mode": PermissionMode.PLAN}, "lan mode"),
    ("nobody to ask", LOOK, FakeTool(safe=False, need="write"), ASKED, "this session is non-interactive"),
    ("user", LOOK, FakeTool(safe=False, need="write"), {**ASKED, "interactive": True}, "The user declined"),
    ("crash", LOOK, FakeTool(crash=ValueError("boom")), {}, "ValueError: boom"),
    ("no result", LOOK, Silent(), {}, "ended without a result"),
    ("own failure", LOOK, failing(Output("No such file.", is_error=True)), {}, "No such file."),
    ("own failure without words", LOOK, failing(Output("", is_error=True)), {}, "failed without a message"),
    (
        "own failure with a picture",
        LOOK,
        failing(Output((TextBlock("Seen"), PICTURE, TextBlock("too small")), is_error=True)),
        {},
        "too small",
    ),
    (
        "broken hook after a refusal",
        call("Lok"),
        FakeTool(),
        {"hooks": OddHooks(crash=True)},
        "Look",
    ),
]


@pytest.mark.parametrize("executor", [Executor, BatchExecutor])
@pytest.mark.parametrize(("step", "tool", "rest", "said"), [row[1:] for row in FAILURES], ids=[r[0] for r in FAILURES])
async def test_every_failure_is_an_error_result_in_the_same_tags(
    step: Json, tool: FakeTool, rest: dict[str, Any], said: str, executor: Any
) -> None:
    b = bench(reply(step), "Done.", tools=[tool], tuning=Tuning(executor=executor), **rest)
    async with b.engine:
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.PermissionRequested):
                b.engine.answer(event.request_id, Answer("deny"))
    assert b.refused == []
    (result,) = results(b)
    assert_marked(result)
    assert said in result.text
    assert "tool_use_error" not in unwrap_error(result.text)


def assert_marked(result: ToolResultBlock) -> None:
    assert result.is_error
    assert result.text.startswith("<tool_use_error>")
    assert result.text.endswith("</tool_use_error>")
    assert result.text.count("tool_use_error>") == 2


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (AbortReason.USER_CANCEL, "The user interrupted"),
        (AbortReason.INTERRUPT, "The user interrupted"),
        (AbortReason.SHUTDOWN, "agentcli was closed"),
    ],
)
@pytest.mark.parametrize("ignores", [True, False])
async def test_calls_ended_or_prevented_by_an_abort_are_marked_with_the_reason(
    reason: AbortReason, said: str, ignores: bool
) -> None:
    slow = FakeTool("Slow", safe=False, seconds=60, ignores_abort=ignores)
    b = bench(reply(call("Slow"), call("Slow", what="later")), "Next.", tools=[slow])
    async with b.engine:
        asyncio.get_running_loop().call_later(1, b.engine.abort, reason)
        await collect(b.engine.submit("go"))
    first, second = results(b)
    for result in (first, second):
        assert_marked(result)
    assert said in second.text
    assert said in first.text or not ignores


async def test_a_cancelled_sibling_and_a_consumer_that_leaves_are_marked_too() -> None:
    bad = FakeTool("Bad", output=Output("It broke.", is_error=True, cancel_siblings=True))
    b = bench(reply(call("Bad"), call("Look", seconds=50)), "Done.", tools=[bad, FakeTool()])
    await b.once()
    for result in results(b):
        assert_marked(result)
    b = bench(reply(call("Look", seconds=50)), tools=[FakeTool()])
    async with b.engine:
        stream = b.engine.submit("go")
        async for event in stream:
            if isinstance(event, ev.MessageAppended) and event.message.tool_uses:
                break
        await stream.aclose()
        (left,) = results(b)
        assert_marked(left)


async def test_successes_are_not_marked() -> None:
    b = bench(reply(LOOK), "Done.", tools=[FakeTool()])
    await b.once()
    (result,) = results(b)
    assert (result.is_error, result.text) == (False, "looked")


# ------------------------------------------------------------------------------------------------- hooks and budget


async def test_a_hook_that_raises_after_a_call_does_not_undo_its_success() -> None:
    b = bench(reply(LOOK), "Done.", tools=[FakeTool()], hooks=OddHooks(crash=True))
    events = await b.once()
    (result,) = results(b)
    assert (result.is_error, result.text) == (False, "looked")
    [notice] = [event.text for event in only(events, ev.NoticeRaised) if event.code == "hook"]
    assert "ValueError: the hook is broken" in notice
    assert result_of(events).text == "Done."
