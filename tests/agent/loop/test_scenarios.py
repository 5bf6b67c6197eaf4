"""Every transition and every terminal of SPEC 2.7, as scenarios that run twice: in-process on virtual time, and over
real HTTP with the true SDK. The scripts are the same, and every request is checked for what the API refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agentcli.agent.configured_hooks import RequireOutput
from agentcli.agent.loop_state import EndReason, LoopState, Transition
from agentcli.agent.ports import Collapser, Hooks, HookVerdict
from agentcli.agent.profile import Bounds, Profile, Tuning
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import ATTACHMENT, Json, Message, Origin, ToolResultBlock, ToolUseBlock
from agentcli.providers.credentials import Credentials
from agentcli.providers.provider import RetryPolicy
from agentcli.providers.transports.wire import WireTransport
from agentcli.tools.base import Output
from tests.support.fakes import MODEL, Bench, FakeTool, bench, only, result_of
from tests.support.scripts import call, call_raw, fails, fault, pause, reply, say, script, think
from tests.support.server import LoopbackServer
from tests.support.validate import problems
from tests.support.virtual import run_virtual

QUICK = RetryPolicy(max_retries=3, base_delay=0.001, max_delay=0.002)
PROFILE = Profile(model=MODEL, small_model="claude-haiku-5-5", system=("Be good.",))
TOO_LONG = fails(400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error")


class World:
    """Where a scenario runs: makes benches on the transport of its kind and closes them."""

    def __init__(self, via: str) -> None:
        self.via = via
        self._stack = AsyncExitStack()
        self._bodies: Callable[[], list[Json]] = list

    async def bench(self, *replies: Json | str, tools: Any = (), **rest: Any) -> Bench:
        if self.via == "scripted":
            made = bench(*replies, tools=tools, policy=QUICK, **rest)
            self._bodies = lambda: made.transport.requests
        else:
            server = LoopbackServer(script=script(*replies))
            await self._stack.enter_async_context(server)
            transport = WireTransport(Credentials(server.url, api_key="test", source="test"))
            made = bench(transport=transport, tools=tools, policy=QUICK, **rest)
            self._bodies = lambda: server.bodies
        await self._stack.enter_async_context(made.engine)
        return made

    def bodies(self) -> list[Json]:
        """The requests that arrived; all of them acceptable."""
        for body in self._bodies():
            assert problems(body) == []
        return self._bodies()

    async def aclose(self) -> None:
        await self._stack.aclose()


Scenario = Callable[[World], Awaitable[set[str]]]
"""Returns the names of the transitions and the terminal it has reached."""

SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def reached(events: list[ev.Event]) -> set[str]:
    return {event.transition for event in only(events, ev.LoopContinued)} | {result_of(events).terminal}


@dataclass
class Verdicts(Hooks):
    """Hooks with a verdict for each time they are asked."""

    verdicts: list[HookVerdict] = field(default_factory=list)
    stop_after_tool: str | None = None
    failures: list[str] = field(default_factory=list)
    active: list[bool] = field(default_factory=list)

    async def before_stop(self, state: LoopState) -> HookVerdict:
        self.active.append(state.stop_hook_active)
        return self.verdicts.pop(0) if self.verdicts else HookVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        return HookVerdict(stop=self.stop_after_tool)

    async def after_failure(self, text: str) -> None:
        self.failures.append(text)


class Staged(Collapser):
    def __init__(self, *staged: int) -> None:
        self._staged = list(staged)

    def staged(self) -> int:
        return self._staged[0] if self._staged else 0

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ev.ContextEdited:
        edits: list[Json] = [{"kind": "collapse", "target": f"none-{n}"} for n in range(self._staged.pop(0))]
        return ev.ContextEdited(edits=edits, step="collapse", text="summarised")


@scenario
async def an_answer_completes(world: World) -> set[str]:
    b = await world.bench(reply(think("hm"), "Hello."))
    events = await b.run("hi")
    result = result_of(events)
    assert (result.subtype, result.is_error, result.text, result.turns) == ("success", False, "Hello.", 1)
    return reached(events)


@scenario
async def tool_results_lead_to_the_next_turn(world: World) -> set[str]:
    tool = FakeTool()
    b = await world.bench(reply(say("Looking."), call("Look", what="a"), call("Look", what="b")), "Done.", tools=[tool])
    events = await b.run()
    assert [run["what"] for run in tool.runs] == ["a", "b"]
    second = world.bodies()[1]["messages"]
    assert [block["type"] for block in second[2]["content"]] == ["tool_result", "tool_result"]
    assert result_of(events).turns == 2
    return reached(events)


@scenario
async def max_turns_ends_after_the_tools_ran(world: World) -> set[str]:
    tool = FakeTool()
    b = await world.bench(reply(call("Look")), tools=[tool], bounds=Bounds(max_turns=1))
    events = await b.run()
    result = result_of(events)
    assert (result.subtype, result.errors) == ("error_max_turns", ["Reached maximum number of turns (1)"])
    assert len(tool.runs) == 1
    assert b.engine.messages[-1].origin is Origin.ATTACHMENT
    attachment = {"type": "max_turns_reached", "max_turns": 1, "turn_count": 1}
    assert b.engine.messages[-1].meta == {ATTACHMENT: attachment}
    assert only(events, ev.MessageAppended)[-1].message == b.engine.messages[-1]
    return reached(events)


@scenario
async def a_drained_collapse_retries(world: World) -> set[str]:
    b = await world.bench(TOO_LONG, "Fits now.", collapser=Staged(3))
    events = await b.run()
    assert only(events, ev.LoopContinued)[0].data == {"committed": 3}
    assert result_of(events).text == "Fits now."
    return reached(events)


@scenario
async def a_prompt_too_long_is_withheld_and_compacted_once(world: World) -> set[str]:
    b = await world.bench(reply("First answer. " * 50), TOO_LONG, "A summary.", "Answered.")
    await b.run("first question")
    events = await b.run("second question")
    assert [e.message.origin for e in only(events, ev.MessageAppended)] == [
        Origin.PROMPT,
        Origin.BOUNDARY,
        Origin.SUMMARY,
        Origin.PROMPT,
        Origin.REPLY,
    ]
    compacted = world.bodies()[-1]["messages"]
    assert len(compacted) == 1
    summary, prompt = compacted[0]["content"]
    assert "A summary." in summary["text"]
    assert prompt["text"] == "second question"
    assert "tool_choice" not in world.bodies()[2], "the compaction request shares the cached prefix"
    assert not only(events, ev.NoticeRaised)
    return reached(events)


@scenario
async def a_prompt_too_long_for_good_ends_with_the_withheld_error(world: World) -> set[str]:
    hooks = Verdicts()
    b = await world.bench("First. " * 90, TOO_LONG, "A summary.", TOO_LONG, hooks=hooks)
    await b.run("one")
    events = await b.run("two")
    result = result_of(events)
    assert result.is_error
    assert result.subtype == "error_during_execution"
    assert "too long" in result.errors[0]
    await asyncio.sleep(0)
    assert len(hooks.failures) == 1, "StopFailure hooks run, not awaited"
    return reached(events)


@scenario
async def a_first_overrun_asks_again_with_a_higher_cap_and_no_new_message(world: World) -> set[str]:
    b = await world.bench(reply("Cut of", stop_reason="max_tokens"), "Whole.")
    events = await b.run()
    first, second = world.bodies()
    assert (first["max_tokens"], second["max_tokens"]) == (8_192, 64_000)
    assert [m["role"] for m in second["messages"]] == ["user"]
    assert len(only(events, ev.ReplyTombstoned)) == 1
    assert result_of(events).text == "Whole."
    return reached(events)


@scenario
async def further_overruns_are_answered_with_a_terse_message_three_times(world: World) -> set[str]:
    cut = [reply(f"Part {n}", stop_reason="max_tokens") for n in range(5)]
    b = await world.bench(*cut)
    events = await b.run()
    assert [e.transition for e in only(events, ev.LoopContinued)] == [
        Transition.MAX_OUTPUT_TOKENS_ESCALATE,
        *[Transition.MAX_OUTPUT_TOKENS_RECOVERY] * 3,
    ]
    assert [e.data.get("attempt") for e in only(events, ev.LoopContinued)] == [None, 1, 2, 3]
    assert "output limit" in result_of(events).errors[0]
    return reached(events)


@scenario
async def a_blocking_stop_hook_sends_the_model_back(world: World) -> set[str]:
    hooks = Verdicts(verdicts=[HookVerdict(errors=("Run the tests first.",))])
    b = await world.bench("Done.", "Tests run.", hooks=hooks)
    events = await b.run()
    assert "Run the tests first." in str(world.bodies()[1]["messages"][-1])
    assert hooks.active == [False, True]
    assert result_of(events).text == "Tests run."
    return reached(events)


@scenario
async def a_stop_hook_may_end_the_submission(world: World) -> set[str]:
    b = await world.bench("Done.", hooks=Verdicts(verdicts=[HookVerdict(stop="Over quota.")]))
    events = await b.run()
    assert b.engine.messages[-1].text == "Over quota."
    assert not result_of(events).is_error
    return reached(events)


@scenario
async def a_post_tool_hook_may_end_the_submission(world: World) -> set[str]:
    b = await world.bench(reply(call("Look")), tools=[FakeTool()], hooks=Verdicts(stop_after_tool="Enough."))
    events = await b.run()
    assert len(world.bodies()) == 1
    return reached(events)


@scenario
async def a_token_target_keeps_the_model_at_work(world: World) -> set[str]:
    usage = {"input_tokens": 10, "output_tokens": 600}
    b = await world.bench(*[reply(f"More {n}.", usage=usage) for n in range(4)], bounds=Bounds(token_target=2_000))
    events = await b.run()
    assert [e.data["remaining"] for e in only(events, ev.LoopContinued)] == [1_400, 800]
    return reached(events)


@scenario
async def esc_while_streaming_keeps_the_partial_text(world: World) -> set[str]:
    b = await world.bench(reply(think("well"), say("Half an ans"), pause(30), say("wer")), "Next.")
    events = []
    async for event in b.engine.submit("go"):
        events.append(event)
        if isinstance(event, ev.TextStreamed):
            b.engine.abort()
    result = result_of(events)
    assert result.is_error
    assert [m.origin for m in b.engine.messages] == [Origin.PROMPT, Origin.REPLY, Origin.INTERRUPTION]
    assert b.engine.messages[1].text == "Half an ans"
    assert result_of(await b.run("next")).text == "Next."
    assert world.bodies()[1]["messages"][-1]["content"][0]["text"].startswith("[Request interrupted")
    return reached(events)


@scenario
async def esc_while_a_tool_runs_gives_every_call_a_result(world: World) -> set[str]:
    slow, other = FakeTool("Slow", safe=False, seconds=60), FakeTool()
    b = await world.bench(reply(call("Slow"), call("Look")), "Next.", tools=[slow, other])
    events = []
    async for event in b.engine.submit("go"):
        events.append(event)
        if isinstance(event, ev.ToolStarted):
            await asyncio.sleep(0.01)
            b.engine.abort()
    assert slow.ended == ["aborted"]
    assert other.runs == []
    assert [len(m.tool_results) for m in b.engine.messages] == [0, 0, 2, 0]
    assert b.engine.messages[-1].origin is Origin.INTERRUPTION
    assert result_of(await b.run("next")).text == "Next."
    world.bodies()
    return reached(events)


@scenario
async def a_steering_prompt_leaves_no_interruption_message(world: World) -> set[str]:
    b = await world.bench(reply(say("Half"), pause(30)), "Steered.")
    events = []
    async for event in b.engine.submit("go"):
        events.append(event)
        if isinstance(event, ev.TextStreamed):
            b.engine.abort(AbortReason.INTERRUPT)
    assert [m.origin for m in b.engine.messages] == [Origin.PROMPT, Origin.REPLY]
    assert result_of(await b.run("rather this")).text == "Steered."
    world.bodies()
    return reached(events)


@scenario
async def a_full_context_without_a_way_out_blocks_before_the_call(world: World) -> set[str]:
    b = await world.bench(
        profile=replace(PROFILE, context_window=9_000),
        tuning=Tuning(auto_compact=False, reactive_compact=False),
    )
    events = await b.run("word " * 5_000)
    assert world.bodies() == []
    assert "Nothing was sent" in (said := result_of(events).errors[0])
    assert "/compact" not in said, "there is nothing but the prompt"
    assert "/compact" in result_of(await b.run("again")).errors[0]
    return reached(events)


@scenario
async def a_refused_request_is_a_model_error(world: World) -> set[str]:
    b = await world.bench(fails(400, "tools.0: something is wrong", "invalid_request_error"), "Fine now.")
    events = await b.run()
    result = result_of(events)
    assert (result.subtype, result.api_error_status) == ("error_during_execution", 400)
    assert "something is wrong" in result.errors[0]
    assert result_of(await b.run("again")).text == "Fine now."
    world.bodies()
    return reached(events)


@scenario
async def overload_without_end_is_a_retryable_model_error(world: World) -> set[str]:
    b = await world.bench(fails(529, repeat=True))
    events = await b.run()
    assert [e.attempt for e in only(events, ev.RetryScheduled)] == [1, 2, 3]
    assert result_of(events).retryable
    return reached(events)


@scenario
async def a_refused_image_is_dropped_once_then_ends_as_image_error(world: World) -> set[str]:
    bad = fails(400, "messages.0.content.1.image.source: Could not process image", "invalid_request_error")
    b = await world.bench(bad, bad)
    events = await b.run()
    assert [e.repair for e in only(events, ev.RequestRepaired)] == ["drop_images"]
    assert len(world.bodies()) == 2
    return reached(events)


@scenario
async def the_dollar_budget_ends_before_the_next_request(world: World) -> set[str]:
    usage = {"input_tokens": 100_000, "output_tokens": 1_000}
    tool = FakeTool()
    b = await world.bench(reply(call("Look"), usage=usage), tools=[tool], bounds=Bounds(max_budget_usd=0.05))
    events = await b.run()
    result = result_of(events)
    assert result.subtype == "error_max_budget_usd"
    assert result.total_cost_usd == pytest.approx(0.21)
    assert len(world.bodies()) == 1
    assert b.engine.messages[-1].tool_results, "synthetic where missing"
    assert result_of(await b.run("more")).subtype == "error_max_budget_usd"
    assert len(world.bodies()) == 1, "a spent budget sends nothing any more"
    return reached(events)


@scenario
async def a_broken_stream_is_tombstoned_and_asked_for_again(world: World) -> set[str]:
    tool = FakeTool()
    b = await world.bench(reply(say("Half"), call("Look", what="x"), fault("drop")), "Whole.", tools=[tool])
    events = await b.run()
    assert len(only(events, ev.ReplyTombstoned)) == 1
    assert result_of(events).text == "Whole."
    assert [m.origin for m in b.engine.messages] == [Origin.PROMPT, Origin.REPLY]
    assert world.bodies()[0]["messages"] == world.bodies()[1]["messages"]
    return reached(events)


@scenario
async def a_stream_that_breaks_behind_a_side_effect_is_salvaged(world: World) -> set[str]:
    write = FakeTool("Change", safe=False)
    steps = [say("I change it."), call("Change", what="once"), pause(0.2), say("and now I"), fault("drop")]
    b = await world.bench(reply(*steps), "Done.", tools=[write])
    events = await b.run()
    assert len(write.runs) == 1, "nothing is ever run twice"
    assert not only(events, ev.ReplyTombstoned)
    kept = b.engine.messages[1]
    assert [type(block).__name__ for block in kept.content] == ["TextBlock", "ToolUseBlock"]
    assert result_of(events).text == "Done."
    world.bodies()
    return reached(events)


@scenario
async def a_call_cut_by_the_output_cap_is_not_run(world: World) -> set[str]:
    write = FakeTool("Change", safe=False)
    cut = reply(say("Now"), call_raw("Change", '{"what": "ha'), stop_reason="max_tokens")
    b = await world.bench(cut, reply(call("Change", what="whole")), "Done.", tools=[write])
    events = await b.run()
    assert write.runs == [{"what": "whole"}]
    return reached(events)


@scenario
async def a_refusal_ends_and_the_prompt_is_not_sent_again_unchanged(world: World) -> set[str]:
    refused = reply(stop_reason="refusal", stop_details={"type": "refusal", "category": "cyber"})
    b = await world.bench(refused, "Gladly.")
    events = await b.run("something awful")
    assert "declined" in result_of(events).errors[0]
    assert result_of(await b.run("something nice")).text == "Gladly."
    assert "awful" not in str(world.bodies()[1])
    return reached(events)


@scenario
async def an_empty_reply_is_nudged_once_and_never_stored(world: World) -> set[str]:
    b = await world.bench(reply(), reply())
    events = await b.run()
    assert len(world.bodies()) == 2
    assert all(m.content for m in b.engine.messages)
    assert result_of(events).text == ""
    return reached(events)


@scenario
async def a_paused_turn_is_sent_back_as_it_is(world: World) -> set[str]:
    b = await world.bench(reply(say("Searching"), stop_reason="pause_turn"), "Found.")
    events = await b.run()
    last = world.bodies()[1]["messages"][-1]
    assert last["role"] == "assistant"
    assert last["content"][0]["text"] == "Searching"
    return reached(events)


@scenario
async def a_window_that_overflows_in_the_reply_is_compacted_and_goes_on(world: World) -> set[str]:
    b = await world.bench(
        reply("Long text. " * 60, stop_reason="model_context_window_exceeded"), "A summary.", "The rest."
    )
    events = await b.run("go " * 50)
    assert result_of(events).text == "Long text. " * 60 + "The rest."
    asked = str(world.bodies()[-1]["messages"][-1])
    assert "Go straight on" in asked
    assert asked.count("Long text. ") > 10, "the model sees where its reply stopped"
    return reached(events)


@scenario
async def a_fallback_model_takes_over_after_three_overloads(world: World) -> set[str]:
    profile = replace(PROFILE, fallback_models=("claude-haiku-5-5",))
    b = await world.bench(fails(529, repeat=3), "From the other.", profile=profile)
    events = await b.run()
    assert [(e.from_model, e.to_model) for e in only(events, ev.ModelFellBack)] == [(MODEL, "claude-haiku-5-5")]
    assert world.bodies()[-1]["model"] == "claude-haiku-5-5"
    return reached(events)


@scenario
async def a_structured_output_completes_without_another_call(world: World) -> set[str]:
    tool = FakeTool("Answer", output=Output("taken", final={"n": 1}))
    b = await world.bench(reply(call("Answer")), tools=[tool], wants_structured=True)
    events = await b.run()
    assert result_of(events).structured_output == {"n": 1}
    assert len(world.bodies()) == 1
    return reached(events)


@scenario
async def a_structured_output_that_never_comes_ends_the_submission_without_a_word_about_hooks(world: World) -> set[str]:
    hooks = RequireOutput("StructuredOutput")
    b = await world.bench(reply("Here.", repeat=True), hooks=hooks, wants_structured=True)
    events = await b.run()
    assert result_of(events).subtype == "error_max_structured_output_retries"
    assert "hook" not in str([message.text for message in b.engine.messages])
    assert "Give your answer by calling the tool StructuredOutput." in str(world.bodies()[1]["messages"][-1])
    assert not [message for message in b.engine.messages if message.origin is Origin.HOOK]
    return reached(events)


@scenario
async def a_model_that_goes_round_in_circles_is_told_once_and_then_stopped(world: World) -> set[str]:
    b = await world.bench(reply(call("Look", what="there"), repeat=True), tools=[FakeTool()])
    events = await b.run()
    result = result_of(events)
    assert (result.subtype, result.is_error, result.turns) == ("error_during_execution", True, 4)
    assert result.errors[0].startswith("Stopped: Look was called 4 times in a row with the same input")
    assert [(e.title, e.times) for e in only(events, ev.LoopSuspected)] == [("Look there", 3), ("Look there", 4)]
    told = [m for m in b.engine.messages if m.origin is Origin.RECOVERY]
    assert len(told) == 1
    assert "3 times in a row" in str(world.bodies()[3]["messages"][-1])
    return reached(events)


def run(play: Scenario, via: str) -> set[str]:
    async def whole() -> set[str]:
        world = World(via)
        try:
            return await play(world)
        finally:
            await world.aclose()

    return run_virtual(whole) if via == "scripted" else asyncio.run(whole())


@pytest.mark.parametrize("via", ["scripted", "wire"])
@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_scenario(play: Scenario, via: str) -> None:
    run(play, via)


def test_the_scenarios_reach_every_transition_and_every_terminal() -> None:
    """The same scenarios run over HTTP with the true SDK above, so each is reached there too."""
    seen: set[str] = set()
    for play in SCENARIOS:
        seen |= run(play, "scripted")
    assert seen == {item.value for item in (*Transition, *EndReason)}
