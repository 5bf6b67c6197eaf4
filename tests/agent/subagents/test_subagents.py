"""Sub-agents in the loop: their events, results, limits, questions and ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Hooks, HookVerdict
from agentcli.agent.profile import Bounds
from agentcli.agent.subagents.shared import AgentPermissions
from agentcli.agent.subagents.specs import BUILTIN, AgentSpec
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules
from agentcli.tools.base import Output
from agentcli.tools.shell.bashoutput import KillShell
from tests.support.fakes import Bench, FakeTool, kinds, only, result_of
from tests.support.scripts import call, fails, pause, reply
from tests.support.subagents import WORKER, Children, agent_bench, task
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


def results(b: Bench) -> list[str]:
    return [result.text for message in b.engine.messages for result in message.tool_results]


def worker(*steps: Json | str, **rest: Any) -> Json:
    return reply(*steps, match=WORKER, **rest)


async def test_the_events_of_an_agent_are_framed_and_stay_out_of_the_log() -> None:
    look = FakeTool("Look")
    b, _children = agent_bench(
        reply("I delegate.", task()), "Done.", worker("First.", call("Look")), worker("Found it."), tools=[look]
    )
    async with b.engine:
        events = await b.run()
        result = result_of(events)
        assert (result.text, result.turns) == ("Done.", 2)
        of_agent = [event for event in events if event.agent]
        assert {event.agent for event in of_agent} == {"general-1"}
        assert kinds(of_agent)[0] == "AgentStarted"
        assert kinds(of_agent)[-1] == "AgentFinished"
        assert not only(of_agent, ev.SessionStarted) + only(of_agent, ev.Result) + only(of_agent, ev.LoopEnded)
        finished = of_agent[-1]
        assert (finished.status, finished.turns, finished.text) == ("completed", 2, "Found it.")
        assert results(b) == ["Found it."]
        assert [message.text for message in b.engine.messages if message.usage] == ["I delegate.", "Done."]
        # Totals count everything, and tell who it was.
        assert b.engine.costs.totals.usage == result.usage
        assert b.engine.costs.spending.by_agent.by_model["general-1"].requests == 2
        assert b.engine.costs.spending.by_agent.by_model["main"].requests == 2


async def test_the_prefix_of_the_parent_is_untouched_by_an_agent() -> None:
    b, _children = agent_bench(reply(task()), "Done.", worker("Found."))
    async with b.engine:
        events = await b.run()
        before, _child, after = b.requests
        for part in ("system", "tools", "model"):
            assert before[part] == after[part]
        assert [block["text"] for block in after["messages"][0]["content"]] == ["go"]
        assert len(after["messages"]) == len(before["messages"]) + 2
        assert not only(events, ev.PrefixBroken)


async def test_agents_beyond_the_limit_wait() -> None:
    b, _children = agent_bench(reply(*(task() for _ in range(4))), "Done.", worker(pause(5), "Part.", repeat=4), most=2)
    async with b.engine:
        began = asyncio.get_running_loop().time()
        await b.run()
        assert 10 <= asyncio.get_running_loop().time() - began < 12
        assert results(b) == ["Part."] * 4


def test_nested_agents_end_at_the_second_level_and_never_wait_for_a_slot() -> None:
    async def main() -> None:
        b, children = agent_bench(
            reply(task("outer")),
            "Done.",
            reply(task("inner", subagent_type="helper"), match="outer"),
            reply(call("Task", description="x", prompt="x"), match="You help"),
            reply("The helper is done.", match="You help"),
            worker("Both are done."),
            defined={"helper": AgentSpec("helper", "Helps.", "You help.")},
        )
        async with b.engine:
            events = await b.run()
            assert results(b) == ["Both are done."]
            started = only(events, ev.AgentStarted)
            assert [(one.agent, one.parent) for one in started] == [("general-1", ""), ("helper-1", "general-1")]
            tools = {
                one["system"][0]["text"][:8]: [tool["name"] for tool in one.get("tools", [])] for one in b.requests
            }
            assert "Task" in tools["You work"]
            assert "Task" not in tools["You help"]
            inner = children.logs[0]
            assert "There is no tool called 'Task'" in inner[2].tool_results[0].text

    async def full() -> None:
        b, _children = agent_bench(reply(task()), "Done.", worker(task()), worker("I did it myself."), most=1)
        async with b.engine:
            events = await b.run()
            assert results(b) == ["I did it myself."]
            refused = [one for one in only(events, ev.ToolFinished) if one.agent]
            assert "which is the limit" in refused[0].result.text

    run_virtual(main)
    run_virtual(full)


async def test_an_interruption_ends_agents_at_once_and_keeps_what_they_found() -> None:
    look = FakeTool("Look", seconds=60)
    b, _children = agent_bench(reply(task(), task()), worker("Half of it.", call("Look"), repeat=2), tools=[look])
    async with b.engine:
        asyncio.get_running_loop().call_later(5, b.engine.abort)
        began = asyncio.get_running_loop().time()
        events = await b.run()
        assert asyncio.get_running_loop().time() - began < 6
        assert result_of(events).terminal == "aborted_tools"
        assert len(results(b)) == 2
        for text in results(b):
            assert "was stopped before it was done" in text
            assert "Half of it." in text
        assert [one.status for one in only(events, ev.AgentFinished)] == ["stopped", "stopped"]
        assert look.ended == ["aborted", "aborted"]
        assert [one.outcome for one in only(events, ev.ToolFinished) if not one.agent] == ["interrupted"] * 2


async def test_failures_are_results_with_what_was_found() -> None:
    async def run(*replies: Json | str, **rest: Any) -> tuple[str, ev.AgentFinished]:
        b, _children = agent_bench(reply(task()), "Done.", *replies, tools=[FakeTool("Look")], **rest)
        async with b.engine:
            events = await b.run()
            (block,) = [r for message in b.engine.messages for r in message.tool_results]
            assert block.is_error
            return block.text, only(events, ev.AgentFinished)[0]

    first = worker("The start.", call("Look"))
    text, finished = await run(first, fails(400, "no such luck", "invalid_request_error", match=WORKER))
    assert finished.status == "failed"
    assert "no such luck" in text
    assert "The start." in text
    limited = {"general": replace(BUILTIN["general"], max_turns=1)}
    text, _finished = await run(first, defined=limited)
    assert "maximum number of turns" in text
    assert "The start." in text


async def test_the_budget_counts_agents_and_ends_the_run() -> None:
    dear = worker("Half.", call("Look"), usage={"input_tokens": 1_000_000})
    b, _children = agent_bench(reply(task()), dear, tools=[FakeTool("Look")], bounds=Bounds(max_budget_usd=1.0))
    async with b.engine:
        events = await b.run()
        assert result_of(events).subtype == "error_max_budget_usd"
        assert only(events, ev.AgentFinished)[0].status != "completed"
        assert b.engine.costs.totals.cost_usd > 1


def test_an_agent_asks_through_its_parent() -> None:
    async def main(answer: Answer) -> tuple[Bench, list[ev.Event], FakeTool]:
        ask = FakeTool("Change", safe=False, need="write")
        b, _children = agent_bench(
            reply(task()), "Done.", worker(call("Change")), worker("Changed."),
            tools=[ask], mode=PermissionMode.DEFAULT, interactive=True,
        )  # fmt: skip
        events: list[ev.Event] = []
        async with b.engine, aclosing(b.engine.submit("go")) as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, ev.PermissionRequested):
                    assert event.agent == "general-1"
                    assert b.engine.answer(event.request_id, answer)
        return b, events, ask

    b, events, ask = run_virtual(lambda: main(Answer("allow", rules=("Change",))))
    assert results(b) == ["Changed."]
    assert len(ask.runs) == 1
    # What was learnt holds for the whole session.
    assert "Change" in [entry.text for entry in b.engine.permissions.entries()]
    assert only(events, ev.PermissionResolved)[0].agent == "general-1"
    _b, events, ask = run_virtual(lambda: main(Answer("deny", interrupt=True)))
    assert ask.runs == []
    assert result_of(events).terminal == "aborted_tools"


async def test_a_rule_can_deny_one_agent() -> None:
    b, children = agent_bench(reply(task(), task(subagent_type="plan")), "Done.", worker("Worked."))
    b.engine.permissions._policy = replace(
        b.engine.permissions.policy, mode=PermissionMode.DEFAULT, deny=tuple(parse_rules(["Task(plan)"]))
    )
    async with b.engine:
        assert b.engine.test_permission("Task", "plan").behavior == "deny"
        assert b.engine.test_permission("Task", "explore").behavior == "allow"
        await b.run()
        worked, denied = results(b)
        assert worked == "Worked."
        assert "denied by" in denied.lower()
        assert len(children.built) == 1


async def test_the_end_of_an_agent_does_not_end_the_rights_of_a_skill() -> None:
    change = FakeTool("Change", safe=False, need="write")
    change.output = lambda _input: Output("changed", allows=("Change",), allows_from="a skill")
    b, _children = agent_bench(
        reply(call("Change")), reply(task()), reply(call("Change")), "Done.", worker("Worked."), tools=[change]
    )
    async with b.engine:
        rights = b.engine.permissions
        async with aclosing(b.engine.submit("go")) as stream:
            seen = [len(rights.policy.allow) async for event in stream if isinstance(event, ev.AgentFinished)]
        assert seen == [1]
        assert b.engine.permissions.policy.allow == ()


async def test_unknown_agents_are_refused_with_the_known_ones() -> None:
    b, _children = agent_bench(reply(task(subagent_type="nobody")), "Done.")
    async with b.engine:
        await b.run()
        assert "There are: explore, fork, general, plan" in results(b)[0]


async def test_agents_from_files_are_announced_once_and_when_they_change() -> None:
    defined = {"helper": AgentSpec("helper", "Helps with tests.", "You help.")}
    b, _children = agent_bench("One.", "Two.", "Three.", defined=defined)
    async with b.engine:
        await b.run()
        assert "- helper: Helps with tests." in str(b.requests[0]["messages"])
        await b.run()
        assert len(b.engine.messages) == 5
        defined["helper"] = AgentSpec("helper", "Helps with everything.", "You help.")
        await b.run()
        assert "- helper: Helps with everything." in str(b.requests[2]["messages"])
        assert b.requests[0]["tools"] == b.requests[2]["tools"]


class Watching(Hooks):
    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    async def before_agent(self, agent: str, name: str, prompt: str) -> tuple[str, ...]:
        self.seen.append(("before", agent, name, prompt))
        return ("Mind the gap.",)

    async def after_agent(self, agent: str, name: str, text: str, *, is_active: bool = False) -> HookVerdict:
        self.seen.append(("after", agent, name, text))
        return HookVerdict(errors=("Look again.",)) if len(self.seen) == 2 else HookVerdict()

    async def before_stop(self, state: LoopState) -> HookVerdict:
        self.seen.append(("stop",))
        return HookVerdict()


async def test_agents_have_hooks_of_their_own() -> None:
    hooks = Watching()
    b, _children = agent_bench(reply(task()), "Done.", worker("First."), worker("Second."), hooks=hooks)
    async with b.engine:
        await b.run()
        assert results(b) == ["Second."]
        assert hooks.seen == [
            ("before", "general-1", "general", "work"),
            ("after", "general-1", "general", "First."),
            ("after", "general-1", "general", "Second."),
            ("stop",),
        ]
        assert "Mind the gap." in str(b.requests[1]["messages"])


async def test_nested_agents_use_the_hooks_that_the_session_has_now() -> None:
    hooks = Watching()
    hooks.seen = [("none",)] * 5
    b, _children = agent_bench(
        reply(task("outer")),
        "Done.",
        reply(task("inner", subagent_type="helper"), match="outer"),
        reply("Helped.", match="You help"),
        worker("Both are done."),
        defined={"helper": AgentSpec("helper", "Helps.", "You help.")},
    )
    b.engine.session.use_hooks(hooks)
    async with b.engine:
        await b.run()
    agents = [(what, *rest[:1]) for what, *rest in hooks.seen[5:]]
    assert agents == [
        ("before", "general-1"),
        ("before", "helper-1"),
        ("after", "helper-1"),
        ("after", "general-1"),
        ("stop",),
    ]


# ------------------------------------------------------------------------------------------------- in the background


def background_bench(*more: Json | str, **rest: Any) -> tuple[Bench, Children]:
    started = reply(task("look far", run_in_background=True))
    return agent_bench(started, "Started it.", *more, **rest)


async def test_a_background_agent_reports_with_the_next_prompt() -> None:
    b, _children = background_bench("I have read it.", worker(pause(20), "The report."))
    async with b.engine:
        events = await b.run()
        assert result_of(events).text == "Started it."
        assert "works in the background" in results(b)[0]
        assert result_of(events).background_tasks[0]["task_id"] == "general-1"
        assert [one.status for one in b.engine.background.tasks] == ["running"]
        b.engine.abort()
        later: list[ev.Event] = []
        while not only(later, ev.AgentFinished):
            later += await b.engine.background.wait_for_changes()
        assert {event.agent for event in later} == {"general-1"}
        assert b.engine.background.output("general-1") == "The report."
        assert b.engine.costs.spending.by_agent.by_model["general-1"].requests == 1
        await b.run()
        assert "The report." in str(b.requests[-1]["messages"][-1])
        told = [message.text for message in b.engine.messages if "The report." in message.text]
        assert len(told) == 1


def test_a_background_agent_survives_an_interruption_and_is_shown_meanwhile() -> None:
    async def main() -> None:
        look = FakeTool("Look", seconds=60)
        b, _children = background_bench(reply(call("Look")), worker(pause(10), "The report."), tools=[look])
        async with b.engine:
            await b.run()
            asyncio.get_running_loop().call_later(30, b.engine.abort)
            events = await b.run()
            finished = only(events, ev.AgentFinished)
            assert [one.status for one in finished] == ["completed"]
            # It came while nothing else happened.
            assert events.index(finished[0]) < events.index(only(events, ev.ToolFinished)[0])

    async def interrupted() -> None:
        look = FakeTool("Look", seconds=60)
        b, _children = background_bench(reply(call("Look")), worker(pause(10), "The report."), tools=[look])
        async with b.engine:
            await b.run()
            asyncio.get_running_loop().call_later(2, b.engine.abort)
            await b.run()
            assert [run.status for run in b.engine.agents.running] == ["running"]

    run_virtual(main)
    run_virtual(interrupted)


def test_background_agents_can_be_stopped_and_end_with_the_session() -> None:
    async def main(close: bool) -> None:
        b, children = background_bench(worker("Half.", pause(100), "The report."))
        async with b.engine:
            await b.run()
            await asyncio.sleep(5)
            if not close:
                assert await b.engine.background.stop("general-1")
                assert not await b.engine.background.stop("general-9")
                assert b.engine.background.tasks[0].status == "killed"
        assert len(children.logs) == 1
        assert b.engine.agents.running == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(lambda: main(close=False))
    run_virtual(lambda: main(close=True))


async def test_agents_that_reach_the_budget_together_ask_once() -> None:
    dear = worker(pause(1), call("Look"), usage={"output_tokens": 200_000}, repeat=3)
    b, _children = agent_bench(
        reply(task(), task(), task()),
        "Done.",
        dear,
        worker("Found.", repeat=3),
        tools=[FakeTool("Look")],
        bounds=Bounds(max_budget_usd=1.0),
        interactive=True,
    )
    asked: list[ev.PermissionRequested] = []
    async with b.engine, aclosing(b.engine.submit("go")) as stream:
        async for event in stream:
            if isinstance(event, ev.PermissionRequested):
                asked.append(event)
                b.engine.costs.budget.set(None)
                b.engine.answer(event.request_id, Answer("deny"))
        assert results(b) == ["Found."] * 3
    assert len(asked) == 1


async def test_the_model_can_stop_a_background_agent() -> None:
    b, _children = background_bench(
        reply(call("KillShell", bash_id="general-1")),
        "Stopped it.",
        worker("Half.", pause(100), "The report."),
        tools=[KillShell()],
    )
    async with b.engine:
        await b.run()
        await asyncio.sleep(5)
        await b.run()
        assert "was stopped before it was done" in results(b)[-1]
        assert "Half." in results(b)[-1]
        assert b.engine.agents.running == []
        # Its report was the result.
        assert not [message for message in b.engine.messages if "has ended" in message.text]


def test_rights_that_a_skill_grants_an_agent_end_and_stay_its_own() -> None:
    session = LivePermissions(Policy())
    own = AgentPermissions(session)
    assert own.grant_rules(["Bash(make *)", "Bash(ls *)"], "a skill") == []
    assert [rule.text for rule in own.policy.allow] == ["Bash(make *)", "Bash(ls *)"]
    assert session.policy.allow == ()
    own.revoke_rules(but_from="another skill")
    assert own.policy.allow == ()
