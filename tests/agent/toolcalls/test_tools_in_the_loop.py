"""How tools run inside a turn: order, concurrency, permission, failures (SPEC T1 to T10)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.profile import Tuning
from agentcli.agent.toolcalls.calls import BatchExecutor
from agentcli.core import events as ev
from agentcli.core.messages import Json, ToolUseBlock
from agentcli.core.permission import Answer, PermissionMode
from agentcli.tools.base import Output
from tests.support.fakes import Bench, FakeTool, bench, kinds, only, result_of
from tests.support.scripts import call, call_raw, call_with_id, fault, pause, reply, say
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


def result_text(b: Bench, index: int = 0) -> str:
    results = [r for m in b.engine.messages for r in m.tool_results]
    return results[index].text


async def test_safe_tools_start_and_finish_while_the_reply_still_streams() -> None:
    """Four slow readers and a slow stream: the first has finished before the stream ends (order, not time)."""
    tool = FakeTool(seconds=1)
    steps = [item for n in range(4) for item in (call("Look", what=str(n)), pause(2), say(f"next {n}"))]
    b = bench(reply(*steps), "Done.", tools=[tool])
    events = await b.once()
    names = kinds(events)
    assert names.index("ToolFinished") < names.index("UsageReported")
    started = [i for i, name in enumerate(names) if name == "ToolStarted"]
    ended = [i for i, name in enumerate(names) if name == "BlockFinished" and _is_call(events[i])]
    assert all(start > end for start, end in zip(started, ended, strict=True))
    assert started[0] < ended[1], "each starts as soon as its own block is complete"


def _is_call(event: ev.Event) -> bool:
    return isinstance(event, ev.BlockFinished) and isinstance(event.block, ToolUseBlock)


async def test_the_batch_executor_starts_nothing_before_the_reply_is_complete() -> None:
    b = bench(
        reply(call("Look"), pause(1), say("x")), "Done.", tools=[FakeTool()], tuning=Tuning(executor=BatchExecutor)
    )
    names = kinds(await b.once())
    assert names.index("ToolStarted") > names.index("UsageReported")


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_the_number_of_parallel_safe_tools_is_limited(limit: int) -> None:
    running = 0
    most = 0

    class Counting(FakeTool):
        async def run(self, input: Json, context: Any, signal: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            yield Output("ok")

    async def main() -> None:
        b = bench(reply(*[call("Look")] * 12), "Done.", tools=[Counting()], tuning=Tuning(concurrency=limit))
        await b.once()

    run_virtual(main)
    assert most == limit


async def test_an_unsafe_call_waits_for_all_before_it_and_all_after_it_wait_for_it() -> None:
    order: list[str] = []

    class Noting(FakeTool):
        async def run(self, input: Json, context: Any, signal: Any) -> Any:
            order.append(f"+{input['what']}")
            await asyncio.sleep(float(input["seconds"]))
            order.append(f"-{input['what']}")
            yield Output("ok")

    read, write = Noting("Look"), Noting("Change", safe=False)
    steps = [
        call("Look", what="r1", seconds=3),
        call("Look", what="r2", seconds=1),
        call("Change", what="w", seconds=1),
        call("Look", what="r3", seconds=1),
    ]
    b = bench(reply(*steps), "Done.", tools=[read, write])
    await b.once()
    assert order == ["+r1", "+r2", "-r2", "-r1", "+w", "-w", "+r3", "-r3"]


async def test_results_keep_the_order_of_calls_while_ends_are_reported_at_once() -> None:
    b = bench(reply(call("Look", seconds=5), call("Look", seconds=1)), "Done.", tools=[FakeTool()])
    events = await b.once()
    first, second = [e.block.id for e in only(events, ev.BlockFinished) if isinstance(e.block, ToolUseBlock)]
    assert [e.tool_use_id for e in only(events, ev.ToolFinished)] == [second, first]
    assert [e.tool_use_id for e in only(events, ev.ToolResultAdded)] == [first, second]


async def test_progress_reaches_the_consumer_and_not_the_log() -> None:
    b = bench(reply(call("Look")), "Done.", tools=[FakeTool(steps=3)])
    events = await b.once()
    assert [e.text for e in only(events, ev.ToolProgressed)] == ["step 0", "step 1", "step 2"]
    assert "step" not in str(b.engine.messages)


async def test_a_changed_directory_applies_to_later_replies_and_submissions() -> None:
    seen: list[Path] = []

    class Moving(FakeTool):
        async def run(self, input: Json, context: Any, signal: Any) -> Any:
            seen.append(context.cwd)
            yield Output("ok", new_cwd=Path(input["what"]))

    tool = Moving("Go", safe=False)
    b = bench(reply(call("Go", what="/work/a"), call("Go", what="/work/b")), "Done.", reply(call("Go", what="/")), "x",
              tools=[tool])  # fmt: skip
    async with b.engine:
        events = await b.run()
        await b.run()
    assert seen == [Path("/work"), Path("/work"), Path("/work/b")]
    assert only(events, ev.DirectoryChanged)[0].cwd == "/work/b"


async def test_a_failing_call_leaves_its_siblings_alone_unless_the_tool_says_otherwise() -> None:
    gentle = FakeTool("Gentle", output=Output("exit 1", is_error=True))
    harsh = FakeTool("Harsh", output=Output("lost the connection", is_error=True, cancel_siblings=True))
    other = FakeTool(seconds=5)
    b = bench(reply(call("Gentle"), call("Look")), reply(call("Harsh"), call("Look")), "Done.",
              tools=[gentle, harsh, other])  # fmt: skip
    events = await b.once()
    assert other.ended == ["done", "cancelled"]
    assert len(only(events, ev.ToolFinished)) == 4, "the cancelled one is told about, too"
    assert "failed" in result_text(b, 3)


async def test_a_repeated_tool_id_gets_a_fresh_one_before_it_enters_the_log() -> None:
    b = bench(
        reply(call_with_id("toolu_x", "Look"), call_with_id("toolu_x", "Look")),
        reply(call_with_id("toolu_x", "Look")),
        "Done.",
        tools=[FakeTool()],
    )
    await b.once()
    ids = [use.id for m in b.engine.messages for use in m.tool_uses]
    assert len(ids) == len(set(ids)) == 3


async def test_a_call_without_input_runs_once_the_reply_proves_that_nothing_was_cut() -> None:
    tool = FakeTool()
    b = bench(reply(call_raw("Look", ""), call_raw("Look", "")), "Done.", tools=[tool])
    await b.once()
    assert tool.runs == [{}, {}]


# ------------------------------------------------------------------------------------------------------ permission


class Asking:
    """A bench whose tool has to be asked for."""

    def __init__(self, *replies: Any, answer: Answer | None, **rest: Any) -> None:
        self.tool = FakeTool("Change", safe=False, need="write")
        self.answer = answer
        self.b = bench(*replies, tools=[self.tool], mode=PermissionMode.DEFAULT, interactive=True, **rest)

    async def run(self) -> list[ev.Event]:
        events = []
        async with self.b.engine:
            async for event in self.b.engine.submit("go"):
                events.append(event)
                if isinstance(event, ev.PermissionRequested) and self.answer is not None:
                    assert self.b.engine.answer(event.request_id, self.answer)
                    assert not self.b.engine.answer(event.request_id, self.answer), "a question has one answer"
        return events


async def test_a_yes_runs_the_call_with_the_input_the_answer_gives() -> None:
    asking = Asking(reply(call("Change", what="a")), "Done.", answer=Answer("allow", updated_input={"what": "b"}))
    await asking.run()
    assert asking.tool.runs == [{"what": "b"}]
    assert asking.b.requests[1]["messages"][1]["content"][0]["input"] == {"what": "a"}, "T9: the original goes back"


async def test_the_report_about_accepted_hunks_is_part_of_the_result() -> None:
    answer = Answer("allow", "Two of three hunks.", updated_input={"what": "b"}, accepted_hunks=(2, 3))
    asking = Asking(reply(call("Change", what="a")), "Done.", answer=answer)
    await asking.run()
    assert asking.tool.runs == [{"what": "b"}]
    assert "Two of three hunks." in result_text(asking.b)


async def test_a_denial_is_reported_to_the_model_and_counted() -> None:
    asking = Asking(reply(call("Change")), "Well then.", answer=Answer("deny", "Not in this folder."))
    events = await asking.run()
    assert asking.tool.runs == []
    assert "The user declined this call." in result_text(asking.b)
    assert "Not in this folder." in asking.b.requests[-1]["messages"][-1]["content"][-1]["text"]
    result = result_of(events)
    assert not result.is_error, "a denied tool is no failure of the run"
    assert [d["tool_name"] for d in result.permission_denials] == ["Change"]


async def test_a_denial_can_end_the_submission() -> None:
    asking = Asking(reply(call("Change")), answer=Answer("deny", "Stop.", interrupt=True))
    events = await asking.run()
    assert result_of(events).terminal == "aborted_tools"


async def test_always_allow_applies_for_the_rest_of_the_conversation() -> None:
    asking = Asking(reply(call("Change")), reply(call("Change")), "Done.", answer=Answer("allow", rules=("Change",)))
    events = await asking.run()
    assert len(only(events, ev.PermissionRequested)) == 1
    assert len(asking.tool.runs) == 2


async def test_an_abort_withdraws_the_question() -> None:
    asking = Asking(reply(call("Change")), answer=None)
    asyncio.get_running_loop().call_later(3, asking.b.engine.abort)
    events = await asking.run()
    assert [e.behavior for e in only(events, ev.PermissionResolved)] == ["withdrawn"]
    assert result_of(events).terminal == "aborted_tools"
    assert asking.tool.runs == []


async def test_a_stream_that_breaks_while_a_question_is_open_withdraws_it_and_retries() -> None:
    """No call has started, so the reply is not kept and its question is void."""
    asking = Asking(reply(call("Change"), pause(5), fault("drop")), "Done.", answer=None)
    events = await asking.run()
    assert [e.behavior for e in only(events, ev.PermissionResolved)] == ["withdrawn"]
    assert len(only(events, ev.ReplyTombstoned)) == 1
    assert result_of(events).text == "Done."


# ----------------------------------------------------------------------------------------------------------- hooks


# -------------------------------------------------------------------------------------------- queue and summaries


async def test_a_batch_summary_arrives_when_ready_without_blocking() -> None:
    summary = reply(pause(2), "Looked around.", match="You write one short line", repeat=True)
    b = bench(
        reply(call("Look")), reply(say("a"), pause(5), call("Look")), "Done.", summary, tools=[FakeTool()],
        tuning=Tuning(tool_summaries=True),
    )  # fmt: skip
    events = await b.once()
    names = kinds(events)
    assert names.count("ToolBatchSummarised") == 1, "the second was still on its way when the submission ended"
    assert names.index("ToolBatchSummarised") > names.index("TextStreamed")
    assert any(e.purpose == "summary" for e in only(events, ev.UsageReported)), "side calls count"


async def test_one_submission_at_a_time() -> None:
    b = bench(reply(pause(1), "a"))
    async with b.engine:
        stream = b.engine.submit("go")
        await anext(stream)
        with pytest.raises(RuntimeError, match="enqueue"):
            await anext(b.engine.submit("again"))
        await stream.aclose()
