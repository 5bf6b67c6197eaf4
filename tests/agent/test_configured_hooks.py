"""What configured hooks do in the loop: every event from its place, verdicts and their order. Hooks are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.configured_hooks import ConfiguredHooks, RequireOutput
from agentcli.agent.ports import HookChain, Hooks, HookVerdict
from agentcli.core import events as ev
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Origin, ToolUseBlock
from agentcli.core.permission import Answer, PermissionMode
from agentcli.hooks.rules import HookRule
from agentcli.hooks.runner import HookPlace, HookRunner
from agentcli.tools.base import Output
from tests.support.fakes import Bench, FakeTool, LoopClock, bench, collect, only, result_of
from tests.support.scripts import call, fails, pause, reply
from tests.support.tables import each_row

pytestmark = pytest.mark.virtual

Act = Callable[[Json], Any]


def rule(event: str, action: Act | Any = None, matcher: str = "", **rest: Any) -> HookRule:
    """A hook that returns a value, or what a function makes of the data."""

    async def hook(data: Json) -> Any:
        return action(data) if callable(action) else action

    return HookRule(event, matcher, hook, source="test.json", **rest)


def hooks_of(*rules: HookRule) -> ConfiguredHooks:
    return ConfiguredHooks(HookRunner(rules, HookPlace(Path("/work"), {}), SequentialIds(5000), LoopClock()))


def with_hooks(*replies: Json | str, rules: tuple[HookRule, ...], **rest: Any) -> Bench:
    return bench(*replies, hooks=hooks_of(*rules), **rest)


def special(**fields: Any) -> Json:
    return {"hookSpecificOutput": fields}


def results(b: Bench) -> list[str]:
    return [result.text for message in b.engine.messages for result in message.tool_results]


def hook_texts(b: Bench) -> list[str]:
    return [message.text for message in b.engine.messages if message.origin is Origin.HOOK]


# ---------------------------------------------------------------------------------------------------- the tool calls


async def test_what_a_hook_or_a_tool_does_to_its_own_data_changes_neither_the_log_nor_a_request() -> None:
    def careless(data: Json) -> None:
        data["tool_input"]["items"].append("of a hook")
        data["tool_input"].clear()

    class Careless(FakeTool):
        validates_itself = True

        async def run(self, input: Json, context: Any, signal: Any) -> Any:
            input["items"].append("of the tool")
            yield Output("Failed.", is_error=True)

    rules = tuple(rule(event, careless) for event in ("PreToolUse", "PostToolUseFailure"))
    b = with_hooks(reply(call("Look", items=["a"])), "Fine.", rules=rules, tools=[Careless()])
    events = await b.once()
    assert [event.outcome for event in only(events, ev.HookFinished)] == ["success", "success"]
    (use,) = (use for message in b.engine.messages for use in message.tool_uses)
    assert use.input == {"items": ["a"]}
    assert b.requests[1]["messages"][1]["content"][0]["input"] == {"items": ["a"]}


async def test_a_denied_call_does_not_run_and_the_model_gets_the_reason() -> None:
    tool = FakeTool()
    denies = rule("PreToolUse", special(permissionDecision="deny", permissionDecisionReason="Not today."), "Look")
    b = with_hooks(reply(call("Look")), "Fine.", rules=(denies,), tools=[tool])
    events = await b.once()
    assert tool.runs == []
    assert "A hook denied this call: Not today." in results(b)[0]
    ended = only(events, ev.HookFinished)
    assert [(event.outcome, event.text, event.source) for event in ended] == [("denied", "Not today.", "test.json")]
    assert only(events, ev.HookStarted)[0].hook_id == ended[0].hook_id
    assert ended[0].tool_use_id == only(events, ev.PermissionDenied)[0].tool_use_id
    assert result_of(events).terminal == "completed"


async def test_the_data_names_the_session_and_the_call() -> None:
    seen: list[Json] = []
    b = with_hooks(reply(call("Look", what="x")), "Ok.", rules=(rule("PreToolUse", seen.append),), tools=[FakeTool()])
    await b.once()
    assert seen[0] | {"tool_use_id": ""} == {
        "session_id": "session",
        "transcript_path": "",
        "cwd": "/work",
        "permission_mode": "bypassPermissions",
        "hook_event_name": "PreToolUse",
        "tool_name": "Look",
        "tool_input": {"what": "x"},
        "tool_use_id": "",
    }


@each_row(
    ("decisions", "expected"),
    [
        (("allow", "deny", "ask"), "deny"),
        (("allow", "ask"), "ask"),
        (("allow",), "allow"),
        ((), "none"),
    ],
)
async def test_deny_is_stronger_than_ask_and_ask_than_allow(decisions: tuple[str, ...], expected: str) -> None:
    rules = [rule("PreToolUse", special(permissionDecision=decision)) for decision in decisions]
    verdict = await hooks_of(*rules).before_tool(ToolUseBlock("id", "Look", {}), {})
    assert verdict.decision == expected


async def test_a_changed_input_is_what_runs_and_the_log_keeps_the_models_own() -> None:
    tool = FakeTool()
    changes = rule("PreToolUse", special(updatedInput={"what": "safe"}))
    b = with_hooks(reply(call("Look", what="wild")), "Ok.", rules=(changes,), tools=[tool])
    await b.once()
    assert tool.runs == [{"what": "safe"}]
    assert [use.input for message in b.engine.messages for use in message.tool_uses] == [{"what": "wild"}]


async def test_an_allow_answers_the_mode_but_no_ask_rule() -> None:
    from agentcli.permissions.policy import Policy
    from agentcli.permissions.rules import parse_rules

    for rules, ran in (((), 1), (("Look",), 0)):
        tool = FakeTool(need="write")
        allows = rule("PreToolUse", special(permissionDecision="allow"))
        b = with_hooks(reply(call("Look")), "Ok.", rules=(allows,), tools=[tool], mode=PermissionMode.DEFAULT)
        policy = Policy(mode=PermissionMode.DEFAULT, ask=tuple(parse_rules(rules, "user", "user")))
        b.engine.permissions._policy = policy
        await b.once()
        assert len(tool.runs) == ran


@pytest.mark.parametrize("how", ["hangs", "raises"])
async def test_a_hook_that_hangs_or_crashes_asks(how: str) -> None:
    async def bad(_data: Json) -> Any:
        if how == "raises":
            raise ValueError("broken")
        await asyncio.sleep(1_000)

    tool = FakeTool()
    broken = HookRule("PreToolUse", "", bad, timeout=30)
    b = with_hooks(reply(call("Look")), "Ok.", rules=(broken,), tools=[tool])
    events = await b.once()
    assert tool.runs == [], "nobody is there to be asked"
    decided = only(events, ev.PermissionDecided)[0]
    assert (decided.behavior, decided.source) == ("ask", "hook")
    assert only(events, ev.HookFinished)[0].outcome == ("crashed" if how == "raises" else "timed_out")


async def test_continue_false_ends_the_submission_after_the_results() -> None:
    for event in ("PreToolUse", "PostToolUse"):
        stops = rule(event, {"continue": False, "stopReason": "Enough."})
        b = with_hooks(reply(call("Look")), "Never.", rules=(stops,), tools=[FakeTool()])
        events = await b.once()
        assert len(b.requests) == 1
        assert len(results(b)) == 1
        assert result_of(events).terminal == "hook_stopped"
        assert b.engine.messages[-1].text == "Enough."


async def test_a_block_after_a_call_tells_the_model() -> None:
    seen: list[Json] = []

    def block(data: Json) -> Json:
        seen.append(data)
        return {"decision": "block", "reason": "Tests fail."}

    b = with_hooks(reply(call("Look")), "Ok.", rules=(rule("PostToolUse", block),), tools=[FakeTool()])
    await b.once()
    assert results(b) == ["looked"]
    assert hook_texts(b) == ["A hook objects to the result of Look: Tests fail."]
    assert seen[0]["tool_response"] == {"content": "looked", "is_error": False}


async def test_failures_have_an_event_of_their_own() -> None:
    seen: list[tuple[str, str]] = []

    def note(data: Json) -> None:
        seen.append((data["hook_event_name"], data["tool_name"]))

    rules = (rule("PostToolUse", note), rule("PostToolUseFailure", note))
    b = with_hooks(
        reply(call("Look"), call("Break"), call("Nope")),
        "Ok.",
        rules=rules,
        tools=[FakeTool(), FakeTool(name="Break", crash=ValueError("x"))],
    )
    await b.once()
    assert sorted(seen) == [
        ("PostToolUse", "Look"),
        ("PostToolUseFailure", "Break"),
        ("PostToolUseFailure", "Nope"),
    ]


# ----------------------------------------------------------------------------------------------- permission questions


def answering(**decision: Any) -> HookRule:
    return rule("PermissionRequest", special(decision=decision))


async def test_a_hook_answers_in_place_of_the_user() -> None:
    for decision, ran in (({"behavior": "allow"}, 1), ({"behavior": "deny", "message": "No."}, 0)):
        tool = FakeTool(need="write")
        b = with_hooks(
            reply(call("Look")), "Ok.", rules=(answering(**decision),), tools=[tool], mode=PermissionMode.DEFAULT
        )
        events = await b.once()
        assert len(tool.runs) == ran
        assert only(events, ev.PermissionRequested) == []


async def test_the_user_is_asked_when_no_hook_answers_and_a_notification_runs() -> None:
    seen: list[Json] = []
    rules = (rule("PermissionRequest"), rule("Notification", seen.append, "permission_prompt"))
    tool = FakeTool(need="write")
    b = with_hooks(reply(call("Look")), "Ok.", rules=rules, tools=[tool], mode=PermissionMode.DEFAULT, interactive=True)
    async with b.engine:
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.PermissionRequested):
                b.engine.answer(event.request_id, Answer("allow"))
    assert len(tool.runs) == 1
    assert [data["notification_type"] for data in seen] == ["permission_prompt"]


# -------------------------------------------------------------------------------------------------- prompts and stops


async def test_a_prompt_gets_context_from_the_session_and_from_its_own_hook() -> None:
    starts: list[str] = []

    def start(data: Json) -> str:
        starts.append(data["source"])
        return "Welcome."

    rules = (rule("SessionStart", start), rule("UserPromptSubmit", lambda data: f"About {data['prompt']}."))
    b = with_hooks("One.", "Two.", rules=rules)
    async with b.engine:
        await b.run("cats")
        await b.run("dogs")
    assert starts == ["startup"]
    assert hook_texts(b) == ["Welcome.\n\nAbout cats.", "About dogs."]
    first = b.requests[0]["messages"][0]["content"]
    assert [block["text"] for block in first] == ["cats", "Welcome.\n\nAbout cats."]


async def test_a_blocked_prompt_is_not_sent_and_not_kept() -> None:
    def judge(data: Json) -> Json | None:
        return {"decision": "block", "reason": "It names a secret."} if "secret" in data["prompt"] else None

    b = with_hooks("Fine.", rules=(rule("UserPromptSubmit", judge),))
    async with b.engine:
        result = result_of(await b.run("the secret is 42"))
        assert (result.is_error, result.terminal) == (True, "prompt_blocked")
        assert result.errors == ["A hook blocked this prompt: It names a secret."]
        assert b.requests == []
        assert b.engine.messages == ()
        assert result_of(await b.run("hello")).text == "Fine."


async def test_a_stop_hook_keeps_the_model_going_until_it_agrees() -> None:
    active: list[bool] = []

    def judge(data: Json) -> Json | None:
        active.append(data["stop_hook_active"])
        return {"decision": "block", "reason": "Run the tests."} if data["last_assistant_message"] != "Done." else None

    b = with_hooks("Almost.", "Done.", rules=(rule("Stop", judge),))
    result = result_of(await b.once())
    assert (result.text, result.terminal) == ("Done.", "completed")
    assert active == [False, True]
    assert "Run the tests." in hook_texts(b)[0]


async def test_an_api_error_runs_no_stop_hook_but_the_one_for_failures() -> None:
    seen: list[str] = []

    def note(data: Json) -> None:
        seen.append(data["hook_event_name"])

    b = with_hooks(fails(400, "bad"), rules=(rule("Stop", note), rule("StopFailure", note)))
    assert result_of(await b.once()).is_error
    assert seen == ["StopFailure"]


@pytest.mark.parametrize(
    ("interactive", "seconds", "ended"), [(False, 50, True), (False, 70, False), (True, 1, True), (True, 2, False)]
)
async def test_the_end_of_a_session_gives_failure_hooks_their_time(
    interactive: bool, seconds: float, ended: bool
) -> None:
    seen: list[str] = []

    async def slow(data: Json) -> None:
        await asyncio.sleep(seconds)
        seen.append(data["hook_event_name"])

    b = with_hooks(fails(400, "bad"), rules=(HookRule("StopFailure", "", slow),), interactive=interactive)
    async with b.engine:
        began = asyncio.get_running_loop().time()
        assert result_of(await b.run()).is_error
        assert asyncio.get_running_loop().time() == began, "the result does not wait for them"
    assert seen == (["StopFailure"] if ended else [])


async def test_an_abort_runs_no_failure_hooks() -> None:
    seen: list[str] = []
    too_long = fails(400, "prompt is too long: 300000 tokens > 200000 maximum", "invalid_request_error")
    summary = reply(pause(5), "A summary.")
    rules = (rule("StopFailure", lambda data: seen.append(data["error"])),)
    b = with_hooks("First. " * 90, too_long, summary, rules=rules)
    async with b.engine:
        await b.run("one")
        events = []
        async for event in b.engine.submit("two"):
            events.append(event)
            if isinstance(event, ev.CompactionStarted):
                b.engine.abort()
        assert result_of(events).terminal.startswith("aborted")
    assert seen == []


async def test_an_abort_ends_a_running_hook_at_once() -> None:
    ended: list[str] = []

    async def slow(_data: Json) -> None:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"):
        b = with_hooks(reply(call("Look")), "Ok.", rules=(HookRule(event, "", slow, timeout=900),), tools=[FakeTool()])
        async with b.engine:
            loop = asyncio.get_running_loop()
            began = loop.time()
            loop.call_later(3, b.engine.abort)
            result = result_of(await b.run())
            assert loop.time() - began < 4
        assert result.terminal.startswith("aborted")
    assert ended == ["cancelled"] * 5


# --------------------------------------------------------------------------------------- sessions, agents, compaction


async def test_the_session_ends_with_a_reason_and_within_a_limit() -> None:
    seen: list[str] = []

    async def slow(data: Json) -> None:
        seen.append(data["reason"])
        await asyncio.sleep(1_000)

    b = with_hooks("Hi.", rules=(HookRule("SessionEnd", "clear", slow),))
    await b.run()
    began = asyncio.get_running_loop().time()
    await b.engine.aclose("clear")
    assert seen == ["clear"]
    assert asyncio.get_running_loop().time() - began < 3


async def test_the_start_of_a_session_runs_once_also_when_it_was_begun_early() -> None:
    seen: list[Json] = []

    def start(data: Json) -> Json:
        seen.append(data)
        return {"systemMessage": "Hello.", **special(additionalContext="Early.")}

    b = with_hooks("Hi.", rules=(rule("SessionStart", start),))
    async with b.engine:
        await b.engine.warm()
        await asyncio.sleep(1)
        assert len(seen) == 1
        events = await b.run()
    assert len(seen) == 1
    assert hook_texts(b) == ["Early."]
    assert [notice.text.rpartition(": ")[2] for notice in only(events, ev.NoticeRaised)] == ["Hello."]


async def test_sub_agents_have_their_own_events() -> None:
    seen: list[tuple[str, str]] = []

    def start(data: Json) -> str:
        seen.append((data["hook_event_name"], data["agent_type"]))
        return "Be brief."

    blocks = rule("SubagentStop", {"decision": "block", "reason": "Go on."}, "explore")
    hooks = hooks_of(rule("SubagentStart", start, "explore"), blocks)
    assert await hooks.before_agent("a1", "explore", "look") == ("Be brief.",)
    assert await hooks.before_agent("a2", "plan", "look") == ()
    assert (await hooks.after_agent("a1", "explore", "found")).errors == ("Go on.",)
    assert (await hooks.after_agent("a2", "plan", "found")).errors == ()


async def test_hooks_around_a_compaction() -> None:
    seen: list[tuple[str, str]] = []

    def note(data: Json) -> str:
        seen.append((data["hook_event_name"], data.get("trigger") or data.get("source", "")))
        return "Remember the plan." if data["hook_event_name"] == "SessionStart" else ""

    names = ("PreCompact", "PostCompact", "SessionStart")
    b = with_hooks("word " * 3_000, "Short.", "Next.", rules=tuple(rule(name, note) for name in names))
    async with b.engine:
        await b.run("tell me " * 500)
        seen.clear()
        events = await collect(b.engine.compact())
        assert only(events, ev.ContextCompacted)
        assert seen == [("PreCompact", "manual"), ("PostCompact", "manual"), ("SessionStart", "compact")]
        assert b.engine.messages[-1].text == "Remember the plan."
        await b.run()


async def test_a_hook_can_block_a_compaction() -> None:
    blocks = rule("PreCompact", {"decision": "block", "reason": "Not now."})
    b = with_hooks("word " * 3_000, rules=(blocks,))
    async with b.engine:
        await b.run()
        events = await collect(b.engine.compact())
    assert only(events, ev.CompactionFailed)[0].text.startswith("A hook blocked the compaction")
    assert len(b.requests) == 1


# -------------------------------------------------------------------------------------------------- around other hooks


async def test_a_stop_requested_by_the_hooks_of_a_caller_is_kept() -> None:
    class Stops(Hooks):
        async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
            return HookVerdict(stop="Enough.")

    hooks = HookChain((Stops(), hooks_of(rule("PreToolUse", lambda _data: None))))
    assert (await hooks.before_tool(ToolUseBlock("id", "Look", {}), {})).stop == "Enough."


async def test_structured_output_comes_after_them_and_keeps_its_count() -> None:
    hooks = HookChain((hooks_of(rule("PreToolUse", special(permissionDecision="deny"))), RequireOutput("Out")))
    reported: list[ev.Event] = []

    async def emit(event: ev.Event) -> None:
        reported.append(event)

    bound = hooks.reporting_to(emit)
    assert (await bound.before_tool(ToolUseBlock("id", "Look", {}), {})).decision == "deny"
    assert len(reported) == 2
    from agentcli.agent.loop_state import LoopState
    from agentcli.tools.base import ToolContext

    state = LoopState((), ToolContext(cwd=Path("/work"), working_dirs=(Path("/work"),)))
    for _miss in range(4):
        assert (await hooks.reporting_to(emit).before_stop(state)).errors
    assert (await hooks.before_stop(state)).stop is not None


async def test_a_message_for_the_user_is_a_notice() -> None:
    says = rule("UserPromptSubmit", {"systemMessage": "\x1b[31mCareful."})
    b = with_hooks("Ok.", rules=(says,))
    events = await b.once()
    notice = only(events, ev.NoticeRaised)[0]
    assert notice.text.endswith(": Careful.")
    assert notice.code == "hook"


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_prompt_that_hooks_had_not_checked_yet_is_not_sent_later(leaves: bool) -> None:
    async def judge(data: Json) -> Json | None:
        await asyncio.sleep(5 if "secret" in data["prompt"] else 0)
        return None

    hook = HookRule("UserPromptSubmit", "", judge)
    b = with_hooks("Fine.", rules=(hook,))
    seen: list[ev.Event] = []
    async with b.engine:
        async with aclosing(b.engine.submit("the secret is 42")) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ev.HookStarted) and leaves:
                    break
                if isinstance(event, ev.HookStarted):
                    b.engine.abort()
        assert leaves or "Send it again" in only(seen, ev.RequestRepaired)[0].text
        await b.run("hello")
        assert "secret" not in str(b.requests)
        assert "secret" in str(b.engine.messages)
